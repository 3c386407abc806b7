"""Messages, batches and views as applications get them, and a node's statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from quicksilver.multicast.sending.unconfirmed import Reason as UnconfirmedReason
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.wire.envelope import EMPTY, Envelope, Kind
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

    A sender's messages to a group are numbered from 0. A member gets them in this order, and
    without gaps from the first that was sent to a view with the member in it. Members of a queue
    share the messages, so each of them sees only some of the numbers.
    """

    payload: T
    """The message's bytes or, in a group with a type, its value."""
    sender: int
    """The number of the node that sent it; ``View.name_of`` returns the node's name. At a node of a
    scope it is a number that only this node knows the sender by, and ``source`` is its name."""
    sequence: int
    """Its number among the sender's messages to the group."""
    group: str
    """The name of the group that it was sent to."""
    batch: int
    """The newest batch of membership changes that the sender knew; it determines the group's view
    that the message was sent to."""
    key: bytes | None = None
    """The key it was sent with, or None."""
    headers: Headers = NO_HEADERS
    """The headers it was sent with: text or bytes by name. Empty if there were none."""
    is_retained: bool = False
    """True if it was sent before this node joined and kept by its sender (``retain``)."""
    source: str = ""
    """At a node of a scope: the sender's name, such as ``campus/lan1/alice``. Otherwise empty."""

    def __repr__(self) -> str:
        shown = repr(self.payload)
        if len(shown) > SHOWN_MAX:
            shown = f"{shown[:SHOWN_MAX]}…"
        who = repr(self.source) if self.source else f"node {self.sender}"
        return f"<Message {self.sequence} of {who} to {self.group!r}: {shown}>"


class Batch:
    """Consecutive messages of one sender to one group, delivered together.

    This is a faster form than single messages: ``payloads`` is a plain list of bytes. Iterate over
    the batch to get ``Message`` objects.
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
        "source",
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
        source: str = "",
    ) -> None:
        self.group = group
        """The name of the group that the messages were sent to."""
        self.sender = sender
        """The number of the node that sent them."""
        self.batch = batch
        """The newest batch of membership changes that the sender knew; it determines the group's
        view that the messages were sent to."""
        self.payloads = payloads
        """The messages' bytes, in order."""
        self.first = first
        """The number of the first message; see ``Message.sequence``."""
        self.sequences = sequences
        """The number of each message; None if they are consecutive from ``first``."""
        self.cluster = cluster
        """The number of the cluster that the sender's number belongs to."""
        self.envelopes = envelopes
        """The key and headers of each message; None if no message has any."""
        self.source = source
        """At a node of a scope: the sender's name; see ``Message.source``."""

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
        if self.envelopes is not None or self.source:
            yield from self._with_envelopes(self.envelopes or [EMPTY] * len(self.payloads))
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
                self.source,
            )


Burst = Messages
"""The messages of one packet from one sender, to one group or several, for ``Node.on_burst``.

They are stored as columns: ``payloads`` has the bytes of each message. If ``group`` is not None,
all of them went to the group with this number (``Group.id``) and are numbered consecutively from
``first``. If it is None, ``groups`` and ``sequences`` have the group and the number of each
message.
"""


class View(msgspec.Struct, frozen=True):
    """The members of a group at one time. Each change of the members makes a new, numbered view."""

    group: str
    """The group's name."""
    number: int
    """The view's number; each new view of the group has a higher one."""
    members: tuple[NodeId, ...]
    """The numbers of the nodes in the group."""
    joined: tuple[NodeId, ...] = ()
    """Members that were not in the previous view."""
    left: tuple[NodeId, ...] = ()
    """Members of the previous view that are not in this one."""
    id: GroupId = GroupId(0)
    """The group's number in this cluster."""
    names: tuple[str, ...] = ()
    """The members' names (the option ``name`` of each node), in the order of ``members``."""

    def name_of(self, node: int) -> str:
        """Return the name of the member with this number; an empty text if it is not in the
        view."""
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
    """The counters of one node at one moment; ``docs/operations.md`` explains each."""

    node: int
    """The number that the GMS gave the node; 0 while it has none."""
    cluster: int
    """The number of the cluster that the node's number belongs to."""
    connected: bool
    """True while the node is connected to the GMS."""
    counters: dict[str, int | float | str]
    """The protocol's counters, by name."""
    datagrams: dict[str, int]
    """The sockets' counters, by name."""
    warnings: tuple[str, ...]
    """System limits that slow the node down, each with its remedy; and why the GMS cannot be
    reached, if it cannot."""
