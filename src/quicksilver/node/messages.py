"""Messages, batches and views as applications get them, and a node's statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from quicksilver.multicast.sending.unconfirmed import Reason as UnconfirmedReason
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages

__all__ = ["Batch", "Burst", "Message", "NodeStats", "Unconfirmed", "UnconfirmedReason", "View"]


class Message(msgspec.Struct, frozen=True, gc=False):
    """One delivered message.

    ``sequence`` counts a sender's messages to this group, from 0: a member
    delivers them in that order and without gaps, from the first that was sent
    to a view with it in. ``batch`` tells which view that was.
    """

    payload: Any
    """Bytes, or the value of a typed group."""
    sender: int
    sequence: int
    group: str
    batch: int


class Batch:
    """Consecutive messages of one sender to one group, delivered together.

    The fastest form: ``payloads`` is a plain list of bytes, and no object is
    made for a message until the batch is iterated.
    """

    __slots__ = ("batch", "cluster", "first", "group", "payloads", "sender", "sequences")

    def __init__(
        self,
        group: str,
        sender: int,
        batch: int,
        payloads: list[bytes],
        first: int,
        sequences: Sequence[int] | None = None,
        cluster: int = 0,
    ) -> None:
        self.group = group
        self.sender = sender
        self.batch = batch
        self.payloads = payloads
        self.first = first
        self.sequences = sequences
        """One for each payload, where they are not simply counted from ``first``."""
        self.cluster = cluster
        """Which cluster the sender's number belongs to."""

    @classmethod
    def of(cls, messages: Messages, group: str, cluster: int) -> Batch:
        """Return what a packet has for one group."""
        sequences = messages.sequences or None
        first = messages.first if sequences is None else sequences[0]
        return cls(
            group, messages.sender, messages.batch, messages.payloads, first, sequences, cluster
        )

    def __len__(self) -> int:
        return len(self.payloads)

    def __iter__(self) -> Iterator[Message]:
        sender, group, batch = self.sender, self.group, self.batch
        if self.sequences is not None:
            for payload, sequence in zip(self.payloads, self.sequences, strict=True):
                yield Message(payload, sender, sequence, group, batch)
            return
        sequence = self.first
        for payload in self.payloads:
            yield Message(payload, sender, sequence, group, batch)
            sequence += 1


Burst = Messages
"""All messages of one packet, of any groups, as columns: see ``Messages``."""


class View(msgspec.Struct, frozen=True):
    """Who is in a group: one numbered view."""

    group: str
    number: int
    members: tuple[NodeId, ...]
    joined: tuple[NodeId, ...] = ()
    """Members that the view before this one did not have."""
    left: tuple[NodeId, ...] = ()
    id: GroupId = GroupId(0)


class NodeStats(msgspec.Struct, frozen=True):
    """Counts of one node at one moment; see ``docs/operations.md`` for each."""

    node: int
    cluster: int
    connected: bool
    """True while the GMS is reachable."""
    counters: dict[str, int | float | str]
    """Everything that the engine counts, by name."""
    datagrams: dict[str, int]
    """What happened at the sockets."""
    warnings: tuple[str, ...]
    """Limits of the system that cost performance, each with its remedy."""
