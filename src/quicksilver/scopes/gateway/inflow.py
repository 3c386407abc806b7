"""Messages of other networks, on their way into the groups of this one.

All gateways of a network get them, as members of its scope, and keep copies. One of them brings
a topic's messages into the group, stream by stream, and tells the others how far every member
of the group is known to have them (``Confirmed``). When another one goes on, it begins there:
what members have had since, they drop (``multicast.carried``). So nothing is lost and nothing
repeated, at whatever point a gateway crashes.

That needs copies of all that is not confirmed. So what a gateway has brought in and that is not
confirmed is bounded; past the bound it waits, and the channels behind it do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Holdings, Name, Stream
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.forms import encode_incoming
from quicksilver.scopes.gateway.messages import MARKS_MAX, Confirmed
from quicksilver.stdx.ranges import RangeSet

UNCONFIRMED_BYTES_MAX = 16 << 20
"""What one gateway has brought in and not every member is known to have."""

ARRIVED_BYTES_MAX = 8 << 20
"""What has arrived and waits to be brought in; copies of it are needed until then."""

BRING_BYTES = 512 << 10
"""Messages of one stream that are brought in before it is another one's turn."""

TOPICS_MAX = 100_000
"""Topics whose messages are counted; past it the oldest is forgotten, and begins anew."""


@dataclass(slots=True)
class _Progress:
    """How far the messages of a stream have come into the group."""

    confirmed: int
    """Below it every member of the group has everything."""
    next: int
    """The first that was not brought in by this gateway, since it brings the topic in."""


class Bringing(NamedTuple):
    """Messages that are to be sent to a topic's group, as they travel there."""

    topic: str
    payloads: list[bytes]


class Ticket(NamedTuple):
    """What was brought in when a flush began."""

    marks: dict[Name, int]
    bytes: int


