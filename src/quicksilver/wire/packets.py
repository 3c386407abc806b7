"""Data packets: messages of any groups, packed for one region.

A packet belongs to one sender's stream into one region view and has one
sequence number there; packet and number are the unit of loss, acknowledgement
and repair (dissertation 4.2.1 C). Layout, little endian, offsets in bytes::

     0  magic 0x51 | kind | flags | 0
     4  cluster u32 | sender u32 | region u32 | region view u32     <- stream key
    20  sequence u64 | batch u64
    36  body

``batch`` is the newest membership batch that the sender had applied: it names
the view of every group in the packet at once. Bodies:

* messages of one group (``SINGLE``): count u16, uniform u16, size u32,
  group u32, first sequence u64;
* messages of several groups: count u16, uniform u16, size u32, then the groups
  (u32 each) and the sequences (u64 each);
  both then, unless all have the same size, one size u32 a message, then the
  payloads;
* a piece of one large message (``FRAGMENT``): group u32, sequence u64,
  total u32, offset u32, then the bytes;
* the first packet of a stream (``START``): the streams it follows.

Tables and payloads are read with a fixed number of calls into C, whatever the
number of messages: 59 messages of 1000 bytes are cut out of a run in 9 µs; a
loop with one ``unpack`` a message takes 20.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from struct import Struct, pack, unpack_from

from quicksilver.wire.ids import GroupId, NodeId, plain_group

MAGIC = 0x51

# Kinds, in the order in which a node handles what it has drained.
KIND_TOKEN = 1
KIND_CONTROL = 2
KIND_REPAIR = 3
KIND_DATA = 4
KIND_HYBRID = 5

FLAG_SINGLE = 1
FLAG_FRAGMENT = 4
FLAG_START = 8

UNIFORM = 1

PRIORITY_TOKEN = 0
PRIORITY_CONTROL = 1
PRIORITY_DATA = 2
PRIORITY_OF_KIND = {
    KIND_TOKEN: PRIORITY_TOKEN,
    KIND_CONTROL: PRIORITY_CONTROL,
    KIND_REPAIR: PRIORITY_CONTROL,
}

PREFIX = Struct("<BBBBIIII")
POSITION = Struct("<QQ")
HEADER_BYTES = PREFIX.size + POSITION.size
KEY = slice(4, 20)
"""Where a packet names its stream: cluster, sender, region, region view."""

_SINGLE = Struct("<HHIIQ")
_MIXED = Struct("<HHI")
_FRAGMENT = Struct("<IQII")
_START_ENTRY = Struct("<IIQ")
_HYBRID_HEAD = Struct("<BBBBIII")
_HYBRID_ENTRY = Struct("<IIQ")
_KEY = Struct("<IIII")

OVERHEAD_SINGLE = HEADER_BYTES + _SINGLE.size
OVERHEAD_MIXED = HEADER_BYTES + _MIXED.size
OVERHEAD_FRAGMENT = HEADER_BYTES + _FRAGMENT.size
PER_MESSAGE_MIXED = 4 + 8
PER_MESSAGE_SIZE = 4

MESSAGES_PER_PACKET_MAX = 4096
"""Bounds what a short packet that declares many empty messages can cost."""

MESSAGE_BYTES_MAX = 16 << 20
"""The longest message; longer ones are refused at ``send``."""

START_ENTRIES_MAX = 64
HYBRID_ENTRIES_MAX = 255
HYBRID_OVERHEAD = _HYBRID_HEAD.size + 8 - HEADER_BYTES
PER_HYBRID_ENTRY = _HYBRID_ENTRY.size
"""A hybrid packet is longer than a region's own by so much, and so much a region."""

SEQUENCE_MAX = 1 << 62
"""Numbers at or above this are refused, so that one past them is still in range."""


