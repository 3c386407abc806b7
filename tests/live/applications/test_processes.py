"""The shared text on three real processes: the example program, as people would run it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cluster import ROOT, Cluster

pytestmark = pytest.mark.integration

EXAMPLES = ROOT / "examples" / "live"


class Window:
    """A terminal in which the example runs."""

    def __init__(self, gms: str, reference: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, str(EXAMPLES / "shared_text.py"), gms, str(reference)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        self._output = b""

    def type(self, line: str) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(f"{line}\n".encode())
        self.child.stdin.flush()

    @property
    def text(self) -> str:
        """The text that was printed last."""
        assert self.child.stdout is not None
        while select.select([self.child.stdout], [], [], 0.0)[0]:
            data = os.read(self.child.stdout.fileno(), 1 << 16)
            if not data:
                break
            self._output += data
        return self._output.decode().rpartition("--\n")[2].strip("\n")

    def end(self) -> int:
        assert self.child.stdin is not None
        self.child.stdin.close()
        return self.child.wait(30)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def await_lines(windows: list[Window], expected: set[str], timeout_s: float = 60.0) -> str:
    """Wait until all windows show the same text of these lines."""
    deadline = time.monotonic() + timeout_s
    while True:
        texts = [window.text for window in windows]
        if len(set(texts)) == 1 and set(texts[0].split("\n")) == expected:
            return texts[0]
        assert time.monotonic() < deadline, f"they show {texts}"
        assert all(window.child.poll() is None for window in windows)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["shared-text", "shared-text-over-a-group"])
def test_three_processes_share_a_text(reference: str) -> None:
    path = EXAMPLES / f"{reference}.liveobject"
    with Cluster() as cluster:
        windows: list[Window] = []
        try:
            windows.append(Window(cluster.address, path))
            windows[0].type("first")
            await_lines(windows, {"first"})
            windows.append(Window(cluster.address, path))
            await_lines(windows, {"first"})
            for number in range(5):
                windows[0].type(f"one {number}")
                windows[1].type(f"two {number}")
            lines = {"first", *(f"{who} {n}" for who in ("one", "two") for n in range(5))}
            await_lines(windows, lines)
            windows[0].child.send_signal(signal.SIGKILL)
            windows.pop(0).kill()
            windows.append(Window(cluster.address, path))
            await_lines(windows, lines)
            windows[1].type("late")
            await_lines(windows, lines | {"late"})
            assert [window.end() for window in windows] == [0, 0]
        finally:
            for window in windows:
                window.kill()
