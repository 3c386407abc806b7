"""A GMS and a recorder as processes, for tests of the sink."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quicksilver.recorder.reading import LogReader
from tests.cli.processes import read_event, running


@contextmanager
def recording(gms: str, path: Path, *groups: str) -> Iterator[str]:
    """Keep a recorder running, and stop it as Ctrl-C does; yields its address."""
    with running(
        "record",
        *groups,
        *("--path", str(path), "--gms", gms, "--interface", "lo", "--listen", "127.0.0.1:0"),
        *("--flush-ms", "20", "--json"),
    ) as process:
        yield str(read_event(process)["address"])
        stop(process)


def stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a recorder and wait for its end."""
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)


def rows(path: Path, group: str) -> list[dict[str, Any]]:
    """All rows of a log."""
    log = LogReader(path, group)
    return [row for part in log.read(*log.bounds()) for row in part.to_pylist()]


def wait_rows(path: Path, group: str, count: int, timeout_s: float = 20.0) -> None:
    """Wait until a log has so many rows."""
    log = LogReader(path, group)
    deadline = time.monotonic() + timeout_s
    while log.bounds()[1] < count:
        assert time.monotonic() < deadline, f"{log.bounds()[1]} of {count} rows came"
        time.sleep(0.05)
