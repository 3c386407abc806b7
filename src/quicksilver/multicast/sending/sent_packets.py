"""The packets of a stream that members may still need.

Those in the window are not acknowledged. Those set aside are, by all who are waited for;
a member that is not waited for may lack them, and they are kept for it within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from quicksilver.core.ports import DiskPort
from quicksilver.multicast.receiving.memory import Budget
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import head_of, list_messages

Parts = tuple[int, list[bytes]]
"""Length of a packet, and what it is joined from."""


SPILLING_MAX = 64
"""Packets that are being written at once: enough for a disk to be busy."""

ENTRY_BYTES = 240
"""Memory that a packet on disk takes, besides its head: an entry of a table, and numbers."""


class SentPackets(Mapping[int, bytes]):
    """Packets in the window, and packets set aside for members that are not waited for.

    Nearly all are acknowledged and never looked at again, so a packet is kept as
    the parts that it was joined from, and joined again in the rare case. What is
    sent is then freed at once and its memory, still in the cache, takes the next
    packet: 9 µs to make one instead of 12.6 with 200 kept.
    """

    __slots__ = (
        "_ahead",
        "_aside",
        "_aside_from",
        "_aside_to",
        "_budget",
        "_disk",
        "_dropped_below",
        "_on_disk",
        "_spill_from",
        "_spilling",
        "_window",
        "aside_bytes",
        "disk_bytes",
        "dropped",
        "entry_bytes",
    )

    def __init__(self, budget: Budget, disk: DiskPort | None = None) -> None:
        """``budget`` bounds what all streams of a node set aside in memory.

        ``disk`` takes what is past half of that, the oldest first; to know where it is takes
        memory as well, of the same budget.
        """
        self._window: dict[int, bytes | Parts] = {}
        self._ahead: dict[int, bytes] = {}
        """Heads of packets that all have and that come after one that somebody lacks: until
        that is repaired they are acknowledged, and not delivered."""
        self._aside: dict[int, bytes | Parts] = {}
        self._aside_from = 0
        """Nothing below is set aside in memory, and nothing from ``_aside_to`` on."""
        self._aside_to = 0
        self._budget = budget
        self._disk = disk
        self._on_disk: dict[int, tuple[int, int, bytes]] = {}
        """Packets set aside that are on disk: their place, length, and head."""
        self.disk_bytes = 0
        self.entry_bytes = 0
        """What it takes to know of them."""
        self._spilling: set[int] = set()
        """Packets that are being written; they are in memory as well."""
        self._spill_from = 0
        """All packets below that were set aside are on disk, being written, or dropped."""
        self.aside_bytes = 0
        self.dropped: dict[int, RangeSet] = {}
        """Numbers of messages, by group, that were set aside and dropped for lack of room,
        while a member may lack them."""
        self._dropped_below = 0
        """That member has them when it has all packets below this."""

    def keep(self, sequence: int, packet: bytes) -> None:
        """Keep a packet as it is."""
        self._window[sequence] = packet

    def keep_parts(self, sequence: int, size: int, parts: list[bytes]) -> None:
        """Keep what a packet of ``size`` bytes is made of."""
        self._window[sequence] = (size, parts)

    def forget(self, first: int, stop: int) -> int:
        """Drop packets from ``first`` to before ``stop``; return the bytes that left the window."""
        freed = 0
        pop = self._window.pop
        for sequence in range(first, stop):
            packet = pop(sequence, None)
            if packet is not None:
                freed += packet[0] if type(packet) is tuple else len(packet)
            elif self._ahead:
                self._ahead.pop(sequence, None)
        if self._aside:
            for sequence in range(max(first, self._aside_from), stop):
                self._drop_aside(sequence)
        if self._on_disk:
            for sequence in range(first, stop):
                if sequence in self._on_disk:
                    self._free_on_disk(sequence)
        if self.dropped and stop >= self._dropped_below:
            self.dropped.clear()
        return freed

    def forget_ahead(self, first: int, stop: int) -> int:
        """The same for packets after one that somebody lacks: which messages they had is kept."""
        freed = 0
        pop = self._window.pop
        for sequence in range(first, stop):
            packet = pop(sequence, None)
            if packet is None:
                continue
            freed += _size_of(packet)
            self._ahead[sequence] = packet[1][0] if isinstance(packet, tuple) else head_of(packet)
        return freed

    def set_aside(self, first: int, stop: int) -> int:
        """Take packets out of the window, and keep them; return how many bytes they have."""
        freed = 0
        if not self._aside:
            self._aside_from = self._spill_from = first
        for sequence in range(first, stop):
            packet = self._window.pop(sequence, None)
            if packet is not None:
                self._aside[sequence] = packet
                freed += _size_of(packet)
        self._aside_from = min(first, self._aside_from)
        self._spill_from = min(first, self._spill_from)
        self._aside_to = max(stop, self._aside_to)
        self.aside_bytes += freed
        self._budget.used += freed
        return freed

    def spill_oldest_aside(self, limit: int) -> None:
        """Have packets written to disk that were set aside, if half of a limit is used.

        The newest stays: no disk that fails can leave nothing to ask with.
        """
        budget = self._budget
        while (
            self._disk is not None
            and self._spill_from < self._aside_to - 1
            and len(self._spilling) < min(SPILLING_MAX, len(self._aside) - 1)
            and (self.aside_bytes > limit // 2 or budget.used > budget.limit // 2)
        ):
            sequence = self._spill_from
            self._spill_from += 1
            if sequence in self._aside and sequence not in self._spilling:
                self._spilling.add(sequence)
                self._disk.write(self[sequence], partial(self._handle_written, sequence))

    def _handle_written(self, sequence: int, place: int | None) -> None:
        self._spilling.discard(sequence)
        packet = self._aside.get(sequence)
        if place is None:
            return
        assert self._disk is not None
        if packet is None:
            # All have it by now, or there was no room for it in memory.
            self._disk.free(place)
            return
        size, head = _size_of(packet), head_of(_head_of(packet))
        self._on_disk[sequence] = (place, size, head)
        self.disk_bytes += size
        self._count_entry(ENTRY_BYTES + len(head))
        self._drop_aside(sequence)

    def _count_entry(self, size: int) -> None:
        self.entry_bytes += size
        self._budget.used += size

    def _free_on_disk(self, sequence: int) -> None:
        assert self._disk is not None
        place, size, head = self._on_disk.pop(sequence)
        self.disk_bytes -= size
        self._count_entry(-ENTRY_BYTES - len(head))
        self._disk.free(place)

    def drop_oldest_aside(self, limit: int) -> int:
        """Drop packets that were set aside until the budget holds; return how many.

        ``limit``: bytes that this stream may set aside. The newest packet stays: as long as
        anybody lacks something, there is one to ask with.
        """
        dropped = 0
        budget = self._budget
        while budget.used > budget.limit and self.entry_bytes > self.aside_bytes:
            self._drop_oldest_on_disk()
            dropped += 1
        while self._aside and (self.aside_bytes > limit or budget.used > budget.limit):
            if self._aside_from >= self._aside_to - 1 and not self._has_newer(self._aside_from):
                break
            packet = self._drop_aside(self._aside_from)
            if packet is not None:
                dropped += 1
                self._note_dropped(self._aside_from, _head_of(packet))
            self._aside_from += 1
        return dropped

    def _drop_oldest_on_disk(self) -> None:
        """Packets are written in order, but for a few."""
        sequence = next(iter(self._on_disk))
        self._note_dropped(sequence, self._on_disk[sequence][2])
        self._free_on_disk(sequence)

    def _has_newer(self, sequence: int) -> bool:
        """Whether a packet is in the window that comes after one that was set aside."""
        return bool(self._window) and next(reversed(self._window)) > sequence

    def _note_dropped(self, sequence: int, head: bytes) -> None:
        self._dropped_below = max(self._dropped_below, sequence + 1)
        for group, first, count in list_messages(head):
            self.dropped.setdefault(group, RangeSet()).add(first, first + count)

    def _drop_aside(self, sequence: int) -> bytes | Parts | None:
        packet = self._aside.pop(sequence, None)
        if packet is not None:
            size = _size_of(packet)
            self.aside_bytes -= size
            self._budget.used -= size
        return packet

    def size_of(self, sequence: int) -> int:
        """Return how long a packet is that is kept."""
        packet = self._window.get(sequence) or self._aside.get(sequence)
        return self._on_disk[sequence][1] if packet is None else _size_of(packet)

    def window_count(self) -> int:
        """Return how many packets are not acknowledged."""
        return len(self._window)

    def newest(self) -> bytes:
        """Return the packet that was sent last of those that are here."""
        return self[next(reversed(self._window)) if self._window else max(self._aside)]

    def heads(self) -> Iterator[bytes]:
        """Yield as much of each packet as says which messages it has, delivered to all or not.

        Those that all have and that come after one that somebody lacks are among them.
        """
        for kept in (self._aside, self._window):
            for packet in kept.values():
                yield _head_of(packet)
        for _, _, head in self._on_disk.values():
            yield head
        yield from self._ahead.values()

    def __getitem__(self, sequence: int) -> bytes:
        packet = self._window.get(sequence)
        if packet is None:
            packet = self._aside.get(sequence)
        if packet is None:
            return self._read(sequence)
        return b"".join(packet[1]) if isinstance(packet, tuple) else packet

    def _read(self, sequence: int) -> bytes:
        place, _, head = self._on_disk[sequence]
        assert self._disk is not None
        packet = self._disk.read(place)
        if packet is None:
            self._note_dropped(sequence, head)
            self._free_on_disk(sequence)
            raise KeyError(sequence)
        return packet

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._window or sequence in self._aside or sequence in self._on_disk

    def __iter__(self) -> Iterator[int]:
        yield from self._on_disk
        yield from self._aside
        yield from self._window

    def __len__(self) -> int:
        return len(self._window) + len(self._aside) + len(self._on_disk)


def _head_of(packet: bytes | Parts) -> bytes:
    """Return as much of a packet as says which messages it has, or more."""
    return packet[1][0] if isinstance(packet, tuple) else packet


def _size_of(packet: bytes | Parts) -> int:
    return packet[0] if isinstance(packet, tuple) else len(packet)
