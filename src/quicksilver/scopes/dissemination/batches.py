"""Messages that a node has published and that are in no packet yet, and how packets are made.

What is published before frames are taken waits for company, topic by topic: messages with the
same attributes share packets, as long as they fit into one. Packets of a topic have serial
numbers, whoever sent their messages, and the number of the session that was installed last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.bundles import (
    MESSAGES_MAX,
    TABLE_BYTES,
    Bundle,
    cut_messages,
)
from quicksilver.scopes.dissemination.filters import TEXT_BYTES_MAX
from quicksilver.scopes.dissemination.packets import CUT_BYTES, Packet, Sender
from quicksilver.scopes.routing import Record
from quicksilver.stdx.errors import QuicksilverError

PAYLOAD_BYTES_MAX = 12 << 20
"""The longest message: with all that filters may add to it, it fits into a frame."""

PUBLISHED_ATTRIBUTES_MAX = 32
"""Attributes that a sender may give a message; the rest is for filters."""


class MessageTooLargeError(QuicksilverError, ValueError):
    """A message that cannot be carried."""

    def __init__(self, what: str, size: int, size_max: int) -> None:
        super().__init__(what, size, size_max)
        self.what = what
        self.size = size
        self.size_max = size_max

    def __str__(self) -> str:
        return f"a message has {self.size:,} {self.what}, {self.size_max:,} are allowed"


@dataclass(slots=True)
class _Batch:
    """Messages to a topic that share packets."""

    number: int
    attributes: dict[str, str]
    messages: list[bytes] = field(default_factory=list)
    bytes: int = 0


class Batches:
    """What one node has published and not sent, and the numbers of its packets."""

    def __init__(self, own: Sender, record: Record) -> None:
        """``record``: the one that the node's own messages begin with."""
        self._own = own
        self._record = record
        self._numbers: Counter[str] = Counter()
        """The number after the last message that was published, by topic."""
        self._serials: Counter[str] = Counter()
        self._sessions: dict[str, int] = {}
        self._batches: dict[str, _Batch] = {}

    def __bool__(self) -> bool:
        return bool(self._batches)

    def set_session(self, topic: str, number: int) -> None:
        """Packets of a topic are of this session from now on."""
        self._sessions[topic] = number

    def session_of(self, topic: str) -> int:
        return self._sessions.get(topic, 0)

    def has_room(
        self, topic: str, messages: Sequence[bytes], attributes: dict[str, str], size: int
    ) -> bool:
        """Whether messages can share packets with those that wait; if not, send those first."""
        batch = self._batches.get(topic)
        return batch is None or (
            batch.attributes == attributes
            and batch.bytes + size <= CUT_BYTES
            and len(batch.messages) + len(messages) <= MESSAGES_MAX
        )

    def add(
        self, topic: str, messages: Sequence[bytes], attributes: dict[str, str], size: int
    ) -> int:
        """Let messages wait that ``has_room``; return the number of the first."""
        number = self._numbers[topic]
        batch = self._batches.get(topic)
        if batch is None:
            batch = self._batches[topic] = _Batch(number, attributes)
        batch.messages += messages
        batch.bytes += size
        self._numbers[topic] = number + len(messages)
        return number

    def next_number(self, topic: str) -> int:
        """Return the number after the last message that was published."""
        return self._numbers[topic]

    def waiting_bytes(self, topic: str) -> int:
        batch = self._batches.get(topic)
        return 0 if batch is None else batch.bytes

    def topics(self) -> list[str]:
        """Return the topics for which messages wait."""
        return list(self._batches)

    def take(self, topic: str) -> tuple[int, Iterator[Packet]]:
        """Return what waits for a topic: the number of the first message, and the packets."""
        batch = self._batches.pop(topic)
        room = CUT_BYTES - sum(len(text) for each in batch.attributes.items() for text in each)
        runs = cut_messages(batch.messages, room)
        return batch.number, self.make_packets(
            topic, self._own, batch.number, runs, self._record, batch.attributes
        )

    def make_packets(
        self,
        topic: str,
        sender: Sender,
        number: int,
        bundles: Iterator[Bundle],
        record: Record,
        attributes: dict[str, str],
    ) -> Iterator[Packet]:
        """Make a packet of each bundle; the first message of the first one has a number."""
        for bundle in bundles:
            serial = self._serials[topic]
            self._serials[topic] = serial + 1
            packet = Packet(
                topic, sender, number, serial, self.session_of(topic), record, attributes, bundle
            )
            number = packet.stop
            yield packet


def check_messages(messages: Sequence[bytes], attributes: dict[str, str]) -> int:
    """Return how many bytes messages take in a packet; raise ``MessageTooLargeError``."""
    if attributes:
        if len(attributes) > PUBLISHED_ATTRIBUTES_MAX:
            raise MessageTooLargeError("attributes", len(attributes), PUBLISHED_ATTRIBUTES_MAX)
        longest = max(len(text) for each in attributes.items() for text in each)
        if longest > TEXT_BYTES_MAX:
            raise MessageTooLargeError("characters in an attribute", longest, TEXT_BYTES_MAX)
    size = sum(map(len, messages))
    if size > PAYLOAD_BYTES_MAX:
        longest = max(map(len, messages))
        if longest > PAYLOAD_BYTES_MAX:
            raise MessageTooLargeError("bytes", longest, PAYLOAD_BYTES_MAX)
    return size + TABLE_BYTES * len(messages)
