"""Control packets: tokens, acknowledgements, requests.

A four-byte head like that of data packets, whom it is for, two nonces, then one MessagePack
array. The first nonce is what its sender wants to hear back from whom it is for; the second
is the *proof*, what that one wanted to hear: nobody knows it but who receives at the
address that the packet claims to come from (``multicast/peers.py``). They are small and
rare next to data, so they are described by types and decoded by msgspec, which checks shape
and range in C; sets of sequence numbers travel as
flat lists (start, length, start, length, …) and are checked by
``RangeSet.parse_flat``.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Annotated

import msgspec

from quicksilver.wire.packets import KIND_CONTROL, KIND_TOKEN, MAGIC, SEQUENCE_MAX

U32 = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Sequence = Annotated[int, msgspec.Meta(ge=0, le=SEQUENCE_MAX)]
Flat = Annotated[tuple[Sequence, ...], msgspec.Meta(max_length=512)]
RANGES_MAX = 256
"""How many ranges a decoder accepts in one set (half of Flat's bound)."""


class Record(msgspec.Struct, array_like=True):
    """What a token says about one sender's stream (dissertation 4.2.1 C).

    The first part is gathered on the way round; the second comes down from the
    region's leader.
    """

    sender: U32
    high: Sequence
    """One past the newest packet anyone in the ring has heard of."""
    low: Sequence
    """Every visited node that is waited for has all packets below this; ``SEQUENCE_MAX``
    when none of them is waited for."""
    slowest: U32
    """The node that ``low`` is about."""
    safe: Sequence
    """Every node of the ring, whether it is waited for or not, has all packets below this."""
    laggard: U32
    """The node that ``safe`` is about, if it is not waited for; 0: all of them are."""
    missing: Flat
    """Packets that some visited node lacks, exact below ``missing_limit``."""
    missing_limit: Sequence
    wanted: Flat
    """Packets that someone lacks and no visited node holds."""
    previous: Flat
    """What the node before lacks, exact below ``previous_limit``."""
    previous_limit: Sequence
    unasked: Flat
    """The part of ``previous`` that it could not ask its own neighbour for."""
    unkept: Flat
    """Packets that a visited domain is to keep and does not have, exact below
    ``unkept_limit``. However many partitions there are, they share this one list."""
    unkept_limit: Sequence

    stable: Sequence
    """Every node of the region has everything below this: caches may forget it."""
    agreed: Sequence
    """Every node of the region that is waited for has everything below this. Who lacks any
    of it has fallen behind: nobody waits for it until it has caught up."""
    region_unkept: Flat
    """``unkept`` of the whole region as its leader knew it, exact below …"""
    region_unkept_limit: Sequence
    """… this: every other packet below has arrived where copies of it are kept."""
    cut: int
    """A dead sender's stream ends here because nobody holds this packet; -1: it does not."""
    front: Sequence = 0
    """Some visited node that receives has all packets below this."""


class Token(msgspec.Struct, array_like=True, tag=1):
    """Circulates in one ring of a region view's hierarchy."""

    cluster: U32
    origin: U32
    """Who sends this packet (the node before)."""
    region: U32
    view: U32
    level: Annotated[int, msgspec.Meta(ge=0, le=32)]
    ring: U32
    round: Sequence
    leader: U32
    """Who released it; the token ends its way there."""
    skipped: Annotated[tuple[U32, ...], msgspec.Meta(max_length=64)]
    """Members that the round went around: their last word still counts."""
    direct: bool
    """True in a roll call: answer the leader at once instead of passing it on."""
    buffer_bytes: Sequence
    """The smallest share of a receive buffer that a stream may fill at a visited node."""
    drops: Sequence
    """Datagrams that visited nodes' kernels dropped since they last said so."""
    records: Annotated[tuple[Record, ...], msgspec.Meta(max_length=1024)]
    confirmed: bool = False
    """True while something is wrong: whoever gets it sends a Receipt to the node before."""


class Ack(msgspec.Struct, array_like=True, tag=2):
    """From a region's leader to a sender: what the whole region has."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    low: Sequence
    """Everybody who is waited for has all packets below this."""
    safe: Sequence
    """Everybody has; the packets in between are kept for the rest."""
    laggard: U32
    """Who of those who are not waited for has the least; 0: all are waited for."""
    high: Sequence
    missing: Flat
    missing_limit: Sequence
    slowest: U32
    buffer_bytes: Sequence
    drops: Sequence
    senders: U32
    """How many streams are active in the region."""
    token_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)]
    """How long the round took."""
    arrived_bytes: Sequence = 0
    """What has arrived at the leader in this view, of all streams."""
    front: Sequence = 0
    """Some receiver has all packets below this."""


class Nak(msgspec.Struct, array_like=True, tag=3):
    """From a partition's leader to a sender: nobody here holds these."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    ranges: Flat


class Pull(msgspec.Struct, array_like=True, tag=4):
    """Asks one node for packets that it is known or likely to hold."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    sender: U32
    ranges: Flat


class Wake(msgspec.Struct, array_like=True, tag=5):
    """From a member to its ring's leader: there is something to agree on."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    level: Annotated[int, msgspec.Meta(ge=0, le=32)]
    ring: U32


class Extent(msgspec.Struct, array_like=True, tag=6):
    """From a sender: its stream has this many packets, whatever a token claimed."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    packets: Sequence


class Gone(msgspec.Struct, array_like=True, tag=7):
    """From a sender, to whoever asked for packets: these were sent and are no longer kept."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    ranges: Flat


class Receipt(msgspec.Struct, array_like=True, tag=8):
    """To the node before in a ring: a token that is to be confirmed has arrived."""

    cluster: U32
    origin: U32
    region: U32
    view: U32
    level: Annotated[int, msgspec.Meta(ge=0, le=32)]
    ring: U32
    leader: U32
    round: Sequence


class Challenge(msgspec.Struct, array_like=True, tag=9):
    """Answers a packet without proof: its head has the nonce that was missing."""

    cluster: U32
    origin: U32


class Hail(msgspec.Struct, array_like=True, tag=10):
    """Asks one node, about nothing but whether it is there; or answers that."""

    cluster: U32
    origin: U32
    is_answer: bool


class Overtaken(msgspec.Struct, array_like=True, tag=11):
    """A sender tells a member that it does not wait for it until it has caught up."""

    cluster: U32
    origin: U32
    region: U32
    view: U32


Control = Token | Ack | Nak | Pull | Wake | Extent | Gone | Receipt | Challenge | Hail | Overtaken

CONTROL_BYTES_MAX = 34_000
"""The longest control packet that is decoded: no honest token is longer. Decoded, small
numbers take twenty times the bytes that they take on the wire."""

_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[memoryview], Control] = msgspec.msgpack.Decoder(Control).decode
_HEAD = Struct("<BBBBIQQ")
_TO = Struct("<I")
_NONCES = Struct("<QQ")
_NONCES_AT = _HEAD.size - _NONCES.size


