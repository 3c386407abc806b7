"""Datagrams that are longer than what a link carries: cut into pieces, and joined again.

IP would cut them as well, but some networks drop its fragments, and a bridge copies each
fragment by itself. Pieces are equally long, so the kernel takes and gives all pieces of a
datagram in one call (UDP segmentation). Whoever misses one still has what is in the others
(``frames.find_intact``); recovery brings the rest.

A piece begins with ``TAG``, with which no whole datagram begins, then says how long its datagram
is, who cut it, which of that node's datagrams it is, and where in it the piece belongs.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from quicksilver.scopes.dissemination.frames import DATAGRAM_BYTES_MAX

TAG = 0xC1
"""MessagePack, the form of whole datagrams, never uses this byte."""

_NAME = struct.Struct("<BHQI")
"""The same in all pieces of a datagram …"""

_OFFSET_BYTES = 2
"""… and where the piece belongs."""

HEAD_BYTES = _NAME.size + _OFFSET_BYTES

PIECE_BYTES_MIN = 256
"""The shortest pieces that are cut: no link of IPv4 that is worth using carries less."""

PART_BYTES = 150
"""Memory that a piece takes besides its content, about."""

WAITING_MAX = 256
WAITING_BYTES_MAX = 4 << 20
"""Datagrams of which pieces are missing, and the memory of what came of them; past it the oldest
is given up."""


LATE = 2
"""A datagram that lacks pieces is given up once the same node's datagram that comes so much later
is whole: networks seldom change the order of more."""


class Joined(NamedTuple):
    """A datagram whose pieces have come."""

    data: bytes
    holes: tuple[tuple[int, int], ...] = ()
    """Where pieces are missing; there are zeros."""


class Cutter:
    """Cuts the datagrams of one node."""

    def __init__(self, bytes_max: int, node: int) -> None:
        """``bytes_max``: of a piece. ``node``: a number below 2**64 that no other node has."""
        self.bytes_max = max(bytes_max, PIECE_BYTES_MIN)
        self._node = node
        self._count = 0

    def cut(self, data: bytes) -> list[bytes]:
        """Return what travels instead of a datagram: itself, if it is short enough."""
        if len(data) <= self.bytes_max:
            return [data]
        assert len(data) <= DATAGRAM_BYTES_MAX
        name = _NAME.pack(TAG, len(data), self._node, self._count)
        self._count = (self._count + 1) & 0xFFFFFFFF
        step = self.bytes_max - HEAD_BYTES
        return [
            name + at.to_bytes(_OFFSET_BYTES, "little") + data[at : at + step]
            for at in range(0, len(data), step)
        ]


class _Whole:
    """A datagram of which pieces are missing."""

    __slots__ = ("bytes", "is_ordered", "parts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.bytes = 0
        self.is_ordered = True
        """True while each piece came after the one before it: then they need no sorting."""
        self.parts: dict[int, bytes] = {}

    def memory(self) -> int:
        return self.bytes + PART_BYTES * len(self.parts)

    def join(self) -> Joined | None:
        """Return the datagram as far as it came; None: its pieces do not belong together."""
        if self.is_ordered and self.bytes == self.size:
            return Joined(b"".join(self.parts.values()))
        found: list[bytes] = []
        holes: list[tuple[int, int]] = []
        at = 0
        for offset, part in sorted(self.parts.items()):
            if offset < at or offset + len(part) > self.size:
                return None
            if offset > at:
                holes.append((at, offset))
                found.append(bytes(offset - at))
            found.append(part)
            at = offset + len(part)
        if at < self.size:
            holes.append((at, self.size))
            found.append(bytes(self.size - at))
        return Joined(b"".join(found), tuple(holes))


class Joiner:
    """Joins the pieces that reach one node."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._waiting: dict[bytes, _Whole] = {}
        self._bytes = 0

    def take(self, data: bytes, segment: int = 0) -> list[Joined]:
        """Return the datagrams that are whole now, or as whole as they will get.

        ``segment``: ``data`` is several datagrams of this length, of which the last may be
        shorter; 0: it is a single one.
        """
        if not data or (not segment and data[0] != TAG):
            return [Joined(data)]
        found: list[Joined] = []
        step = segment or len(data)
        for at in range(0, len(data), step):
            end = at + step
            if data[at] != TAG:
                found.append(Joined(data[at:end]))
                continue
            body = at + HEAD_BYTES
            name = data[at : at + _NAME.size]
            part = data[body:end]
            whole = self._waiting.get(name) or self._begin(name)
            if whole is None or not part:
                self.counters["malformed_pieces"] += 1
                continue
            offset = int.from_bytes(data[body - _OFFSET_BYTES : body], "little")
            if offset in whole.parts:
                continue
            if offset != whole.bytes:
                whole.is_ordered = False
            whole.parts[offset] = part
            whole.bytes += len(part)
            self._bytes += len(part) + PART_BYTES
            if whole.bytes >= whole.size:
                self._end(name, found)
        if self._bytes > WAITING_BYTES_MAX or len(self._waiting) > WAITING_MAX:
            self._make_room()
        return found

    def _begin(self, name: bytes) -> _Whole | None:
        if len(name) < _NAME.size:
            return None
        size = _NAME.unpack(name)[1]
        if not 0 < size <= DATAGRAM_BYTES_MAX:
            return None
        whole = self._waiting[name] = _Whole(size)
        return whole

    def _end(self, name: bytes, found: list[Joined]) -> None:
        whole = self._remove(name)
        joined = whole.join() if whole.bytes == whole.size else None
        if joined is None or joined.holes:
            self.counters["malformed_pieces"] += 1
            return
        if self._waiting:
            late = self._find_late(name)
            self._give_up(late, found)
        found.append(joined)

    def _remove(self, name: bytes) -> _Whole:
        whole = self._waiting.pop(name)
        self._bytes -= whole.memory()
        return whole

    def _find_late(self, name: bytes) -> list[bytes]:
        """Return the datagrams that the node of another, later one sent well before that."""
        _, _, node, count = _NAME.unpack(name)
        late = []
        for other in self._waiting:
            _, _, other_node, other_count = _NAME.unpack(other)
            if other_node == node and LATE <= (count - other_count) & 0xFFFFFFFF < 1 << 31:
                late.append(other)
        return late

    def _give_up(self, names: Iterable[bytes], found: list[Joined]) -> None:
        """Wait no longer for what is missing of some datagrams."""
        for name in names:
            whole = self._remove(name)
            self.counters["incomplete_datagrams"] += 1
            joined = whole.join() if 0 in whole.parts else None
            if joined is not None:
                found.append(joined)

    def _make_room(self) -> None:
        """Forget the datagrams that have waited longest."""
        while self._bytes > WAITING_BYTES_MAX or len(self._waiting) > WAITING_MAX:
            self._remove(next(iter(self._waiting)))
            self.counters["incomplete_datagrams"] += 1
