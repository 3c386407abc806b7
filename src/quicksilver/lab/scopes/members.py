"""A member of one topic, as a process: it publishes when told to, and checks all that it gets.

Each message says who sent it, its number and when it was sent, and ends with a checksum. It does
not matter whether the member is a node of a network with a GMS or of a scope: what it is judged
by is in the messages alone.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from zlib import crc32

import msgspec

from quicksilver.lab.child import poll_orders, tell
from quicksilver.lab.nodes import NodeSpec
from quicksilver.node import sync
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.messages import Batch
from quicksilver.stdx.ranges import RangeSet

PROBE, COUNTED = 0, 1
"""What a message is: an early one that shows that there is a way, or one of those that count."""

_HEAD = struct.Struct("<HHQd")
_CHECKSUM_BYTES = 4
SIZE_MIN = _HEAD.size + _CHECKSUM_BYTES

POLL_S = 0.01
ORDER_S = 10.0
SAMPLES_MAX = 20_000
"""Times on the way that are kept of each sender."""

PACE_S = 0.005
"""Those who send at a rate send what is due so often."""


class TopicMember(NodeSpec, frozen=True, kw_only=True, tag="topic_member"):
    """Joins a topic; ``gms`` is the address of a GMS or of a scope's manager."""

    topic: str
    tag: int
    """The number by which others know what it sends."""


# Orders


class Probe(msgspec.Struct, frozen=True, tag="probe", tag_field="order"):
    """Send a message that does not count, and tell whose messages came so far."""

    sends: bool


class Send(msgspec.Struct, frozen=True, tag="send", tag_field="order"):
    """Send messages that count, for a while."""

    seconds: float
    rate: float
    """Messages a second; 0: as fast as they are taken."""
    size: int
    flush_s: float


class Judge(msgspec.Struct, frozen=True, tag="judge", tag_field="order"):
    """Wait for all that was sent, then tell what came."""

    expected: dict[int, int]
    """Messages of each sender that count."""
    timeout_s: float


class Stop(msgspec.Struct, frozen=True, tag="stop", tag_field="order"):
    """End."""


Order = Probe | Send | Judge | Stop


# What it says


class Joined(msgspec.Struct, frozen=True, tag="joined", tag_field="event"):
    """It takes part in the topic."""

    tag: int


class Heard(msgspec.Struct, frozen=True, tag="heard", tag_field="event"):
    """Whose messages came so far."""

    tags: list[int]


class Sent(msgspec.Struct, frozen=True, kw_only=True, tag="sent", tag_field="event"):
    """What it has sent."""

    tag: int
    messages: int
    started_at: float
    ended_at: float
    flush_s: float
    problem: str = ""
    """Why it is not known whether everybody has everything; empty: everybody has."""


class FromSender(msgspec.Struct, kw_only=True):
    """What came from one sender."""

    messages: int
    missing: int
    duplicates: int
    disordered: int
    """Times that a message came after a later one."""
    last_at: float
    latency_s: list[float]
    """Half, 99 of 100 and all messages took no longer than this; empty: none came."""


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag="judged", tag_field="event"):
    """What came of everybody."""

    tag: int
    senders: dict[int, FromSender]
    damaged: int
    """Messages whose checksum is wrong."""
    unasked: int
    """Messages of senders that should have sent none."""
    stats: dict[str, int | float | str]


@dataclass(slots=True)
class _Account:
    """What came from one sender: all below ``low``, and ``early`` ones."""

    low: int = 0
    early: RangeSet = field(default_factory=RangeSet)
    highest: int = -1
    messages: int = 0
    duplicates: int = 0
    disordered: int = 0
    last_at: float = 0.0
    samples: list[float] = field(default_factory=list)

    def take(self, number: int) -> None:
        self.messages += 1
        if number == self.low and not self.early:
            self.low = number + 1
        elif number < self.low or number in self.early:
            self.duplicates += 1
        else:
            self.disordered += number < self.highest
            self.early.add(number, number + 1)
            if number == self.low:
                self.low = next(iter(self.early))[1]
                self.early.discard_below(self.low)
        self.highest = max(self.highest, number)

    def has(self, count: int) -> bool:
        return self.low >= count

    def judge(self, expected: int) -> FromSender:
        samples = sorted(self.samples)
        last = len(samples) - 1
        shown = [samples[int(last * part)] for part in (0.5, 0.99, 1.0)] if samples else []
        distinct = self.messages - self.duplicates
        return FromSender(
            messages=self.messages,
            missing=expected - distinct,
            duplicates=self.duplicates,
            disordered=self.disordered,
            last_at=self.last_at,
            latency_s=shown,
        )


