"""Traces of commands: where ``--trace`` puts them, and what a run is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.cli.output import remark

if TYPE_CHECKING:
    from quicksilver.trace.parquet import ParquetTrace


def name_run(command: str) -> str:
    """Return a name for a run that begins now."""
    return f"{command}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def name_target(target: Path | None, command: str) -> Path | None:
    """Return where a run's records go, for the processes that share the run."""
    from quicksilver.trace.folders import run_folder, split_target

    if target is None:
        return None
    return run_folder(*split_target(target, name_run(command)))


@contextmanager
def opening_trace(
    target: Path | None, run: str, writer: str, *, waits: bool = False
) -> Iterator[ParquetTrace | None]:
    """Have a trace meanwhile, if one is wanted; says where it is, and what is missing of it."""
    if target is None:
        yield None
        return
    from quicksilver.trace.folders import split_target
    from quicksilver.trace.parquet import ParquetTrace

    folder, name = split_target(target, run)
    with ParquetTrace(folder, name, writer, waits=waits) as trace:
        yield trace
    if trace.problem is not None:
        remark(f"the trace in {trace.folder} is not whole: {trace.problem}")
    elif trace.dropped:
        remark(f"the trace in {trace.folder} lacks {trace.dropped:,} records: no room for them")
    else:
        remark(f"trace: {trace.folder}, {trace.written:,} records")