class Messages:
    """The messages of one packet, as columns.

    If ``group`` is not None, all messages are of that group, numbered consecutively from ``first``.
    Otherwise ``groups`` and ``sequences`` have one entry for each message.
    """

    __slots__ = ("batch", "first", "group", "groups", "payloads", "sender", "sequences")

    def __init__(
        self,
        sender: NodeId,
        batch: int,
        payloads: list[bytes],
        group: GroupId | None,
        first: int,
        groups: Sequence[int] = (),
        sequences: Sequence[int] = (),
    ) -> None:
        self.sender = sender
        """The number of the node that sent them."""
        self.batch = batch
        """The newest batch of membership changes that the sender knew; it determines the views of
        all groups here."""
        self.payloads = payloads
        """The bytes of each message."""
        self.group = group
        """The number of the group that all messages were sent to; None: see ``groups``."""
        self.first = first
        """The number of the first message, if ``group`` is set."""
        self.groups = groups
        """The group of each message, if ``group`` is None."""
        self.sequences = sequences
        """The number of each message, if ``group`` is None."""

    def __len__(self) -> int:
        return len(self.payloads)

    def numbers(self) -> Sequence[int]:
        """Return the number of each message."""
        return self.sequences or range(self.first, self.first + len(self.payloads))

    def pick(self, places: Sequence[int]) -> Messages:
        """Return some of the messages, all of one group, by their places."""
        group = self.groups[0] if self.group is None else self.group
        numbers, payloads = self.numbers(), self.payloads
        return Messages(
            self.sender,
            self.batch,
            [payloads[at] for at in places],
            None,
            0,
            [group] * len(places),
            [numbers[at] for at in places],
        )


class Fragment:
    """A piece of a message that is larger than a packet."""

    __slots__ = ("batch", "chunk", "group", "offset", "sender", "sequence", "total")

    def __init__(
        self,
        sender: NodeId,
        batch: int,
        group: GroupId,
        sequence: int,
        total: int,
        offset: int,
        chunk: bytes,
    ) -> None:
        self.sender = sender
        self.batch = batch
        self.group = group
        self.sequence = sequence
        self.total = total
        self.offset = offset
        self.chunk = chunk


class Start:
    """Opens a stream: the older streams of the sender that come before it.

    Each entry is (region, region view, number of packets in that stream).
    """

    __slots__ = ("after", "batch", "sender")

    def __init__(self, sender: NodeId, batch: int, after: tuple[tuple[int, int, int], ...]) -> None:
        self.sender = sender
        self.batch = batch
        self.after = after


Body = Messages | Fragment | Start


def stream_key(cluster: int, sender: int, region: int, view: int) -> bytes:
    """Return the bytes that every packet of a stream carries at ``KEY``."""
    return _KEY.pack(cluster, sender, region, view)


def parse_key(key: bytes) -> tuple[int, int, int, int]:
    """Return (cluster, sender, region, view) of a stream key."""
    cluster, sender, region, view = _KEY.unpack(key)
    return cluster, sender, region, view


def encode_prefix(kind: int, flags: int, key: bytes) -> bytes:
    return bytes((MAGIC, kind, flags, 0)) + key


def encode_single(
    group: int, first: int, sizes: list[int], payloads: Sequence[bytes]
) -> list[bytes]:
    """Return the parts of a body with messages of one group."""
    count = len(sizes)
    size = sizes[0]
    if sizes.count(size) == count:
        return [_SINGLE.pack(count, UNIFORM, size, group, first), *payloads]
    return [
        _SINGLE.pack(count, 0, 0, group, first),
        pack(f"<{count}I", *sizes),
        *payloads,
    ]


def encode_run_head(count: int, size: int, group: int, first: int) -> bytes:
    """Return what precedes equally long messages of one group in a body."""
    return _SINGLE.pack(count, UNIFORM, size, group, first)


def encode_mixed_head(size: int, groups: Sequence[int], sequences: Sequence[int]) -> bytes:
    """Return what precedes equally long messages of several groups in a body."""
    count = len(groups)
    return pack(f"<HHI{count}I{count}Q", count, UNIFORM, size, *groups, *sequences)


def encode_mixed(
    groups: Sequence[int], sequences: Sequence[int], sizes: list[int], payloads: Sequence[bytes]
) -> list[bytes]:
    """Return the parts of a body with messages of several groups."""
    count = len(sizes)
    size = sizes[0]
    if sizes.count(size) == count:
        return [encode_mixed_head(size, groups, sequences), *payloads]
    head = pack(f"<HHI{count}I{count}Q{count}I", count, 0, 0, *groups, *sequences, *sizes)
    return [head, *payloads]


