"""How a sender process in Python begins and ends, whatever it sends through.

A subscription takes effect some time after it is made, so the sender greets
until the parent, having seen every receiver greeted, tells it to go; its last
message says how many went before.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Callable

HELLO = b"?"
_END = struct.Struct("!cQ")
_WAIT_S_MAX = 30.0


def greet_until_told(send: Callable[[bytes], object]) -> None:
    told = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        told.set()

    threading.Thread(target=listen, daemon=True).start()
    deadline = time.monotonic() + _WAIT_S_MAX
    while not told.wait(0.02):
        send(HELLO)
        if time.monotonic() > deadline:
            sys.exit("nobody said go")


def send_for(seconds: float, size: int, send: Callable[[bytes], object]) -> None:
    """Send as fast as ``send`` allows, then the end; wait for the parent to end us."""
    payload = bytes(size)
    sent = 0
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        for _ in range(100):
            send(payload)
        sent += 100
    send(_END.pack(b"E", sent))
    # What is still queued needs a living process. The parent closes this pipe or kills us.
    sys.stdin.readline()


def parse_end(data: bytes) -> int:
    """Return how many messages the sender sent."""
    _, sent = _END.unpack(data)
    assert isinstance(sent, int)
    return sent