class Inflow:
    """Brings messages of topics into their groups."""

    def __init__(
        self, scope: str, holdings: Holdings, counters: Counter[str], run_bytes: int
    ) -> None:
        """``scope``: this network's own, whose senders' messages are there already.

        ``run_bytes``: how long runs of messages are.
        """
        self._scope = scope
        self._holdings = holdings
        self._counters = counters
        self._topics: set[str] = set()
        """Those that this gateway brings in."""
        self._progress: dict[Name, _Progress] = {}
        """By stream; the one that was quiet for longest first."""
        self._due: dict[Name, None] = {}
        """Streams that may have more to bring in."""
        self._arrived_bytes = 0
        """Of topics that this gateway brings in, since it does …"""
        self._brought_bytes = 0
        """… and what it has brought in …"""
        self._confirmed_bytes = 0
        """… and those that are confirmed, or given up."""
        self._run_bytes = run_bytes
        self._sequences: dict[str, int] = {}
        """How many messages were brought into each group, which numbers them. Kept when a topic
        is left: whoever records a group knows messages by these numbers."""
        self._said: dict[str, dict[Name, None]] = {}
        """Streams whose marks the other gateways are to be told, by topic."""

    # Inputs

    def handle_presented(self, topic: str, *, is_presented: bool) -> None:
        """This gateway brings in a topic from now on, or no more."""
        if not is_presented:
            self._topics.discard(topic)
            return
        if topic in self._topics:
            return
        self._topics.add(topic)
        for sender, stream in self._holdings.of_topic(topic).items():
            name = Name(topic, sender)
            progress = self._progress.get(name)
            if progress is not None:
                progress.next = progress.confirmed
            self._note(name, stream)

    def handle_arrived(self, topic: str, packet: Packet) -> None:
        """The next messages of a stream are here."""
        if topic not in self._topics:
            return
        name = Name(topic, packet.sender)
        if name not in self._progress:
            self._add(name, packet.number)
        self._due[name] = None
        self._arrived_bytes += packet.payload_bytes()

    def handle_left(self, topic: str) -> None:
        """This network has nothing to do with a topic any more."""
        self._topics.discard(topic)
        self._said.pop(topic, None)
        for name in [name for name in self._progress if name.topic == topic]:
            del self._progress[name]
            self._due.pop(name, None)

    def handle_confirmed(self, told: Confirmed) -> None:
        """Another gateway says what every member of a group has."""
        for sender, mark in told.marks:
            self._confirm(Name(told.topic, sender), mark)

    def begin_flush(self) -> Ticket | None:
        """Return what is to be confirmed, or None if all is.

        Begin a flush of the node with it, and say with ``handle_flushed`` how that ended.
        """
        marks = {
            name: progress.next
            for name, progress in self._progress.items()
            if progress.next > progress.confirmed and name.topic in self._topics
        }
        if not marks and self._brought_bytes == self._confirmed_bytes:
            return None
        return Ticket(marks, self._brought_bytes)

    def handle_flushed(self, ticket: Ticket, *, has_failed: bool) -> None:
        """Every member has what a ticket tells of; or that is not known, and it comes again."""
        self._confirmed_bytes = max(self._confirmed_bytes, ticket.bytes)
        for name, mark in ticket.marks.items():
            progress = self._progress.get(name)
            if progress is None:
                continue
            if has_failed:
                progress.next = min(progress.next, progress.confirmed)
                self._due[name] = None
            elif mark > progress.confirmed:
                self._confirm(name, mark)
                self._said.setdefault(name.topic, {})[name] = None

    def handle_newcomer(self) -> None:
        """A gateway has come, and is to know how far everybody is."""
        for name, progress in self._progress.items():
            if name.topic in self._topics and progress.confirmed:
                self._said.setdefault(name.topic, {})[name] = None

    # Outputs

    @property
    def waiting_bytes(self) -> int:
        """What was brought in and is not confirmed."""
        return self._brought_bytes - self._confirmed_bytes

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be brought in that no more should come."""
        return self._arrived_bytes - self._brought_bytes > ARRIVED_BYTES_MAX

    def confirmed(self, topic: str, sender: Sender) -> int:
        """Return below which number every member of a topic's group has a stream's messages."""
        progress = self._progress.get(Name(topic, sender))
        return 0 if progress is None else progress.confirmed

    def poll_bringing(self, blocked: Container[str] = ()) -> Bringing | None:
        """Return what to send to which group next, or None.

        What is returned counts as sent: the caller keeps it until the group takes it.
        ``blocked``: topics whose groups take nothing at the moment.
        """
        while self.waiting_bytes < UNCONFIRMED_BYTES_MAX:
            name = next((each for each in self._due if each.topic not in blocked), None)
            if name is None:
                return None
            del self._due[name]
            stream = self._holdings.find(*name)
            progress = self._progress.get(name)
            if stream is None or progress is None or name.topic not in self._topics:
                continue
            payloads = self._bring(name, stream, progress)
            if not self._due:
                # All that arrived is in, or lost, or is brought in again.
                self._arrived_bytes = self._brought_bytes
            if payloads:
                return Bringing(name.topic, payloads)
        return None

    def poll_said(self) -> Confirmed | None:
        """Return what the other gateways are to be told, or None."""
        if not self._said:
            return None
        topic = next(iter(self._said))
        names = list(self._said.pop(topic))
        told, rest = names[:MARKS_MAX], names[MARKS_MAX:]
        if rest:
            self._said[topic] = dict.fromkeys(rest)
        known = [(name, self._progress.get(name)) for name in told]
        marks = [(name.sender, each.confirmed) for name, each in known if each is not None]
        return Confirmed(topic, tuple(marks))

    # Streams

    def _note(self, name: Name, stream: Stream) -> None:
        """A stream is there from the beginning, as far as this gateway has copies."""
        if name.sender.scope == self._scope:
            return
        if name not in self._progress:
            self._add(name, stream.kept)
        self._due[name] = None

    def _add(self, name: Name, first: int) -> None:
        if name.sender.scope == self._scope:
            return
        if len(self._progress) >= STREAMS_MAX:
            oldest = next(iter(self._progress))
            del self._progress[oldest]
            self._due.pop(oldest, None)
        self._progress[name] = _Progress(first, first)

    def _confirm(self, name: Name, mark: int) -> None:
        progress = self._progress.get(name)
        if progress is None:
            self._add(name, mark)
        elif mark > progress.confirmed:
            progress.confirmed = mark
            progress.next = max(progress.next, mark)

    def _bring(self, name: Name, stream: Stream, progress: _Progress) -> list[bytes]:
        """Take the next messages of a stream; if there are more, it is due again."""
        wanted = RangeSet([(progress.next, stream.low)] if progress.next < stream.low else [])
        payloads: list[bytes] = []
        if name.topic not in self._sequences and len(self._sequences) >= TOPICS_MAX:
            del self._sequences[next(iter(self._sequences))]
        for packet in self._holdings.copies(*name, wanted, BRING_BYTES):
            lost = progress.next if packet.number > progress.next else None
            if lost is not None:
                self._counters["incoming_lost"] += packet.number - lost
            sequence = self._sequences.get(name.topic, 0)
            runs, count = encode_incoming(packet, lost, sequence, self._run_bytes)
            payloads += runs
            self._sequences[name.topic] = sequence + count
            progress.next = packet.stop
            self._brought_bytes += packet.payload_bytes()
            if progress.next < stream.low:
                self._due[name] = None
        return payloads
