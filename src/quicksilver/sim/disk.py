"""A disk of a simulated host: takes time to write, and may be full."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.sim.events import EventQueue
from quicksilver.sim.host import SimHost

SEEK_S = 1e-4
BYTES_PER_S = 500e6


class SimDisk:
    """``core.ports.DiskPort`` in virtual time; writes are done one after the other."""

    def __init__(self, host: SimHost, events: EventQueue, bytes_max: int) -> None:
        self._host = host
        self._events = events
        self._bytes_max = bytes_max
        self._packets: dict[int, bytes] = {}
        self._next = 0
        self._free_at = 0.0
        self.used = 0

    def write(self, packet: bytes, done: Callable[[int | None], None]) -> None:
        if self.used + len(packet) > self._bytes_max:
            self._host.submit_disk(lambda: done(None))
            return
        place = self._next
        self._next += 1
        self._packets[place] = packet
        self.used += len(packet)
        begun = max(self._free_at, self._events.now)
        self._free_at = begun + SEEK_S + len(packet) / BYTES_PER_S
        self._events.at(self._free_at, lambda: self._host.submit_disk(lambda: done(place)))

    def read(self, place: int) -> bytes | None:
        return self._packets[place]

    def free(self, place: int) -> None:
        self.used -= len(self._packets.pop(place))
