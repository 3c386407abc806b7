"""What workers of a soak are told, what they say, and the messages they send."""

from __future__ import annotations

from struct import Struct
from zlib import crc32

import msgspec

from quicksilver.lab.nodes import Harm, NodeSpec

Stamp = tuple[int, int, int]
"""Who numbered messages: place of the worker, life of its process, epoch in that life."""


class Worker(NodeSpec, frozen=True, kw_only=True, tag="soak-worker"):
    """A node that sends to its groups, checks what arrives, and tells both."""

    place: int
    life: int
    """How many processes had this place before."""
    groups: list[str]
    seed: int
    round_s: float = 0.3
    """Time from one round of messages to the next."""
    groups_a_round: int = 8
    messages_a_group: int = 12
    flush_timeout_s: float = 60.0


# Orders


class Change(msgspec.Struct, frozen=True, tag="change", tag_field="order"):
    """Leave groups and join others."""

    leave: list[str] = []
    join: list[str] = []


class Conclude(msgspec.Struct, frozen=True, tag="conclude", tag_field="order"):
    """Send to every group once more, and then nothing."""


class Explain(msgspec.Struct, frozen=True, tag="explain", tag_field="order"):
    """Say what the node has counted: somebody wants to know what it waits for."""


Order = Harm | Change | Conclude | Explain


# What workers say; times are of the machine's monotonic clock


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun", tag_field="event"):
    """It is in its groups."""

    node: int
    at: float


class Round(msgspec.Struct, frozen=True, kw_only=True, tag="round", tag_field="event"):
    """Messages were sent to some groups, and a flush has ended."""

    epoch: int
    at: float
    """When the first was sent."""
    ended_at: float
    problem: str
    """Why the flush does not vouch for them; empty: it does."""
    runs: dict[str, tuple[int, int]]
    """By group: the first number, and the one after the last."""
    members: dict[str, list[int]]
    """By group: who was in every view that the sender had meanwhile, itself left out."""
    is_last: bool = False


class Heard(msgspec.Struct, frozen=True, kw_only=True, tag="heard", tag_field="event"):
    """Messages were delivered since the last time."""

    node: int
    """This incarnation; 0 while it is not counted in."""
    at: float
    runs: list[tuple[int, int, int, int, str, int, int]]
    """Incarnation that delivered, place, life and epoch of the sender, group, the first
    number and the one after the last."""
    problems: list[str]
    messages: int
    exclusions: int
    excluded_for: list[str] = []
    """Why it was excluded since the last time."""


class Left(msgspec.Struct, frozen=True, kw_only=True, tag="left", tag_field="event"):
    """It is about to leave groups."""

    at: float
    groups: list[str]


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag="joined", tag_field="event"):
    """It is in groups again that it had left."""

    at: float
    groups: list[str]


class Explained(msgspec.Struct, frozen=True, kw_only=True, tag="explained", tag_field="event"):
    """What a node has counted, without what is nothing."""

    counters: dict[str, int | float | str]


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="event"):
    """Its node is closed; what is left that was not there before it was opened."""

    threads: list[str]
    descriptors: list[str]


Record = Begun | Round | Heard | Left | Joined | Explained | Ended

# Messages

_HEAD = Struct("<HHIHQ")
_CRC = Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size


def encode_message(stamp: Stamp, group: int, number: int, filler: bytes) -> bytes:
    """Return a message that says whose it is, and by which damage would be seen."""
    place, life, epoch = stamp
    body = _HEAD.pack(place, life, epoch, group, number) + filler
    return body + _CRC.pack(crc32(body))


def parse_message(payload: bytes) -> tuple[Stamp, int, int] | None:
    """Return stamp, group and number of a message; None if it is not as it was sent."""
    if len(payload) < HEAD_BYTES:
        return None
    body = payload[: -_CRC.size]
    if crc32(body) != _CRC.unpack_from(payload, len(body))[0]:
        return None
    place, life, epoch, group, number = _HEAD.unpack_from(payload)
    return (place, life, epoch), group, number


def group_name(number: int) -> str:
    """Return what a group of the soak is called."""
    return f"soak-{number:04}"


def group_number(name: str) -> int:
    return int(name.removeprefix("soak-"))
