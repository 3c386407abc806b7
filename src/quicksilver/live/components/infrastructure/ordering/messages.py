"""What replicas of a checkpointed channel say to each other, and its bounded codec."""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import msgspec

from quicksilver.live.codec import BadMessageError, Codec
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

Pair: TypeAlias = tuple[int, int]
Member: TypeAlias = Pair
"""A replica in a view: its node, and its number on that node."""
Author: TypeAlias = Pair
"""Who sends updates: the member that a replica was first, even if it was counted out since."""
Epoch: TypeAlias = tuple[int, int, int]
"""A number that grows, and the member who leads."""

NO_EPOCH: Final[Epoch] = (0, 0, 0)

UPDATE: Final = 0
JOIN: Final = 1
LEAVE: Final = 2

CHUNK_BYTES: Final = 64 << 10
STATE_BYTES_MAX: Final = 256 << 20
PARTS_MAX: Final = STATE_BYTES_MAX // CHUNK_BYTES + 1
ENTRIES_MAX: Final = 500
ENTRIES_BYTES: Final = 256 << 10
"""What one message of entries carries, but always at least one entry."""
UPDATE_BYTES_MAX: Final = 8 << 20
ROSTER_MAX: Final = 100_000


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step of the log: an update, or a member's coming or going."""

    kind: int
    who: Pair
    """The author of an update; the member that comes or goes."""
    number: int = 0
    """Counts an author's updates from 1; 1 for a passive member that comes."""
    author: Pair = (0, 0)
    """Whose updates a member that comes will send."""
    payload: bytes = b""


class Request(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An update that its author wants ordered."""

    author: Author
    number: int
    payload: bytes
    floor: int
    """The author's first update that may be missing anywhere: those before were on all
    members. If a log lacks one of them, its own lineage lost it for good."""


class Order(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The leader's order: entries from an index on, without the updates' payloads."""

    epoch: Epoch
    first: int
    entries: list[Entry]
    stable: int
    """All members have the log up to here."""
    top: int
    """The end of the leader's log."""


class Entries(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A piece of the log with payloads, for one who asked."""

    epoch: Epoch
    to: Member
    first: int
    entries: list[Entry]


class Need(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Somebody lacks a piece of the log."""

    who: Member
    to: Member
    first: int
    last: int


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A member has the log up to here."""

    epoch: Epoch
    who: Member
    top: int


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A newcomer wants the state; it may have an old one of its own."""

    who: Member
    author: Author
    saved_epoch: Epoch
    saved_index: int
    is_passive: bool
    """It has no user: it only keeps the state."""


class Bye(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A member leaves."""

    who: Member


class Query(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Somebody wants to lead an epoch and asks how far everybody is."""

    epoch: Epoch
    is_founding: bool
    """A newcomer asks: it may lead only if nobody has a state."""


class Report(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """The answer, and unless founding a promise to follow no earlier epoch."""

    epoch: Epoch
    who: Member
    has_state: bool
    top: int


class Lead(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """An epoch begins, after all that any member has."""

    epoch: Epoch
    top: int
    stable: int


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A piece of the state for newcomers."""

    epoch: Epoch
    to: list[Member]
    index: int
    part: int
    parts: int
    data: bytes


class Refresh(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """A passive member asks for a newer state; it keeps the one it has until then."""

    who: Member


class Yield(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A passive leader asks a member with a user to lead instead."""

    epoch: Epoch
    to: Member


MemberMessage: TypeAlias = (
    Order | Entries | Need | Ack | Hello | Bye | Query | Report | Lead | Chunk | Refresh | Yield
)
"""Messages by which members agree."""
Message: TypeAlias = Request | MemberMessage


def speaker_of(message: MemberMessage) -> Member | None:
    """Return who said something, if it tells."""
    match message:
        case Hello() | Ack() | Report() | Need() | Refresh():
            return message.who
        case Order() | Lead() | Query() | Chunk():
            return message.epoch[1:]
        case Entries() | Bye() | Yield():
            return None
        case _:
            assert_never(message)


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state at an index: the user's, and what the channel itself must remember."""

    epoch: Epoch
    index: int
    roster: list[tuple[Member, Author, bool]]
    """Members in the order they came, and whether they are passive."""
    last: list[tuple[Author, int]]
    """How many updates of each author are in the log, authors gone longest first."""
    state: bytes | None
    tail: list[bytes] = []
    """Updates after the state, if whoever gave it has no user to apply them."""


_MESSAGES: Final = Codec[Message](Message, "a message of a replica", MESSAGE_BYTES_MAX)
_SNAPSHOTS: Final = Codec[Snapshot](Snapshot, "a snapshot", PARTS_MAX * CHUNK_BYTES)


encode = _MESSAGES.encode
"""Returns a message as it travels."""


def parse(data: bytes) -> Message:
    """Read a message; raises BadMessageError."""
    message = _MESSAGES.decode(data)
    match message:
        case Order() | Entries() if len(message.entries) > ENTRIES_MAX or message.first < 1:
            raise BadMessageError("a piece of a log", "is too long, or begins nowhere")
        case Chunk():
            is_right = 0 <= message.part < message.parts <= PARTS_MAX
            if not is_right or len(message.data) > CHUNK_BYTES or len(message.to) > ROSTER_MAX:
                raise BadMessageError("a chunk", "has numbers that make no sense")
        case Need() if not 1 <= message.first <= message.last:
            raise BadMessageError("a need", "has numbers that make no sense")
        case _:
            pass
    return message


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as it travels and as disks keep it; raises BadMessageError."""
    return _SNAPSHOTS.encode(snapshot)


def parse_snapshot(data: bytes) -> Snapshot:
    """Read a snapshot; raises BadMessageError."""
    snapshot = _SNAPSHOTS.decode(data)
    if len(snapshot.roster) > ROSTER_MAX or snapshot.index < 0:
        raise BadMessageError("a snapshot", "has numbers that make no sense")
    return snapshot
