"""What a node records: one type for each thing worth knowing.

Records are facts in the past tense with the time and the node they are about.
They are rare next to packets: per view, per token round, per loss; never per
message.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class Record(msgspec.Struct, frozen=True, tag=True):
    """Base: ``at`` is the host's clock in seconds, ``node`` the incarnation."""

    at: float
    node: int


class ViewInstalled(Record, frozen=True, tag=True):
    """A region view in which this node is a member begins."""

    region: int
    view: int
    members: int


class ViewRetired(Record, frozen=True, tag=True):
    """Everything committed to a region view was finished, and it was forgotten."""

    region: int
    view: int


class RoundCompleted(Record, frozen=True, tag=True):
    """A token came back to the leader that released it."""

    region: int
    view: int
    level: int
    seconds: float
    senders: int
    missing: int
    """Packets that some member of the ring lacked."""


class AckReceived(Record, frozen=True, tag=True):
    """A region told a sender what it has."""

    region: int
    view: int
    low: int
    pending_bytes: int
    slowest: int
    token_s: float


class PacketsMissed(Record, frozen=True, tag=True):
    """A receiver found that packets of a stream are lost."""

    region: int
    view: int
    sender: int
    packets: int


class PacketsResent(Record, frozen=True, tag=True):
    """A sender repeats what a whole region lost."""

    region: int
    view: int
    packets: int


class NodesFailed(Record, frozen=True, tag=True):
    """The GMS said that incarnations are over."""

    failed: tuple[int, ...]


class WasExcluded(Record, frozen=True, tag=True):
    """This node itself was counted as failed."""

    reason: str


class DatagramRejected(Record, frozen=True, tag=True):
    """Bytes from the network made no sense; ``reason`` is the counter's name."""

    reason: str
    size: int


AnyRecord = (
    ViewInstalled
    | ViewRetired
    | RoundCompleted
    | AckReceived
    | PacketsMissed
    | PacketsResent
    | NodesFailed
    | WasExcluded
    | DatagramRejected
)

Tracer = Callable[[AnyRecord], None]
"""Takes records on the core thread; must be quick."""

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], AnyRecord] = msgspec.json.Decoder(AnyRecord).decode


def encode_record(record: AnyRecord) -> bytes:
    """Return a record as one line of JSON, without the line's end."""
    return _encode(record)


def parse_record(line: bytes) -> AnyRecord | None:
    """Return the record in a line, or None where there is none."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, ValueError):
        return None
