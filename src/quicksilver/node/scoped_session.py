"""What groups see of a node of a scope: lanes that they queue messages in, and who sent what.

There is a lane for each topic. Plain messages and those with an envelope (a key, headers) leave
in the order in which they were queued, and do not share packets: a packet says once, by an
attribute, what its messages are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.outbox import Outbox
from quicksilver.node.messages import Batch
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.forms import ENVELOPED, VOID
from quicksilver.wire.envelope import Envelope, parse_enveloped

TAKE_MESSAGES = 1024
"""Messages that are taken out of a lane at once."""

SENDERS_MAX = 100_000
"""Senders that have numbers; past it the one that got its number first gets a new one."""


class ScopedLane:
    """Where the messages to one topic wait; see ``multicast.sending.lane.Lane``."""

    is_blocked = False

    def __init__(self, topic: str, room_max: int) -> None:
        self.topic = topic
        self.outbox: Outbox[ScopedSender] = Outbox()
        self.room_max = room_max
        self.room = room_max
        """Bytes that may still be queued; senders wait while it is negative."""
        self.on_room: deque[Callable[[], None]] = deque()
        """Called, each once, when the queue has room again."""

    def queued_bytes(self) -> int:
        return self.room_max - self.room

    def take(self) -> Iterator[tuple[bool, list[bytes]]]:
        """Remove some of the messages, in runs: whether they have envelopes, and which.

        There is room for as many again.
        """
        senders, payloads = self.outbox.take(TAKE_MESSAGES)
        if senders is None:
            yield False, payloads
        else:
            pairs = zip(senders, payloads, strict=True)
            for is_enveloped, run in groupby(pairs, key=lambda pair: pair[0].is_enveloped):
                yield is_enveloped, [payload for _, payload in run]
        self.outbox.forget_size()
        size = sum(map(len, payloads))
        self.room += size  # no call in between: see ``Lane``
        while self.on_room and self.room >= 0:
            self.on_room.popleft()()


class ScopedSender:
    """A topic as groups send to it."""

    __slots__ = ("empty", "id", "is_empty", "is_enveloped", "lane", "name", "twin")

    def __init__(self, number: int, lane: ScopedLane, twin: ScopedSender | None = None) -> None:
        """``twin``: the same topic for plain messages; this one is for those with an envelope."""
        self.id = number
        self.name = lane.topic
        self.lane = lane
        self.empty: Empty = "wait"
        self.is_empty = False
        """Never: who is in a topic no single node knows. What is sent is kept for a while."""
        self.is_enveloped = twin is not None
        self.twin = ScopedSender(number, lane, self) if twin is None else twin
        if twin is None:
            lane.outbox.attach(self)


class _NoDirectory(NamedTuple):
    """There are no batches of views in scopes."""

    batch: int = 0


class ScopedSession:
    """The part of a node of a scope that groups use."""

    cluster = 0
    directory = _NoDirectory()

    def __init__(self, name: str, room_max: int, on_pause: Callable[[bool], None]) -> None:
        """``on_pause`` is told when messages are to be left where they are, and when not."""
        self.name = name
        self._on_pause = on_pause
        self.node = 1
        """The number of the node itself, among those of senders."""
        self.on_packet: Any = None
        self.idle_lane = ScopedLane("", 0)
        self.idle_lane.room = -1
        self._paused: set[str] = set()
        """Groups whose queues are full."""
        self.lanes: dict[str, ScopedLane] = {}
        self._senders: dict[str, ScopedSender] = {}
        self._room_max = room_max

    def sender_of(self, topic: str) -> ScopedSender:
        """Return how a topic is sent to; the same for all groups of that name."""
        sender = self._senders.get(topic)
        if sender is None:
            lane = self.lanes[topic] = ScopedLane(topic, self._room_max)
            sender = self._senders[topic] = ScopedSender(len(self._senders) + 1, lane)
        return sender

    # As ``multicast.session.Session`` has them

    def send(self, sender: ScopedSender, payload: bytes) -> ScopedLane:
        lane = sender.lane
        size = len(payload)
        lane.outbox.put(sender, payload)
        lane.room -= size  # no call in between: see ``Lane``
        return lane

    def put_enveloped(self, sender: ScopedSender, payload: bytes) -> ScopedLane:
        sender.lane.outbox.attach(sender.twin)
        return self.send(sender.twin, payload)

    def may_wait(self, sender: ScopedSender, size: int) -> bool:
        return True

    def waiting_bytes(self) -> int:
        return sum(lane.queued_bytes() for lane in self.lanes.values())

    def send_from(self, sender: ScopedSender, source: Callable[[], Any]) -> None:
        raise AssertionError("``check_supports`` refuses it")

    def groups_for(self, pattern: str) -> tuple[str, ...]:
        return ()

    def pause(self, name: str) -> None:
        if not self._paused:
            self._on_pause(True)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        if name in self._paused:
            self._paused.discard(name)
            if not self._paused:
                self._on_pause(False)


class Sources:
    """Numbers for senders, and what came from them as groups take it."""

    def __init__(self, own: Sender) -> None:
        self._numbers = {own: 1}
        self._last = 1
        self.malformed = 0
        """Messages that should have had an envelope, and had none."""

    def number_of(self, sender: Sender) -> int:
        number = self._numbers.get(sender)
        if number is None:
            if len(self._numbers) >= SENDERS_MAX:
                oldest = next(each for each, number in self._numbers.items() if number != 1)
                del self._numbers[oldest]
            self._last = number = self._last + 1
            self._numbers[sender] = number
        return number

    def batch_of(self, packet: Packet) -> Batch | None:
        """Return what a packet has for a group; None: nothing that can be read."""
        if packet.attributes.items() >= VOID.items():
            return None  # They mean something in the network that they come from, and only there.
        is_enveloped = packet.attributes.items() >= ENVELOPED.items()
        return self.make_batch(
            packet.topic, packet.sender, packet.number, packet.split(), is_enveloped
        )

    def make_batch(
        self,
        topic: str,
        sender: Sender,
        first: int,
        messages: list[bytes],
        is_enveloped: bool,
    ) -> Batch | None:
        number, source = self.number_of(sender), sender.node
        if not is_enveloped:
            return Batch(topic, number, 0, messages, first, source=source)
        payloads: list[bytes] = []
        sequences: list[int] = []
        envelopes: list[Envelope] = []
        for sequence, message in enumerate(messages, first):
            parsed = parse_enveloped(message)
            if parsed is None:
                self.malformed += 1
                continue
            envelopes.append(parsed[0])
            payloads.append(parsed[1])
            sequences.append(sequence)
        if not payloads:
            return None
        return Batch(
            topic, number, 0, payloads, sequences[0], sequences, 0, envelopes, source=source
        )