def encode_fragment(
    group: int, sequence: int, total: int, offset: int, chunk: bytes
) -> list[bytes]:
    return [_FRAGMENT.pack(group, sequence, total, offset), chunk]


def encode_start(after: Sequence[tuple[int, int, int]]) -> list[bytes]:
    return [_START_ENTRY.pack(*entry) for entry in after[:START_ENTRIES_MAX]]


def as_repair(packet: bytes) -> bytes:
    """Return a data packet marked as a repair, so that it is handled sooner."""
    return b"\x51\x03" + packet[2:]


def parse_body(data: bytes, flags: int, sender: NodeId, batch: int) -> Body | None:
    """Return what a data packet carries, or None where the bytes lie.

    Every length is checked against the bytes at hand before anything is
    allocated for it.
    """
    try:
        if flags & FLAG_SINGLE:
            count, uniform, size, group, first = _SINGLE.unpack_from(data, HEADER_BYTES)
            if first > SEQUENCE_MAX:
                return None
            start = OVERHEAD_SINGLE
            end = len(data)
            if uniform:
                if not 0 < count <= MESSAGES_PER_PACKET_MAX or start + count * size != end:
                    return None
                if size:
                    payloads = [data[i : i + size] for i in range(start, end, size)]
                else:
                    payloads = [b""] * count
            else:
                sizes = unpack_from(f"<{count}I", data, start)
                found = _cut(data, start + 4 * count, sizes)
                if found is None:
                    return None
                payloads = found
            return Messages(sender, batch, payloads, group, first)
        if flags & FLAG_FRAGMENT:
            group, sequence, total, offset = _FRAGMENT.unpack_from(data, HEADER_BYTES)
            chunk = data[OVERHEAD_FRAGMENT:]
            if sequence > SEQUENCE_MAX or total > MESSAGE_BYTES_MAX:
                return None
            if not chunk or offset + len(chunk) > total:
                return None
            return Fragment(sender, batch, GroupId(group), sequence, total, offset, chunk)
        if flags & FLAG_START:
            length = len(data) - HEADER_BYTES
            if length % _START_ENTRY.size or length > START_ENTRIES_MAX * _START_ENTRY.size:
                return None
            after = tuple(_START_ENTRY.iter_unpack(data[HEADER_BYTES:]))
            if any(count > SEQUENCE_MAX for _, _, count in after):
                return None
            return Start(sender, batch, after)
        count, uniform, size = _MIXED.unpack_from(data, HEADER_BYTES)
        start = OVERHEAD_MIXED
        groups = unpack_from(f"<{count}I", data, start)
        start += 4 * count
        sequences = unpack_from(f"<{count}Q", data, start)
        start += 8 * count
        # The sum tells almost always, in a fifth of the time.
        if not count or (sum(sequences) > SEQUENCE_MAX and max(sequences) > SEQUENCE_MAX):
            return None
        if uniform:
            end = len(data)
            if start + count * size != end:
                return None
            if size:
                payloads = [data[i : i + size] for i in range(start, end, size)]
            else:
                payloads = [b""] * count
        else:
            sizes = unpack_from(f"<{count}I", data, start)
            found = _cut(data, start + 4 * count, sizes)
            if found is None:
                return None
            payloads = found
        return Messages(sender, batch, payloads, None, 0, groups, sequences)
    except struct.error:
        return None


def head_of(packet: bytes) -> bytes:
    """Return as much of a packet of one's own as ``list_messages`` looks at."""
    if packet[2] & (FLAG_SINGLE | FLAG_FRAGMENT):
        return packet[: max(OVERHEAD_SINGLE, OVERHEAD_FRAGMENT)]
    if packet[2] & FLAG_START:
        return packet[:HEADER_BYTES]
    (count, _, _) = _MIXED.unpack_from(packet, HEADER_BYTES)
    return packet[: OVERHEAD_MIXED + count * PER_MESSAGE_MIXED]


