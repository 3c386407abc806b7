"""Terminal windows: programs that a page starts, what they print and what is typed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.docs.comparing import find_shown

LONG_S = 60.0
"""What has not been printed by then never will be."""


class Window:
    """A program, the lines that it has printed, and how many of them a page has shown."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        # A group of its own: what a shell started in it ends with it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._taken = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def printed(self) -> str:
        """All that was printed and not yet shown by the page."""
        return "\n".join(self._lines[self._taken :])

    @property
    def all_printed(self) -> str:
        """All that was ever printed."""
        return "\n".join(self._lines)

    def take_shown(self, shown: str, *, vary: bool = False) -> bool:
        """Wait until the next lines are what a page shows; False if they never are."""
        limit = time.monotonic() + LONG_S
        known = 0
        with self._changed:
            while True:
                printed = self._lines[self._taken :]
                count = find_shown(shown, printed, known=known, vary=vary)
                known = len(printed)
                if count is not None:
                    self._taken += count
                    return True
                left = limit - time.monotonic()
                if self._is_over or left <= 0:
                    return False
                self._changed.wait(left)

    def take_line(self, timeout_s: float = LONG_S) -> str | None:
        """Return the next line; None if there is none."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or len(self._lines) > self._taken, timeout_s
            )
            if len(self._lines) == self._taken:
                return None
            self._taken += 1
            return self._lines[self._taken - 1]

    def type(self, line: str) -> None:
        """Type a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait(self, timeout_s: float) -> int | None:
        """Wait until it ends; returns its exit code, None if it does not end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(LONG_S)
        return code

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait for the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        self.wait(LONG_S)

    def close(self) -> None:
        """End it, and all that it started."""
        for number, patience_s in ((signal.SIGINT, 5.0), (signal.SIGKILL, LONG_S)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            if self.wait(patience_s) is not None:
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.join(LONG_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
