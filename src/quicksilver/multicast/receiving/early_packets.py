"""Packets that arrived before this node knew of their view or sender.

A sender may learn of a new view before a receiver does. Its packets are kept
for a while and handled once the view is installed; what never becomes known is
forgotten (dissertation 4.3.7, "briefly buffers unexpected messages").
"""

from __future__ import annotations

from quicksilver.wire.ids import Address

PER_PACKET_BYTES = 640
"""Memory that a kept packet takes besides its bytes, its entry in the table included."""

Name = tuple[int, int, int]
"""Region, view, sender."""


class EarlyPackets:
    """Packets by the view and sender that they wait for, bounded in bytes and time."""

    def __init__(self, bytes_max: int, keep_s: float) -> None:
        self._bytes_max = bytes_max
        self._keep_s = keep_s
        self._packets: dict[Name, list[tuple[bytes, Address]]] = {}
        self._expires: dict[Name, float] = {}
        self.bytes = 0

    def keep(self, name: Name, data: bytes, source: Address, now: float) -> bool:
        """Keep a packet; False when there is no room."""
        size = len(data) + PER_PACKET_BYTES
        if self.bytes + size > self._bytes_max:
            return False
        self._packets.setdefault(name, []).append((data, source))
        self._expires.setdefault(name, now + self._keep_s)
        self.bytes += size
        return True

    def names(self) -> list[Name]:
        return sorted(self._packets)

    def take(self, name: Name) -> list[tuple[bytes, Address]]:
        """Remove and return what waits under a name, in the order of arrival."""
        packets = self._packets.pop(name, [])
        self._expires.pop(name, None)
        self.bytes -= sum(len(data) + PER_PACKET_BYTES for data, _ in packets)
        return packets

    def clear(self) -> None:
        """Forget everything."""
        self._packets.clear()
        self._expires.clear()
        self.bytes = 0

    def next_timeout(self) -> float | None:
        return next(iter(self._expires.values())) if self._expires else None

    def handle_timeout(self, now: float) -> None:
        for name in [n for n, when in self._expires.items() if when <= now]:
            self.take(name)