def list_messages(packet: bytes) -> list[tuple[int, int, int]]:
    """Return group, first number and count of the messages in a packet of one's own.

    Payloads are not looked at and need not be there. A large message is named by each piece.
    Messages with an envelope are listed under the group's own number.
    """
    flags = packet[2]
    if flags & FLAG_SINGLE:
        count, _, _, group, first = _SINGLE.unpack_from(packet, HEADER_BYTES)
        return [(plain_group(group), first, count)]
    if flags & FLAG_FRAGMENT:
        group, first, _, _ = _FRAGMENT.unpack_from(packet, HEADER_BYTES)
        return [(plain_group(group), first, 1)]
    if flags & FLAG_START:
        return []
    count, _, _ = _MIXED.unpack_from(packet, HEADER_BYTES)
    groups = unpack_from(f"<{count}I", packet, OVERHEAD_MIXED)
    numbers = unpack_from(f"<{count}Q", packet, OVERHEAD_MIXED + 4 * count)
    return [(plain_group(group), first, 1) for group, first in zip(groups, numbers, strict=True)]


def _cut(data: bytes, start: int, sizes: Sequence[int]) -> list[bytes] | None:
    if not sizes or start + sum(sizes) != len(data):
        return None
    payloads = []
    for size in sizes:
        payloads.append(data[start : start + size])
        start += size
    return payloads


def encode_hybrid(
    cluster: int,
    sender: int,
    entries: Sequence[tuple[int, int, int]],
    flags: int,
    batch: int,
    body: bytes,
) -> bytes:
    """Return one packet for several regions: all their headers, one body.

    Hybrid mode of dissertation 4.2.1 B: sent to the group's own address.
    """
    assert 0 < len(entries) <= HYBRID_ENTRIES_MAX
    head = _HYBRID_HEAD.pack(MAGIC, KIND_HYBRID, flags, len(entries), cluster, sender, 0)
    headers = b"".join([_HYBRID_ENTRY.pack(*entry) for entry in entries])
    return b"".join((head, batch.to_bytes(8, "little"), headers, body))


def split_hybrid(data: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return (stream key, ordinary data packet head) pairs and leave the body shared.

    Each head followed by ``hybrid_body(data)`` is the packet that the region's
    own address would have carried.
    """
    if len(data) < _HYBRID_HEAD.size + 8:
        return None
    _, _, flags, count, cluster, sender, _ = _HYBRID_HEAD.unpack_from(data)
    start = _HYBRID_HEAD.size + 8
    if not count or len(data) < start + count * _HYBRID_ENTRY.size:
        return None
    batch = data[_HYBRID_HEAD.size : start]
    heads = []
    for region, view, sequence in _HYBRID_ENTRY.iter_unpack(
        data[start : start + count * _HYBRID_ENTRY.size]
    ):
        key = _KEY.pack(cluster, sender, region, view)
        head = encode_prefix(KIND_DATA, flags, key) + sequence.to_bytes(8, "little") + batch
        heads.append((key, head))
    return heads


def pick_from_hybrid(data: bytes, known: Container[bytes]) -> bytes | None:
    """Return the ordinary data packet of the first stream whose key is known, if there is one.

    Every packet of a hybrid group takes this way: a tenth of a microsecond for a header,
    where splitting all of them takes three, and the body is copied once.
    """
    start = _HYBRID_HEAD.size + 8
    if len(data) < start:
        return None
    end = start + data[3] * _HYBRID_ENTRY.size
    if len(data) < end:
        return None
    origin = data[4:12]
    for at in range(start, end, _HYBRID_ENTRY.size):
        key = origin + data[at : at + 8]
        if key in known:
            prefix = encode_prefix(KIND_DATA, data[2], key)
            sequence, batch = data[at + 8 : at + 16], data[_HYBRID_HEAD.size : start]
            return b"".join((prefix, sequence, batch, memoryview(data)[end:]))
    return None


def hybrid_body(data: bytes) -> bytes:
    """Return the body of a packet that ``split_hybrid`` accepted."""
    return data[_HYBRID_HEAD.size + 8 + data[3] * _HYBRID_ENTRY.size :]
