"""Publishers and listeners in processes of their own, for the longest stall of each fault.

A *listener* joins and notes when messages came and which. A *publisher* numbers what
it sends, and flushes again and again or in the end alone. Each takes orders
meanwhile; ``experiments.real_stalls`` is the parent's part.
"""

from __future__ import annotations

import threading
import time

import msgspec

from quicksilver.lab.accounts import NUMBER_BYTES, Hearing, Promises, number_message
from quicksilver.lab.child import poll_orders, tell
from quicksilver.lab.nodes import Harm, NodeSpec, open_node
from quicksilver.node import sync
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.messages import Batch

FLUSH_S = 0.25
LAST_FLUSH_S = 30.0
LOOK_S = 0.01

Ranges = list[tuple[int, int]]


class StallListener(NodeSpec, frozen=True, kw_only=True, tag="stall-listener"):
    """Joins groups and times what arrives in the first of them."""

    groups: list[str]


class StallPublisher(NodeSpec, frozen=True, kw_only=True, tag="stall-publisher"):
    """Sends to one group until it is told to end."""

    group: str
    size: int
    rate: float
    """Messages a second; 0: as fast as it goes."""
    flushes: bool
    """True: all the time; False: in the end alone."""


# Orders


class Time(msgspec.Struct, frozen=True, tag="time", tag_field="order"):
    """Look for gaps from now on, or no longer."""

    is_on: bool


class Finish(msgspec.Struct, frozen=True, tag="finish", tag_field="order"):
    """A publisher sends no more and flushes; everybody tells what there was."""


class Count(msgspec.Struct, frozen=True, tag="count", tag_field="order"):
    """A listener says how many messages came so far."""


Order = Harm | Time | Finish | Count

# What they say


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="event"):
    """It is in its groups."""


class Counted(msgspec.Struct, frozen=True, tag="counted", tag_field="event"):
    """So many messages of the first group came."""

    messages: int
    at: float


class Listened(msgspec.Struct, frozen=True, kw_only=True, tag="listened", tag_field="event"):
    """What a listener heard."""

    gap_s: float
    numbers: dict[str, Ranges]
    exclusions: int
    learnt_at: float | None
    """When it first learnt that it had been counted out."""


class Published(msgspec.Struct, frozen=True, kw_only=True, tag="published", tag_field="event"):
    """What a publisher sent, and what it was told of it."""

    sent: int
    confirmed: Ranges
    reported: Ranges
    unanswered: int
    flush_s_max: float
    exclusions: int
    learnt_at: float | None


class _Exclusions:
    """Notes when a node was first counted out."""

    def __init__(self, node: sync.Node) -> None:
        self.learnt_at: float | None = None
        self._node = node

    def look(self) -> None:
        if self.learnt_at is None and self._node.exclusions:
            self.learnt_at = time.monotonic()


def run_stall_listener(spec: StallListener) -> None:
    """Listen until the input ends."""
    with open_node(spec) as node:
        heard = {name: Hearing(time.monotonic()) for name in spec.groups}

        def take(batch: Batch) -> None:
            heard[batch.group].take(batch.payloads, time.monotonic())

        for group in node.join_all(spec.groups):
            group.on_batch(take)
        first = heard[spec.groups[0]]
        exclusions = _Exclusions(node)
        tell(Ready())
        for order in poll_orders(Order, LOOK_S):
            exclusions.look()
            match order:
                case Harm():
                    order.perform(node)
                case Time(is_on=True):
                    node.core.call(first.begin_timing)
                case Time():
                    node.core.call(lambda: first.end_timing(time.monotonic()))
                case Count():
                    tell(Counted(first.count, time.monotonic()))
                case Finish():
                    tell(
                        Listened(
                            gap_s=first.gap_s,
                            numbers={name: list(one.numbers) for name, one in heard.items()},
                            exclusions=node.exclusions,
                            learnt_at=exclusions.learnt_at,
                        )
                    )
                case None:
                    pass


class _Publisher:
    """Sends in one thread and flushes in another."""

    def __init__(self, node: sync.Node, spec: StallPublisher) -> None:
        self.sent = 0
        self.promises = Promises()
        self._node = node
        self._spec = spec
        self._group = node.open(spec.group)
        self._has_ended = threading.Event()
        self._threads = [threading.Thread(target=self._send, name="sends", daemon=True)]
        if spec.flushes:
            self._threads.append(threading.Thread(target=self._flush, name="flushes", daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        tail = bytes(self._spec.size - NUMBER_BYTES)
        rate, began, skipped = self._spec.rate, time.monotonic(), 0.0
        while not self._has_ended.is_set():
            if rate:
                due = began + skipped + self.sent / rate
                self._has_ended.wait(max(0.0, due - time.monotonic()))
                # What could not be sent for long is not made good.
                skipped += max(0.0, time.monotonic() - due - 0.1)
            try:
                self._group.send(number_message(self.sent, tail))
            except QuicksilverError:
                self._has_ended.wait(LOOK_S)  # not accepted: it is tried again
                continue
            self.sent += 1

    def _flush(self) -> None:
        while not self._has_ended.wait(FLUSH_S):
            self._ask(None)

    def _ask(self, timeout_s: float | None) -> None:
        self.promises.begin_flush(self.sent, time.monotonic())
        is_confirmed = True
        try:
            self._node.flush(timeout_s)
        except (QuicksilverError, TimeoutError):
            is_confirmed = False
        self.promises.end_flush(self.sent, time.monotonic(), is_confirmed=is_confirmed)

    def finish(self) -> None:
        """Send no more, and ask for all that was sent."""
        self._has_ended.set()
        for thread in self._threads:
            thread.join()
        self._ask(LAST_FLUSH_S)


def run_stall_publisher(spec: StallPublisher) -> None:
    """Publish until told to finish, and stay until the input ends."""
    with open_node(spec) as node:
        publisher = _Publisher(node, spec)
        exclusions = _Exclusions(node)
        tell(Ready())
        publisher.start()
        for order in poll_orders(Order, LOOK_S):
            exclusions.look()
            match order:
                case Harm():
                    order.perform(node)
                case Finish():
                    publisher.finish()
                    promises = publisher.promises
                    tell(
                        Published(
                            sent=publisher.sent,
                            confirmed=list(promises.confirmed),
                            reported=list(promises.reported),
                            unanswered=promises.unanswered(publisher.sent),
                            flush_s_max=promises.flush_s_max,
                            exclusions=node.exclusions,
                            learnt_at=exclusions.learnt_at,
                        )
                    )
                case Time() | Count() | None:
                    pass
