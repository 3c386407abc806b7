"""Senders and receivers in processes of their own, and what they measure.

The parent's part is ``load_run``. Each says that it is ready, waits for ``Go``,
does its work, tells what came of it, and closes its node when its input ends.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from quicksilver.lab.child import next_order, tell, wait_for_end
from quicksilver.lab.instruments import (
    CollectorTime,
    Latency,
    Observed,
    Observer,
    OrderCheck,
    Usage,
    recovery_s,
    summarise_ages,
    take_usage,
)
from quicksilver.lab.nodes import NodeSpec, open_node
from quicksilver.node import sync
from quicksilver.node.messages import Burst
from quicksilver.node.samples import resident_bytes

ARRIVALS_MAX = 2_000_000
"""Stamped messages whose age is kept."""
COMPLETE_S = 30.0
"""How long receivers wait for what is missing."""
SPIN_NS = 100_000
STEP = 256
"""Messages between two looks at the clock."""


class LoadSpec(NodeSpec, frozen=True, kw_only=True):
    """What senders and receivers have in common."""

    connect_timeout_s: float = 60.0
    """Many processes that start together on few cores take their time."""
    groups: int = 1
    collector: Literal["tuned", "default", "frozen", "disabled"] = "tuned"
    """What is done about the cyclic garbage collector."""
    held_mb: int = 0
    """Memory that the application holds, in small objects that the collector visits."""
    is_observed: bool = False
    """Take records of token rounds, acknowledgements and samples, which costs a little."""

    def group_names(self) -> list[str]:
        return [f"load-{place}" for place in range(self.groups)]


class Sender(LoadSpec, frozen=True, kw_only=True, tag="sender"):
    """Sends as fast as it goes, or at a rate; pushed or pulled."""

    size: int = 1000
    seconds: float = 2.0
    rate: float = 0.0
    """Messages a second, stamped with when they were sent; 0: as fast as it goes."""
    is_spinning: bool = False
    """At a rate: wait for the last moment awake, which takes a part of a core."""
    mode: Literal["push", "pull"] = "push"
    preallocated: bool = True
    """False: each message is made anew, as in the papers."""


class Receiver(LoadSpec, frozen=True, kw_only=True, tag="receiver"):
    """Counts what arrives."""

    part: str = ""
    """A group that only receivers of the same region join; empty: all are one region."""

    is_stamped: bool = False
    """Messages begin with when they were sent: note how old they are."""
    is_verified: bool = False
    """Check the order of each group's messages, one call a message."""
    keeps: int = 0
    """So many of the newest messages are kept, as an application might."""


# Orders


class Go(msgspec.Struct, frozen=True, tag="go", tag_field="order"):
    """Begin to measure."""


class Sent(msgspec.Struct, frozen=True, tag="sent", tag_field="order"):
    """To receivers: so many messages were sent to each group."""

    messages: list[int]


# Results


