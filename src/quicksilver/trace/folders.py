"""Where traces are: a folder of runs, each a folder of kinds of records.

``DIR/run=NAME/kind=RoundCompleted/writer-000000.parquet``: the names that Spark
and others take for columns. A file whose name begins with a dot or an underscore
is none of the trace's rows: unfinished, or about the run as a whole.
"""

from __future__ import annotations

import re
from pathlib import Path

RUN = "run="
KIND = "kind="
TIMELINE = "_timeline.jsonl"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def safe_name(text: str) -> str:
    """Return a text as it can stand in the name of a folder and of a partition."""
    return _UNSAFE.sub("-", text).strip("-.") or "run"


def split_target(target: Path, default_run: str) -> tuple[Path, str]:
    """Return the folder of runs and the run's name, which ``run=NAME`` at the end gives."""
    if target.name.startswith(RUN) and len(target.name) > len(RUN):
        return target.parent, safe_name(target.name.removeprefix(RUN))
    return target, safe_name(default_run)


def run_folder(folder: Path, run: str) -> Path:
    return folder / f"{RUN}{run}"


def find_runs(folder: Path) -> list[str]:
    """Return the names of the runs in a folder, in order."""
    return sorted(
        each.name.removeprefix(RUN)
        for each in folder.iterdir()
        if each.is_dir() and each.name.startswith(RUN)
    )
