"""Asking a GMS what it knows: snapshots, and rates between two of them."""

from __future__ import annotations

import socket
import time
from typing import Self

from quicksilver.net.frames import FrameDecoder, FrameError, encode_frame
from quicksilver.node.errors import GmsUnreachableError, RefusedError
from quicksilver.node.options import parse_gms_address
from quicksilver.stdx.text import printable
from quicksilver.wire.gms import (
    UPDATE_BYTES_MAX,
    Inspect,
    NodeStatus,
    Refused,
    Snapshot,
    encode,
    parse_reply,
)

ANSWER_S = 5.0


class Inspector:
    """A connection to a GMS for looking only; opens at first use, reopens when lost."""

    def __init__(self, gms: str) -> None:
        self._gms = gms
        self._address = parse_gms_address(gms)
        self._socket: socket.socket | None = None
        self._decoder = FrameDecoder(UPDATE_BYTES_MAX)
        self._request = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self) -> Snapshot:
        """Return a fresh snapshot; raises GmsUnreachableError or RefusedError."""
        try:
            return self._ask()
        except (OSError, UnicodeError, FrameError) as error:
            self.close()
            cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise GmsUnreachableError(self._gms, cause) from None

    def _ask(self) -> Snapshot:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, ANSWER_S)
            self._decoder = FrameDecoder(UPDATE_BYTES_MAX)
        self._request += 1
        self._socket.sendall(encode_frame(encode(Inspect(self._request))))
        while True:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the connection was closed; is it a quicksilver GMS?")
            for frame in self._decoder.feed(data):
                reply = parse_reply(frame)
                if isinstance(reply, Refused):
                    self.close()
                    raise RefusedError(printable(reply.reason))
                if isinstance(reply, Snapshot) and reply.request == self._request:
                    return reply


class RateMeter:
    """Differences of the counters that heartbeats carried, per second.

    Heartbeats arrive at moments of their own, so a rate is taken between two
    different ones, at the times they were made: silence tells how old one is.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, dict[str, float]]] = {}
        self._rates: dict[int, dict[str, float]] = {}

    def note(self, node: NodeStatus, now: float) -> None:
        """Take what a snapshot says of a node at ``now``."""
        made_at = now - node.silence_s
        counts = {k: float(v) for k, v in node.stats.items() if not isinstance(v, str)}
        before = self._before.get(node.id)
        if before is None:
            self._before[node.id] = (made_at, counts)
            return
        elapsed = made_at - before[0]
        if elapsed < 0.05:
            return  # the same heartbeat again
        self._rates[node.id] = {
            key: max(0.0, value - before[1].get(key, 0.0)) / elapsed
            for key, value in counts.items()
        }
        self._before[node.id] = (made_at, counts)

    def rate(self, node: int, counter: str) -> float:
        """Return how fast a counter grows; 0 while there is only one heartbeat."""
        return self._rates.get(node, {}).get(counter, 0.0)

    def forget_except(self, nodes: set[int]) -> None:
        """Drop nodes that are gone."""
        for table in (self._before, self._rates):
            for node in [node for node in table if node not in nodes]:
                del table[node]


def find_slow(snapshot: Snapshot) -> dict[int, list[int]]:
    """Return the nodes that senders wait for, each with those senders."""
    slow: dict[int, list[int]] = {}
    for node in snapshot.nodes:
        waits_for = node.stats.get("waits_for")
        if isinstance(waits_for, int) and waits_for:
            slow.setdefault(waits_for, []).append(node.id)
    return slow


def watch(inspector: Inspector, meter: RateMeter) -> Snapshot:
    """Take a snapshot and feed the meter with it."""
    snapshot = inspector.ask()
    now = time.monotonic()
    for node in snapshot.nodes:
        meter.note(node, now)
    meter.forget_except({node.id for node in snapshot.nodes})
    return snapshot
