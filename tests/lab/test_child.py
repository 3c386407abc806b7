"""What a child says reaches its parent line by line, whatever else happens to the process."""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.slow

LONG = 300_000
"""Several times what a pipe holds: whoever says it has to wait for the reader."""
LINES = 10

TWO_THREADS = f"""
import threading
from quicksilver.lab.child import tell

def say(name):
    for number in range({LINES}):
        tell([name, number, name * {LONG}])

other = threading.Thread(target=say, args=["a"])
other.start()
say("b")
other.join()
"""
ONE_LINE = f"""
from quicksilver.lab.child import tell

tell("a" * {LONG})
tell("b")
"""

unbuffered_or_not = pytest.mark.parametrize("unbuffered", ["", "1"])
"""PYTHONUNBUFFERED: containers set it, for example."""


@contextmanager
def child(code: str, unbuffered: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[bytes]) -> list[object]:
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout]


@unbuffered_or_not
def test_lines_of_two_threads_are_not_mixed(unbuffered: str) -> None:
    """A soak's worker says what it heard on one thread, and how its flush ended on another."""
    with child(TWO_THREADS, unbuffered) as process:
        lines = said(process)
    for name in "ab":
        expected = [[name, number, name * LONG] for number in range(LINES)]
        assert [line for line in lines if isinstance(line, list) and line[0] == name] == expected
    assert len(lines) == 2 * LINES


@unbuffered_or_not
def test_a_line_is_whole_although_its_process_was_halted(unbuffered: str) -> None:
    """A soak halts workers at any moment: also while the pipe is full of what they say."""
    with child(ONE_LINE, unbuffered) as process:
        assert process.stdout is not None
        wait_until_full(process.stdout.fileno())
        process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        # It must run before anything is read: then the write that it was in ends early.
        os.waitpid(process.pid, os.WCONTINUED)
        assert said(process) == ["a" * LONG, "b"]


def wait_until_full(pipe: int) -> None:
    """Wait until a pipe holds as much as it can."""
    held, capacity = array.array("i", [0]), fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    deadline = time.monotonic() + 20
    while held[0] < capacity:
        assert time.monotonic() < deadline, f"the child said only {held[0]} bytes"
        time.sleep(0.01)
        fcntl.ioctl(pipe, termios.FIONREAD, held)
