"""Packets: runs of consecutive messages of one sender to one topic.

Work is done per packet, so the cost of a message falls with the number of messages in its
packet. Numbers count messages: nodes may cut the same messages into different packets, as two
gateways of one network do, and whoever gets both takes each message once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from quicksilver.scopes.dissemination.bundles import Bundle, bundle
from quicksilver.scopes.dissemination.filters import TEXT_BYTES_MAX
from quicksilver.scopes.names import Name as ScopeName
from quicksilver.scopes.routing import Record
from quicksilver.stdx.ranges import VALUE_MAX

PACKET_BYTES = 300
MESSAGE_BYTES = 40
TEXT_BYTES = 60
"""Memory that a packet, a message in it (where lengths differ) and a text in it take besides their
content, about."""

CUT_BYTES = 56_000
"""Messages are put into packets of so many bytes, so that a packet fits into a datagram; one
that is longer has a packet of its own."""

LINK_CUT_BYTES = 400_000
"""Where a gateway hears many messages at once it makes packets of so many bytes: with those that
fit into a datagram it needed twice the time. Whoever sends datagrams divides them."""

ATTRIBUTES_MAX = 64
"""Attributes of a packet, tags included."""

Number = Annotated[int, msgspec.Meta(ge=0, lt=VALUE_MAX)]
Mark = Annotated[int, msgspec.Meta(ge=0, le=VALUE_MAX)]
"""The number of a message, and the number that comes after some."""

Text = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
Attributes = Annotated[dict[Text, Text], msgspec.Meta(max_length=ATTRIBUTES_MAX)]


class Sender(msgspec.Struct, frozen=True, array_like=True):
    """A node that sends, in one of its lives; its numbers begin at 0 with each."""

    scope: ScopeName
    node: ScopeName
    life: int


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """Some messages of a topic on their way."""

    topic: ScopeName
    sender: Sender
    number: Number
    """Of the first message."""
    serial: Number
    """Counts the packets of the node that cut them; filters judge a packet by it."""
    session: Number
    record: Record
    """How it came here. Empty: by a way of which nothing is known; then it does not go on."""
    attributes: Attributes
    bundle: Bundle

    @classmethod
    def of(
        cls,
        topic: str,
        sender: Sender,
        number: int,
        serial: int,
        session: int,
        record: Record,
        attributes: dict[str, str],
        messages: Sequence[bytes],
    ) -> Packet:
        """Return a packet of messages, of which there are some and not too many."""
        return cls(topic, sender, number, serial, session, record, attributes, bundle(messages))

    @property
    def count(self) -> int:
        """How many messages it has."""
        return self.bundle.count

    def split(self) -> list[bytes]:
        """Return the messages, as new objects."""
        return self.bundle.split()

    @property
    def stop(self) -> int:
        """The number that comes after the last message."""
        return self.number + self.bundle.count

    def payload_bytes(self) -> int:
        """Return how long its messages are."""
        return len(self.bundle.body)

    def size(self) -> int:
        """Return about how much memory it takes."""
        size = PACKET_BYTES + MESSAGE_BYTES * len(self.bundle.sizes) + self.payload_bytes()
        size += len(self.sender.scope) + len(self.sender.node)
        for entry in self.record:
            size += 3 * TEXT_BYTES + len(entry.scope) + len(entry.origin) + len(entry.at)
        for name, value in self.attributes.items():
            size += 2 * TEXT_BYTES + len(name) + len(value)
        return size

    def cut(self, first: int, stop: int) -> Packet:
        """Return those of its messages that are between two numbers; some must be."""
        start = max(first - self.number, 0)
        assert start < stop - self.number
        return Packet(
            self.topic, self.sender, self.number + start, self.serial, self.session,
            self.record, self.attributes, self.bundle.part(start, stop - self.number),
        )  # fmt: skip

    def moved(self, record: Record, attributes: Mapping[str, str] | None = None) -> Packet:
        """Return the packet as it is elsewhere, with attributes that it was given on the way."""
        kept = self.attributes if attributes is None else dict(attributes)
        return Packet(
            self.topic, self.sender, self.number, self.serial, self.session,
            record, kept, self.bundle,
        )  # fmt: skip


class Gap(NamedTuple):
    """Messages that nobody can give any more, told in their place among those delivered."""

    topic: str
    sender: Sender
    first: int
    last: int
