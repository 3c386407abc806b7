"""Child processes that never outlive the measurement.

Every child leads a process group of its own, which is killed when the ``with``
block ends, however it ends. A child speaks in lines: ``expect`` waits, for a
limited time, for one that begins with a given word.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.peers.result import PeerFailedError, PeerMissingError

_ROOT = Path(__file__).parents[2]
"""Children import ``bench`` from here, wherever the command was started."""


class Child:
    """One process, its input, and the lines it prints (both streams)."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, **environment},
                cwd=_ROOT,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError):
            # Refused is what a search through a folder of the PATH that is not ours says.
            raise PeerMissingError(f"{command[0]} is not installed") from None
        self._name = command[0]
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tail: deque[str] = deque(maxlen=5)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError):  # closed under our feet by kill()
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def expect(self, word: str, timeout_s: float) -> str:
        """Return the next line that begins with ``word``; skip others."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise PeerFailedError(
                    f"{self._name}: no {word!r} within {timeout_s:.0f} s{self._said()}"
                ) from None
            if line is None:
                raise PeerFailedError(f"{self._name} ended before {word!r}{self._said()}")
            if line.startswith(word):
                return line
            self._tail.append(line.strip())

    def lines_until_end(self, timeout_s: float) -> list[str]:
        """Return everything the process still prints, up to its end."""
        deadline = time.monotonic() + timeout_s
        lines: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise PeerFailedError(
                    f"{self._name} did not end within {timeout_s:.0f} s"
                ) from None
            if line is None:
                return lines
            lines.append(line)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise PeerFailedError(f"{self._name} ended early{self._said()}") from None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def _said(self) -> str:
        return f" (it said: {' / '.join(self._tail)})" if self._tail else ""


class Children:
    """``with Children() as children``: all that were started are gone at the end."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        child = Child(command, environment or {})
        self._children.append(child)
        return child

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.kill()
