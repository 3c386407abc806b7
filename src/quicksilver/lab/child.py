"""What a process that the laboratory started does: speak to its parent, and end with it.

A child speaks JSON lines: results on standard output, orders on standard input.
It ends with its parent, whatever ended that one. The child itself asks the kernel
for this (a function run between fork and exec could deadlock a parent with
threads). The parent's number travels in the environment: a parent that died before
the child could ask is noticed by comparing it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar

import msgspec

PARENT_VARIABLE = "QUICKSILVER_PARENT"
_PR_SET_PDEATHSIG = 1

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode


def parent_environment() -> dict[str, str]:
    """Return the environment for a child that must end with this process."""
    return os.environ | {PARENT_VARIABLE: str(os.getpid())}


def die_with_parent() -> None:
    """End this process when its parent does, if the parent asked for that."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if parent.isdigit():
        end_with(int(parent))


def end_with(parent: int) -> None:
    """Have the kernel kill this process when the one that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def run_child(work: Callable[[], None]) -> None:
    """Do a child's work; SIGTERM ends it cleanly, an error is one line and exit code 1."""
    die_with_parent()
    signal.signal(signal.SIGTERM, _end)
    try:
        work()
    except Exception as error:  # noqa: BLE001  # the parent shows the line; the exit code tells
        sys.stderr.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n")
        sys.exit(1)


def _end(number: int, frame: FrameType | None) -> None:
    del number, frame
    sys.exit(0)


_telling = threading.Lock()


def tell(result: Any) -> None:
    """Say one thing to the parent, as a JSON line, in one piece; any thread."""
    # Bytes: what may be said must not depend on the locale.
    rest = memoryview(_encode(result) + b"\n")
    out = sys.stdout.buffer
    # With PYTHONUNBUFFERED this is the bare file. Nothing else keeps the lines of two threads
    # apart then, and a write into a full pipe ends early when the process is halted.
    with _telling:
        while rest:
            rest = rest[out.write(rest) :]
        out.flush()


def orders(kind: type[T]) -> Iterator[T]:
    """Yield what the parent orders, until it closes the line."""
    decode = msgspec.json.Decoder(kind).decode
    for line in sys.stdin.buffer:
        yield decode(line)


def next_order(kind: type[T]) -> T:
    """Wait for one order; the end of the line ends this process."""
    for order in orders(kind):
        return order
    sys.exit(0)


def poll_orders(kind: Any, every_s: float) -> Iterator[Any]:
    """Yield orders as they come, and None when none came for a while, until the input ends."""
    decode = msgspec.json.Decoder(kind).decode
    stdin, pending = sys.stdin.fileno(), b""
    while True:
        if not select.select([stdin], [], [], every_s)[0]:
            yield None
            continue
        data = os.read(stdin, 1 << 16)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            yield decode(line)


def wait_for_end() -> None:
    """Wait until the parent closes the line."""
    sys.stdin.buffer.read()