class Checker:
    """Checks every message that comes; fed on the core thread."""

    def __init__(self) -> None:
        self.accounts: dict[int, _Account] = {}
        self.probed: set[int] = set()
        self.damaged = 0

    def handle_batch(self, batch: Batch) -> None:
        now = time.monotonic()
        unpack = _HEAD.unpack_from
        for payload in batch.payloads:
            end = len(payload) - _CHECKSUM_BYTES
            if len(payload) < SIZE_MIN or crc32(payload[:end]) != int.from_bytes(
                payload[end:], "little"
            ):
                self.damaged += 1
                continue
            tag, kind, number, sent_at = unpack(payload)
            if kind == PROBE:
                self.probed.add(tag)
                continue
            account = self.accounts.get(tag)
            if account is None:
                account = self.accounts[tag] = _Account()
            account.take(number)
            account.last_at = now
            if len(account.samples) < SAMPLES_MAX and not number & 7:
                account.samples.append(now - sent_at)

    def has_all(self, expected: dict[int, int]) -> bool:
        none = _Account()
        return all(self.accounts.get(tag, none).has(count) for tag, count in expected.items())

    def judge(
        self, tag: int, expected: dict[int, int], stats: dict[str, int | float | str]
    ) -> Judged:
        none = _Account()
        return Judged(
            tag=tag,
            senders={
                each: self.accounts.get(each, none).judge(count)
                for each, count in sorted(expected.items())
            },
            damaged=self.damaged,
            unasked=sum(a.messages for t, a in self.accounts.items() if t not in expected),
            stats=stats,
        )


def make_message(tag: int, kind: int, number: int, size: int) -> bytes:
    """Return a message that says who sent it, when and as which one."""
    head = _HEAD.pack(tag, kind, number, time.monotonic())
    body = head.ljust(size - _CHECKSUM_BYTES, b"\0")
    return body + crc32(body).to_bytes(_CHECKSUM_BYTES, "little")


def run_topic_member(node: sync.Node, spec: TopicMember) -> None:
    """Take part until told to stop."""
    checker = Checker()
    group = node.join(spec.topic)
    group.on_batch(checker.handle_batch)
    tell(Joined(spec.tag))
    for order in poll_orders(Order, ORDER_S):
        match order:
            case Probe(sends):
                if sends:
                    group.send(make_message(spec.tag, PROBE, 0, SIZE_MIN))
                tell(Heard(sorted(checker.probed)))
            case Send():
                tell(_send(node, group, spec.tag, order))
            case Judge(expected, timeout_s):
                wanted = {tag: n for tag, n in expected.items() if tag != spec.tag}
                deadline = time.monotonic() + timeout_s
                while not checker.has_all(wanted) and time.monotonic() < deadline:
                    time.sleep(POLL_S)
                stats = node.stats()
                tell(checker.judge(spec.tag, wanted, {**stats.datagrams, **stats.counters}))
            case Stop():
                node.close(timeout=0)
                return


def _send(node: sync.Node, group: sync.Group[bytes], tag: int, order: Send) -> Sent:
    began = time.monotonic()
    sent = 0
    while (passed := time.monotonic() - began) < order.seconds:
        due = int(passed * order.rate) - sent if order.rate else 64
        for _ in range(due):
            group.send(make_message(tag, COUNTED, sent, order.size))
            sent += 1
        if order.rate:
            time.sleep(PACE_S)
    ended = time.monotonic()
    problem = ""
    try:
        node.flush(order.flush_s)
    except (QuicksilverError, TimeoutError) as error:
        problem = str(error)
    return Sent(
        tag=tag,
        messages=sent,
        started_at=began,
        ended_at=ended,
        flush_s=time.monotonic() - ended,
        problem=problem,
    )