def encode_control(packet: Control, to: int = 0) -> bytes:
    """Return the datagram for a node; 0: for whoever gets it.

    A node that starts again may have the address of its former life, which others
    still speak to: what they say is about streams and rings of the former.
    """
    kind = KIND_TOKEN if type(packet) is Token else KIND_CONTROL
    return _HEAD.pack(MAGIC, kind, 0, 0, to, 0, 0) + _encode(packet)


def receiver_of(data: bytes) -> int:
    """Return the node that a control packet is for; 0: whoever gets it."""
    to: int = _TO.unpack_from(data, 4)[0]
    return to


def stamp_control(data: bytes, nonce: int, proof: int) -> bytes:
    """Return a control packet with the nonce to hear back, and the proof."""
    return data[:_NONCES_AT] + _NONCES.pack(nonce, proof) + data[_HEAD.size :]


def parse_stamp(data: bytes) -> tuple[int, int]:
    """Return nonce and proof of a control packet that could be parsed."""
    nonce, proof = _NONCES.unpack_from(data, _NONCES_AT)
    return nonce, proof


def is_for(data: bytes, node: int) -> bool:
    """Whether a control packet that could be parsed is for a node."""
    return receiver_of(data) in (0, node)


def parse_control(data: bytes) -> Control | None:
    """Return the control packet in a datagram, or None where there is none."""
    if len(data) > CONTROL_BYTES_MAX:
        return None
    try:
        return _decode(memoryview(data)[_HEAD.size :])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
