"""Packets of one stream that came ahead of a hole, and what they are charged."""

from __future__ import annotations

from quicksilver.multicast.receiving.memory import Room
from quicksilver.wire.packets import Body, Messages, Start

PER_PACKET_BYTES = 256
PER_MESSAGE_BYTES = 48
PER_MIXED_MESSAGE_BYTES = 128
PER_OLDER_STREAM_BYTES = 176
"""What a waiting packet costs besides its bytes: objects, tables, references."""


def overhead_of(body: Body) -> int:
    """Return what a waiting packet is charged besides its own bytes."""
    if type(body) is Messages:
        each = PER_MESSAGE_BYTES if body.group is not None else PER_MIXED_MESSAGE_BYTES
        return PER_PACKET_BYTES + each * len(body.payloads)
    if type(body) is Start:
        return PER_PACKET_BYTES + PER_OLDER_STREAM_BYTES * len(body.after)
    return PER_PACKET_BYTES


class Ahead:
    """Packets that wait for an earlier one; their stream counts as a user of the room."""

    __slots__ = ("_is_user", "_room", "packets")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.packets: dict[int, tuple[Body, int]] = {}
        """By number: the packet, and what it is charged. Whoever takes one out gives the
        charge back when it is delivered, and calls ``count_user`` at the end."""
        self._is_user = False

    def add(self, sequence: int, body: Body, size: int) -> None:
        """Keep a packet that the room takes."""
        self._room.used += size
        self.packets[sequence] = (body, size)
        if not self._is_user:
            self.count_user()

    def drop_from(self, sequence: int) -> None:
        """Packets from here on do not exist, or nobody will deliver them."""
        for number in [s for s in self.packets if s >= sequence]:
            self._room.used -= self.packets.pop(number)[1]
        self.count_user()

    def count_user(self) -> None:
        """Count the stream among those that need room, as long as packets wait in it."""
        is_user = bool(self.packets)
        if is_user != self._is_user:
            self._is_user = is_user
            self._room.users += 1 if is_user else -1
