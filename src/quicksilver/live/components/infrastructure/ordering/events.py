"""Outputs of a replica: messages to transmit, and events for its user and its disk."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from quicksilver.live.components.infrastructure.ordering.messages import (
    Entry,
    Epoch,
    Member,
    Snapshot,
)


class Transmit(msgspec.Struct, frozen=True):
    """Bytes to send to everybody, this replica included."""

    message: bytes
    is_later: bool = False
    """Only after everything else that is under way on this node."""


class Initialize(msgspec.Struct, frozen=True):
    """The user starts from this snapshot: its state, and then its tail of updates."""

    snapshot: Snapshot


class Receive(msgspec.Struct, frozen=True):
    """The user is given an update."""

    message: bytes


class Capture(msgspec.Struct, frozen=True):
    """The user is asked for its state; ``handle_checkpoint`` takes it."""

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


Event: TypeAlias = Initialize | Receive | Capture | Captured | Participants | Applied | Rebased
