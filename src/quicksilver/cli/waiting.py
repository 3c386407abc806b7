"""Saying what a command waits for, as soon as it is clear that it waits.

A command that is silent for ten seconds looks broken. What takes longer than a moment is
named on standard error: the GMS that does not answer, the group that nobody has joined.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from quicksilver.cli.output import remark

MOMENT_S = 0.3
"""Waiting for less than this is not worth a line."""

PROBE_S = 2.0
"""How long to try to connect …"""

ANSWER_S = 0.5
"""… and how long whoever is there has to say what it is."""


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
    """Say what does not answer, and why, unless the block connects to it in a moment."""
    with saying(lambda: describe_wait(gms)):
        yield


def describe_wait(gms: str) -> str:
    """Try to reach a GMS, or what is there instead, and return what is waited for."""
    from quicksilver.node.options import parse_controller_path, parse_gms_address

    path = parse_controller_path(gms)
    if path is not None:
        return f"waiting for the controller at {path}"
    try:
        scope = _find_scope(parse_gms_address(gms))
    except (OSError, UnicodeError) as error:
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"no GMS answers at {gms} ({cause}); trying again"
    what = f"the manager of scope {scope!r}" if scope else "the GMS"
    return f"waiting for {what} at {gms}"


def _find_scope(address: tuple[str, int]) -> str:
    """Return the scope whose manager is at an address; empty: it is a GMS, or says nothing."""
    from quicksilver.net.frames import FrameDecoder, FrameError, encode_frame
    from quicksilver.stdx.text import printable
    from quicksilver.wire.gms import GREETING_BYTES_MAX, Goodbye, Refused, encode, parse_reply

    with socket.create_connection(address, PROBE_S) as probe, suppress(OSError, FrameError):
        probe.settimeout(ANSWER_S)
        # A GMS ends the connection of a stranger that leaves; a manager says what it is.
        probe.sendall(encode_frame(encode(Goodbye())))
        decoder = FrameDecoder(GREETING_BYTES_MAX)
        while data := probe.recv(GREETING_BYTES_MAX):
            for frame in decoder.feed(data):
                reply = parse_reply(frame)
                return printable(reply.scope) if isinstance(reply, Refused) else ""
    return ""
