"""Messages, batches and views as applications get them, and a node's statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from quicksilver.multicast.sending.unconfirmed import Reason as UnconfirmedReason
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.wire.envelope import Envelope, Kind
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages

__all__ = ["Batch", "Burst", "Message", "NodeStats", "Unconfirmed", "UnconfirmedReason", "View"]


Headers = Mapping[str, str | bytes]

NO_HEADERS: Headers = MappingProxyType({})
"""What messages that were sent without headers have: one object for all of them."""

T = TypeVar("T")

SHOWN_MAX = 60
"""Characters of a payload that ``repr`` shows."""

NAMED_MAX = 8
"""Members that ``repr`` of a view names."""


class Message(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One delivered message.

    ``sequence`` counts a sender's messages to this group, from 0: a member
    delivers them in that order and without gaps, from the first that was sent
    to a view with it in. ``batch`` tells which view that was.
    """

    payload: T
    """Bytes, or the value of a typed group."""
    sender: int
    """The number of the node that sent it: ``View.name_of`` has its name."""
    sequence: int
    """Its number among the sender's messages to the group."""
    group: str
    """The group's name."""
    batch: int
    """The batch of membership changes that the view of the message belongs to."""
    key: bytes | None = None
    """What it was sent with, or None."""
    headers: Headers = NO_HEADERS
    is_retained: bool = False
    """True for a value from before the join that its sender kept for newcomers."""

    def __repr__(self) -> str:
        shown = repr(self.payload)
        if len(shown) > SHOWN_MAX:
            shown = f"{shown[:SHOWN_MAX]}…"
        return f"<Message {self.sequence} of node {self.sender} to {self.group!r}: {shown}>"


class Batch:
    """Consecutive messages of one sender to one group, delivered together.

    The fastest form: ``payloads`` is a plain list of bytes, and no object is
    made for a message until the batch is iterated.
    """

    __slots__ = (
        "batch",
        "cluster",
        "envelopes",
        "first",
        "group",
        "payloads",
        "sender",
        "sequences",
    )

    def __init__(
        self,
        group: str,
        sender: int,
        batch: int,
        payloads: list[bytes],
        first: int,
        sequences: Sequence[int] | None = None,
        cluster: int = 0,
        envelopes: Sequence[Envelope] | None = None,
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
        self.envelopes = envelopes
        """Keys and headers, one entry for each payload; None where no message has any."""

    @classmethod
    def of(
        cls,
        messages: Messages,
        group: str,
        cluster: int,
        envelopes: Sequence[Envelope] | None = None,
    ) -> Batch:
        """Return what a packet has for one group."""
        sequences = messages.sequences or None
        first = messages.first if sequences is None else sequences[0]
        return cls(
            group,
            messages.sender,
            messages.batch,
            messages.payloads,
            first,
            sequences,
            cluster,
            envelopes,
        )

    def __len__(self) -> int:
        return len(self.payloads)

    def __repr__(self) -> str:
        return (
            f"<Batch of {len(self)} messages of node {self.sender} to {self.group!r}, "
            f"from number {self.first}>"
        )

    def __iter__(self) -> Iterator[Message[bytes]]:
        sender, group, batch = self.sender, self.group, self.batch
        if self.envelopes is not None:
            yield from self._with_envelopes(self.envelopes)
            return
        if self.sequences is not None:
            for payload, sequence in zip(self.payloads, self.sequences, strict=True):
                yield Message(payload, sender, sequence, group, batch)
            return
        sequence = self.first
        for payload in self.payloads:
            yield Message(payload, sender, sequence, group, batch)
            sequence += 1

    def _with_envelopes(self, envelopes: Sequence[Envelope]) -> Iterator[Message[bytes]]:
        count = len(self.payloads)
        sequences = self.sequences or range(self.first, self.first + count)
        for payload, sequence, envelope in zip(self.payloads, sequences, envelopes, strict=True):
            yield Message(
                payload,
                self.sender,
                sequence,
                self.group,
                self.batch,
                envelope.key,
                envelope.headers or NO_HEADERS,
                envelope.kind == Kind.RETAINED,
            )


Burst = Messages
"""All messages of one packet, of any groups, as columns: see ``Messages``."""


class View(msgspec.Struct, frozen=True):
    """Who is in a group: one numbered view."""

    group: str
    """The group's name."""
    number: int
    """Counts the group's views; later ones have higher numbers."""
    members: tuple[NodeId, ...]
    """The nodes in the group, by number."""
    joined: tuple[NodeId, ...] = ()
    """Members that the view before this one did not have."""
    left: tuple[NodeId, ...] = ()
    """Members of the view before that this one does not have."""
    id: GroupId = GroupId(0)
    """The group's number in this cluster."""
    names: tuple[str, ...] = ()
    """The names of the members, in their order: what each gave as ``name``."""

    def name_of(self, node: int) -> str:
        """Return a member's name; the empty text for who is not in the view."""
        found = zip(self.members, self.names, strict=False)
        return next((name for member, name in found if member == node), "")

    def __repr__(self) -> str:
        count = len(self.members)
        shown = [f"{name or '?'} ({m})" for m, name in zip_names(self)[:NAMED_MAX]]
        more = f" and {count - NAMED_MAX} more" if count > NAMED_MAX else ""
        who = f": {', '.join(shown)}{more}" if count else ""
        noun = "member" if count == 1 else "members"
        return f"<View {self.number} of {self.group!r}, {count} {noun}{who}>"


def zip_names(view: View) -> list[tuple[int, str]]:
    """Return a view's members with their names."""
    names = (*view.names, *[""] * (len(view.members) - len(view.names)))
    return list(zip(view.members, names, strict=True))


class NodeStats(msgspec.Struct, frozen=True):
    """Counts of one node at one moment; see ``docs/operations.md`` for each."""

    node: int
    """The node's number; 0 while the GMS does not count it in."""
    cluster: int
    """The cluster that the number belongs to."""
    connected: bool
    """True while the GMS is reachable."""
    counters: dict[str, int | float | str]
    """Everything that the engine counts, by name."""
    datagrams: dict[str, int]
    """What happened at the sockets."""
    warnings: tuple[str, ...]
    """Limits of the system that cost performance, each with its remedy."""