class LoadReady(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """The process is in its groups."""


class SenderResult(msgspec.Struct, frozen=True, kw_only=True, tag="sent", tag_field="event"):
    """What a sender measured."""

    sent: list[int]
    """Messages to each group."""
    seconds: float
    """Until all of it was acknowledged."""
    usage: Usage
    rss_empty_bytes: int
    """Resident memory when its groups were open and nothing sent."""
    collections: int
    counters: dict[str, Any]
    observed: Observed


class ReceiverResult(msgspec.Struct, frozen=True, kw_only=True, tag="received", tag_field="event"):
    """What a receiver measured."""

    count: int
    lost: int
    disorders: int
    """Messages that were not the next of their group, if that was verified."""
    first_at: float
    last_at: float
    wall_s: float
    usage: Usage
    counters: dict[str, Any]
    changes: dict[str, float]
    """How much counters grew since the beginning."""
    latency: Latency | None
    recovery_s: float | None
    losses: int
    observed: Observed


@contextmanager
def _loaded(spec: LoadSpec, observer: Observer) -> Iterator[tuple[sync.Node, CollectorTime]]:
    """Have a node meanwhile, with memory held and the collector set as the spec says."""
    held: list[Any] = []
    if spec.held_mb:
        held = [[place, str(place)] for place in range(spec.held_mb * 1_000_000 // 150)]
    if spec.collector == "disabled":
        gc.disable()
    elif spec.collector == "frozen":
        gc.collect()
        gc.freeze()
    collector = CollectorTime()
    if spec.is_observed:
        gc.callbacks.append(collector.note)
    spec = msgspec.structs.replace(spec, is_gc_tuned=spec.collector == "tuned")
    with open_node(spec, observer if spec.is_observed else None) as node:
        yield node, collector
    del held


# Receiver


def run_receiver(spec: Receiver) -> None:
    """Count what arrives; with stamps, note how old it is."""
    observer = Observer()
    clock = time.monotonic
    with _loaded(spec, observer) as (node, collector):
        if spec.part:
            node.join_all([spec.part])
        joined = node.join_all(spec.group_names())
        arrivals = _Arrivals(spec, joined)
        node.on_burst(arrivals.handle_verified if spec.is_verified else arrivals.handle)
        before = node.stats().counters
        tell(LoadReady())
        next_order(Go)
        observer.clear()
        began, used = clock(), take_usage(collector)
        sent = next_order(Sent).messages
        deadline = clock() + COMPLETE_S
        while arrivals.missing(sent) and clock() < deadline:
            time.sleep(0.02)
        usage, counters = take_usage(collector).since(used), node.stats().counters
        recovery, losses = recovery_s(list(zip(arrivals.times, arrivals.ages, strict=True)))
        tell(
            ReceiverResult(
                count=arrivals.total,
                lost=arrivals.missing(sent),
                disorders=arrivals.check.disorders,
                first_at=arrivals.first_at,
                last_at=arrivals.last_at,
                wall_s=clock() - began,
                usage=usage,
                counters=dict(counters),
                changes={
                    name: float(counters.get(name, 0)) - float(before.get(name, 0))
                    for name in ("missing", "repairs_received", "kernel_drops")
                },
                latency=summarise_ages(arrivals.ages),
                recovery_s=recovery,
                losses=losses,
                observed=observer.result(),
            )
        )
        wait_for_end()


class _Arrivals:
    """A receiver's application; fed on the core thread."""

    def __init__(self, spec: Receiver, joined: Sequence[sync.Group[bytes]]) -> None:
        self.first_at = self.last_at = 0.0
        self.times: array[float] = array("d")
        self.ages: array[float] = array("d")
        # Groups are numbered densely, so their numbers index the table as they are.
        self.check = OrderCheck(1 + max(group.id for group in joined))
        self._ids = [group.id for group in joined]
        self._is_verified = spec.is_verified
        self._is_stamped = spec.is_stamped
        self._keeps = spec.keeps
        self._kept: list[bytes] = []
        self._count = 0

    @property
    def total(self) -> int:
        return self.check.count if self._is_verified else self._count

    def missing(self, sent: Sequence[int]) -> int:
        """Return how many of the messages sent to each group are not there."""
        if not self._is_verified:
            return max(0, sum(sent) - self._count)
        by_id = [0] * len(self.check.expected)
        for number, count in zip(self._ids, sent, strict=True):
            by_id[number] = count
        return self.check.missing(by_id)

    def handle_verified(self, burst: Burst) -> None:
        now = time.monotonic()
        if not self.first_at:
            self.first_at = now
        self.last_at = now
        if burst.group is not None:
            self.check.handle_run(burst.group, burst.first, burst.payloads)
        else:
            self.check.handle_mixed(burst.groups, burst.sequences, burst.payloads)

    def handle(self, burst: Burst) -> None:
        now = time.monotonic()
        payloads = burst.payloads
        if not self.first_at:
            self.first_at = now
        self._count += len(payloads)
        self.last_at = now
        if self._keeps:
            kept = self._kept
            kept.extend(payloads)
            if len(kept) > self._keeps:
                del kept[: len(kept) - self._keeps]
        if self._is_stamped and len(self.ages) < ARRIVALS_MAX:
            for payload in payloads:
                self.times.append(now)
                self.ages.append(now - int.from_bytes(payload[:8], "little") / 1e9)


# Sender


def run_sender(spec: Sender) -> None:
    """Send as fast as it goes, or at a rate; pushed or pulled."""
    observer = Observer()
    clock = time.monotonic
    with _loaded(spec, observer) as (node, collector):
        groups = node.open_all(spec.group_names())
        empty = resident_bytes()
        tell(LoadReady())
        next_order(Go)
        began, used = clock(), take_usage(collector)
        observer.clear()
        if spec.rate:
            sent = _send_at_rate(groups, spec)
        elif spec.mode == "pull":
            sent = _send_pulled(groups, spec)
        else:
            sent = _send_pushed(groups, spec)
        node.flush(timeout=60)
        tell(
            SenderResult(
                sent=sent,
                seconds=clock() - began,
                usage=take_usage(collector).since(used),
                rss_empty_bytes=empty,
                collections=sum(each["collections"] for each in gc.get_stats()),
                counters=dict(node.stats().counters),
                observed=observer.result(),
            )
        )
        wait_for_end()


def _send_pushed(groups: list[sync.Group[bytes]], spec: Sender) -> list[int]:
    """One ``send`` a message, to the groups in turn."""
    size = spec.size
    clock = time.monotonic
    end = clock() + spec.seconds
    payload = bytes(size)
    count = 0
    sends = [group.send for group in groups]
    if len(groups) == 1 and spec.preallocated:
        send = sends[0]
        while clock() < end:
            for _ in range(STEP):
                send(payload)
            count += STEP
        return [count]
    rounds = max(1, STEP // len(groups))
    place = 0
    while clock() < end:
        if len(groups) > STEP:
            part = sends[place : place + STEP]
            place = place + STEP if place + STEP < len(groups) else 0
        else:
            part = sends
        if spec.preallocated:
            for _ in range(rounds):
                for send in part:
                    send(payload)
        else:
            for _ in range(rounds):
                for send in part:
                    send(bytes(size))
        count += rounds
    return count_sent(len(groups), count, STEP)


def count_sent(groups: int, count: int, step: int) -> list[int]:
    """Return how many messages went to each group after ``count`` passes.

    A pass is one message to each of all groups, or to the next ``step`` of many.
    """
    if groups <= step:
        return [count] * groups
    sent = [0] * groups
    slices = -(-groups // step)
    for which in range(slices):
        times = count // slices + (1 if which < count % slices else 0)
        for place in range(which * step, min(groups, (which + 1) * step)):
            sent[place] = times
    return sent


def _send_pulled(groups: list[sync.Group[bytes]], spec: Sender) -> list[int]:
    """Be asked for each message; how many each group got is not told apart."""
    clock = time.monotonic
    end = clock() + spec.seconds
    payload = bytes(spec.size)
    asked = refused = 0

    def give() -> bytes | None:
        nonlocal asked, refused
        asked += 1
        if not asked & (STEP - 1) and clock() >= end:
            refused += 1
            return None
        return payload if spec.preallocated else bytes(spec.size)

    for group in groups:
        group.send_from(give)
    while not refused or clock() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    return [asked - refused, *([0] * (len(groups) - 1))]


def _send_at_rate(groups: list[sync.Group[bytes]], spec: Sender) -> list[int]:
    """Send stamped messages at an even rate, to the groups in turn."""
    tail = bytes(max(0, spec.size - 8))
    clock = time.monotonic_ns
    interval = 1e9 / spec.rate
    total = int(spec.rate * spec.seconds)
    count = len(groups)
    lead = SPIN_NS if spec.is_spinning else 0
    started = clock()
    for number in range(total):
        due = started + number * interval
        while (early := due - clock()) > 0:
            # Sleeping is a little late, which stamps allow for; spinning would take a core.
            if early > SPIN_NS + lead:
                time.sleep((early - lead) / 1e9)
        groups[number % count].send(clock().to_bytes(8, "little") + tail)
    return [total // count + (place < total % count) for place in range(count)]
