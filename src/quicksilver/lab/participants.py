"""Nodes in processes of their own that show what they do, for ``up`` and ``demo``.

A *subscriber* joins, keeps accounts, and tells them when ordered to finish. A *publisher*
opens groups, sends at full speed when told to go, flushes and tells what it sent. A *member*
joins, says each second what arrived, and sends at a slow rate if asked. The end of
its input ends each of them.
"""

from __future__ import annotations

import select
import sys
import time
from zlib import crc32

import msgspec

from quicksilver.lab.accounts import Accounts, Published, Received
from quicksilver.lab.child import orders, tell
from quicksilver.lab.nodes import NodeSpec
from quicksilver.node import sync
from quicksilver.node.messages import Batch, NodeStats

POLL_S = 0.01
REPORT_S = 1.0


class Subscriber(NodeSpec, frozen=True, kw_only=True, tag="subscriber"):
    """Joins groups."""

    groups: dict[str, int]
    """Groups to join, each with the members to wait for."""


class Publisher(NodeSpec, frozen=True, kw_only=True, tag="publisher"):
    """Sends to groups."""

    groups: list[str]


class Member(NodeSpec, frozen=True, kw_only=True, tag="member"):
    """Joins groups and sends to them now and then."""

    groups: list[str]
    rate: float = 0.0
    """Messages a second that it sends to each of its groups."""
    size: int = 100
    """Bytes of each such message."""


# Orders


class Publish(msgspec.Struct, frozen=True, tag="publish", tag_field="order"):
    """A publisher sends ``messages`` of ``size`` bytes to each of its groups."""

    messages: int
    size: int
    flush_s: float = 30.0


class Finish(msgspec.Struct, frozen=True, tag="finish", tag_field="order"):
    """A subscriber waits for what was sent, then tells what came."""

    expected: list[tuple[int, str, int]]
    """Sender, group and number of messages of each stream."""
    timeout_s: float = 10.0


# What they say, besides their accounts


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """It is in its groups."""

    node: int
    groups: list[str]


class HalfSent(msgspec.Struct, frozen=True, tag="half", tag_field="event"):
    """A publisher has sent half of its messages."""

    node: int


class ViewSeen(msgspec.Struct, frozen=True, tag="view", tag_field="event"):
    """A member was given a new view."""

    group: str
    number: int
    members: list[int]


class MessagesSeen(msgspec.Struct, frozen=True, tag="received", tag_field="event"):
    """A member received messages since it last said so."""

    group: str
    messages: int
    total: int
    total_bytes: int
    last: str
    """The beginning of the last of them, as text."""


def run_subscriber(node: sync.Node, spec: Subscriber) -> None:
    """Keep accounts of all that arrives."""
    accounts = Accounts()
    last_at = time.monotonic()

    def count(batch: Batch) -> None:
        nonlocal last_at
        last_at = time.monotonic()
        accounts.handle_batch(batch)

    groups = node.join_all(list(spec.groups))
    for group in groups:
        group.on_batch(count)
    for group in groups:
        group.wait_members(spec.groups[group.name])
    tell(Ready(node.id, list(spec.groups)))
    for order in orders(Finish):
        deadline = time.monotonic() + order.timeout_s
        while not all(accounts.has(*stream) for stream in order.expected):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        tell(
            Received(
                node=node.id,
                streams=list(accounts.streams.values()),
                messages=accounts.messages,
                bytes=accounts.bytes,
                last_at=last_at,
                stats=_flat(node.stats()),
            )
        )


def run_publisher(node: sync.Node, spec: Publisher) -> None:
    """Send when told to."""
    groups = node.open_all(spec.groups)
    tell(Ready(node.id, spec.groups))
    for order in orders(Publish):
        tail = bytes(max(0, order.size - 8))
        started = time.monotonic()
        checksum = 0
        half = order.messages // 2
        for number in range(order.messages):
            payload = number.to_bytes(8, "little") + tail
            checksum = crc32(payload, checksum)
            for group in groups:
                group.send(payload)
            if number == half:
                tell(HalfSent(node.id))
        accepted = time.monotonic()
        node.flush(order.flush_s)
        tell(
            Published(
                node=node.id,
                groups=spec.groups,
                messages=order.messages,
                checksum=checksum,
                started_at=started,
                accepted_at=accepted,
                flushed_at=time.monotonic(),
                stats=_flat(node.stats()),
            )
        )


def run_member(node: sync.Node, spec: Member) -> None:
    """Take part until the input ends."""
    groups = node.join_all(spec.groups)
    received: dict[str, tuple[int, int, bytes]] = {}
    """Messages, bytes and the last payload so far; written by the core thread alone."""

    def note(batch: Batch) -> None:
        messages, size, _ = received.get(batch.group, (0, 0, b""))
        received[batch.group] = (
            messages + len(batch),
            size + sum(map(len, batch.payloads)),
            batch.payloads[-1],
        )

    for group in groups:
        group.on_batch(note)
    tell(Ready(node.id, spec.groups))
    payload = f"from {spec.name} ".encode().ljust(spec.size, b".")[: spec.size]
    news = _NewsTeller()
    began = report_at = time.monotonic()
    sent = 0
    while not select.select([sys.stdin], [], [], POLL_S)[0]:
        now = time.monotonic()
        for _ in range(int((now - began) * spec.rate) - sent):
            sent += 1
            for group in groups:
                group.send(payload)
        if now >= report_at:
            report_at = now + REPORT_S
            for group in groups:
                news.tell_view(group)
                news.tell_received(group.name, received.get(group.name))


class _NewsTeller:
    """Tells the parent what changed since the last time."""

    def __init__(self) -> None:
        self._views: dict[str, int] = {}
        self._messages: dict[str, int] = {}

    def tell_view(self, group: sync.Group[bytes]) -> None:
        view = group.view
        if view is None or self._views.get(view.group) == view.number:
            return
        self._views[view.group] = view.number
        tell(ViewSeen(view.group, view.number, list(view.members)))

    def tell_received(self, group: str, seen: tuple[int, int, bytes] | None) -> None:
        before = self._messages.get(group, 0)
        if seen is None or seen[0] == before:
            return
        messages, size, last = seen
        self._messages[group] = messages
        sample = last[:60].decode(errors="backslashreplace").rstrip(".")
        tell(MessagesSeen(group, messages - before, messages, size, sample))


def _flat(stats: NodeStats) -> dict[str, int | float | str]:
    return {**stats.datagrams, **stats.counters}
