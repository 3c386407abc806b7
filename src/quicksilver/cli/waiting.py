"""Saying what a command waits for, as soon as it is clear that it waits.

A command that is silent for ten seconds looks broken. What takes longer than a moment is
named on standard error: the GMS that does not answer, the group that nobody has joined.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quicksilver.cli.output import remark

MOMENT_S = 0.3
"""Waiting for less than this is not worth a line."""

PROBE_S = 2.0


@contextmanager
def saying(what: Callable[[], str | None], after_s: float = MOMENT_S) -> Iterator[None]:
    """Say what the block waits for, unless it ends within a moment; None says nothing."""
    lock = threading.Lock()
    is_over = False

    def tell() -> None:
        text = what()
        with lock:
            if text is not None and not is_over:
                remark(text)

    timer = threading.Timer(after_s, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            is_over = True
        timer.cancel()


@contextmanager
def waiting_for_gms(gms: str) -> Iterator[None]:
    """Say that the GMS does not answer, and why, unless the block connects to it in a moment."""
    with saying(lambda: describe_wait(gms)):
        yield


def describe_wait(gms: str) -> str:
    """Try to reach a GMS, and return what is waited for."""
    from quicksilver.node.options import parse_controller_path, parse_gms_address

    path = parse_controller_path(gms)
    if path is not None:
        return f"waiting for the controller at {path}"
    try:
        socket.create_connection(parse_gms_address(gms), PROBE_S).close()
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"no GMS answers at {gms} ({cause}); trying again"
    return f"waiting for the GMS at {gms}"
