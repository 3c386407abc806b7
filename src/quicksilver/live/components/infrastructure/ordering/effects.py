"""What a replica wants done, and what it is given to begin with."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from quicksilver.live.components.infrastructure.ordering.messages import (
    UPDATE_BYTES_MAX,
    Entry,
    Epoch,
    Member,
    Snapshot,
)

OWN_BYTES_MAX: Final = 64 << 20
OWN_MAX: Final = 200_000
"""What a user may have sent that is not on all members."""


class Send(msgspec.Struct, frozen=True):
    """Send this to everybody."""

    message: bytes
    is_later: bool = False
    """Only after everything else that is under way on this node."""


class Initialize(msgspec.Struct, frozen=True):
    """The user starts from this snapshot: its state, and then its tail of updates."""

    snapshot: Snapshot


class Receive(msgspec.Struct, frozen=True):
    """The user gets an update."""

    message: bytes


class Capture(msgspec.Struct, frozen=True):
    """The user is asked for its state."""

    ticket: int


class Captured(msgspec.Struct, frozen=True):
    """The user gave its state, because ``capture`` was called."""

    snapshot: Snapshot


class Participants(msgspec.Struct, frozen=True):
    """The members at this place among the updates."""

    members: tuple[Member, ...]
    me: Member


class Applied(msgspec.Struct, frozen=True):
    """The entry at an index has reached the user; for those who keep the log."""

    epoch: Epoch
    index: int
    entry: Entry


class Rebased(msgspec.Struct, frozen=True):
    """A replica without a user was given a newer state; entries after it stay."""

    snapshot: Snapshot


Effect: TypeAlias = (
    Send | Initialize | Receive | Capture | Captured | Participants | Applied | Rebased
)


class Saved(msgspec.Struct, frozen=True):
    """What a disk has: a state, and entries after it."""

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    epoch: Epoch

    @property
    def index(self) -> int:
        """How far it goes."""
        return self.snapshot.index + len(self.entries)


class TooMuchError(Exception):
    """A user sends faster than the members take it."""

    def __str__(self) -> str:
        return (
            f"more than {OWN_BYTES_MAX >> 20} MiB or {OWN_MAX} updates are not on all members: "
            "send slower, or find the member that holds everybody up"
        )


class UpdateSizeError(Exception):
    """An update is too large."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def __str__(self) -> str:
        return f"an update has at most {UPDATE_BYTES_MAX} bytes, not {self.size}: split it"
