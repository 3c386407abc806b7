"""A GMS and a recorder as processes, for tests of the sink."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quicksilver.recorder.reader import LogReader
from tests.cli.processes import read_event, running


class Recording:
    """A recorder that runs: where it is, and at its end what it says it did."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ended: list[dict[str, Any]] = []
        """What it recorded, by group; filled when it has stopped."""


@contextmanager
def recording(gms: str, path: Path, *groups: str) -> Iterator[Recording]:
    """Keep a recorder running, and stop it as Ctrl-C does."""
    with running(
        "record",
        *groups,
        *("--path", str(path), "--gms", gms, "--interface", "lo", "--listen", "127.0.0.1:0"),
        *("--flush-ms", "20", "--json"),
    ) as process:
        made = Recording(str(read_event(process)["address"]))
        assert process.stdout is not None
        # It tells its progress all the time: somebody must read, or it would wait.
        last: deque[str] = deque(maxlen=1)
        reader = threading.Thread(target=last.extend, args=(process.stdout,), daemon=True)
        reader.start()
        yield made
        process.send_signal(signal.SIGINT)
        process.wait(20)
        reader.join(20)
        made.ended = json.loads(last[0])["groups"]


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
