"""Child processes of a measurement that speak JSON lines and never outlive it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class BenchmarkError(Exception):
    """A process of the benchmark failed; carries what it said."""

    def __init__(self, role: str, problem: str) -> None:
        super().__init__(role, problem)
        self.role = role
        self.problem = problem

    def __str__(self) -> str:
        return f"the benchmark's {self.role} failed: {self.problem}"


class Child:
    """One process and its two pipes."""

    def __init__(self, role: str, argv: Sequence[str], prefix: Sequence[str] = ()) -> None:
        self.role = role
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-X", "faulthandler", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self) -> dict[str, Any]:
        """Return the next JSON line; raises BenchmarkError at the end."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise BenchmarkError(self.role, f"it ended with code {code} before it answered")
        found: dict[str, Any] = json.loads(line)
        return found

    def write(self, **fields: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fields) + "\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        """Close its input, wait a little, then kill."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
        except OSError:
            pass  # it is gone already
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Family:
    """All children of one run; none survives it."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def start(self, role: str, argv: Sequence[str], prefix: Sequence[str] = ()) -> Child:
        child = Child(role, argv, prefix)
        self._children.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in reversed(self._children):
            if kind is not None:
                child.signal(9)
            child.end()
