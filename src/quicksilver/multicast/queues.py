"""Queues: each message of a group goes to one of the members that share a queue.

The members agree on who takes a message without a word about it. They are together in an
attendance group, which each of them joins in the same request as the group itself, so both
change in the same batch. A message names the batch that fixes its view; who was in the queue
in that batch, the message's sender and its number give the member that takes it. All who have
heard of the batch come to the same result, and whoever has not heard of it waits.

Whoever fails takes with it what was its to handle: a message is handled at most once. So values
that a sender retained and sends again for newcomers are not for queues: they were handled, or
dropped while nobody was there to handle them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence

from quicksilver.membership.names import QUEUE
from quicksilver.multicast.events import EnvelopeReceiver, Receiver
from quicksilver.wire.envelope import Envelope, Kind
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import Messages

VIEWS_MAX = 1024
"""Views of a queue that are remembered; messages of older ones are passed over, and counted."""

_SPREAD = 0x9E3779B1
"""Lets the turns of different senders begin with different members."""

_HELD_BYTES = 64


def queue_attendance(queue: str, group: str) -> str:
    """Return the attendance group of a queue's members."""
    return f"{QUEUE}{queue}.{group}"


class Queue:
    """One node's part in one queue of one group."""

    def __init__(
        self,
        name: str,
        receivers: tuple[Receiver, EnvelopeReceiver | None],
        *,
        held_bytes_max: int,
        known_batch: Callable[[], int],
        on_news_wanted: Callable[[], None],
    ) -> None:
        """``known_batch`` says up to which batch all views are known here."""
        self.name = name
        self.me: NodeId | None = None
        self.group = 0
        """The number of the attendance group; 0 while this node is not in it."""
        self.unsure = 0
        """Messages that nobody here could tell whose they are: none of them was taken."""
        self._receivers = receivers
        self._held_bytes_max = held_bytes_max
        self._known_batch = known_batch
        self._on_news_wanted = on_news_wanted
        self._batches: list[int] = []
        """When views came, ascending, and …"""
        self._members: list[tuple[NodeId, ...] | None] = []
        """… who was in them; None for times of which nothing is known."""
        self._held: deque[tuple[Messages, Sequence[Envelope] | None]] = deque()
        """Messages of batches that this node has not heard of yet, and those behind them."""
        self._held_bytes = 0

    def clear(self) -> None:
        """The incarnation is over: the next one is another member."""
        self.group = 0
        self._batches.clear()
        self._members.clear()
        self._held.clear()
        self._held_bytes = 0

    def handle_view(
        self, batch: int, members: tuple[NodeId, ...], me: NodeId, unknown_after: int | None
    ) -> None:
        """The queue has other members since a batch.

        ``unknown_after``: nothing is known of the batches between this one and ``batch``.
        """
        self.me = me
        if self._batches and batch <= self._batches[-1]:
            return
        if unknown_after is not None and self._batches and unknown_after + 1 < batch:
            self._append(unknown_after + 1, None)
        self._append(batch, members)

    def handle_left(self, batch: int) -> None:
        """This node is not in the queue any more, from a batch on."""
        self._append(batch, ())

    def _append(self, batch: int, members: tuple[NodeId, ...] | None) -> None:
        self._batches.append(batch)
        self._members.append(members)
        if len(self._batches) > VIEWS_MAX:
            del self._batches[0], self._members[0]

    def receive(self, messages: Messages) -> None:
        """Take messages without envelopes."""
        self._receive(messages, None)

    def receive_enveloped(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        """Take messages with envelopes."""
        self._receive(messages, envelopes)

    def _receive(self, messages: Messages, envelopes: Sequence[Envelope] | None) -> None:
        if not self._held and messages.batch <= self._known_batch():
            self._deliver(messages, envelopes)
            return
        self._on_news_wanted()
        size = sum(map(len, messages.payloads)) + _HELD_BYTES * len(messages.payloads)
        if self._held_bytes + size > self._held_bytes_max:
            self.unsure += len(messages.payloads)
            return
        self._held_bytes += size
        self._held.append((messages, envelopes))

    def handle_news(self) -> None:
        """More batches are known: deliver what waited for them."""
        held = self._held
        while held and held[0][0].batch <= self._known_batch():
            messages, envelopes = held.popleft()
            size = sum(map(len, messages.payloads)) + _HELD_BYTES * len(messages.payloads)
            self._held_bytes -= size
            self._deliver(messages, envelopes)

    def _deliver(self, messages: Messages, envelopes: Sequence[Envelope] | None) -> None:
        place = bisect_right(self._batches, messages.batch) - 1
        members = self._members[place] if place >= 0 else None
        if members is None:
            self.unsure += len(messages.payloads)
            return
        if self.me not in members:
            return
        mine = members.index(self.me)
        chosen = [
            at
            for at, number in enumerate(messages.numbers())
            if (messages.sender * _SPREAD + number) % len(members) == mine
            and (envelopes is None or envelopes[at].kind != Kind.RETAINED)
        ]
        if not chosen:
            return
        taken = messages.pick(chosen)
        plain, with_envelopes = self._receivers
        if envelopes is None or with_envelopes is None:
            plain(taken)
        else:
            with_envelopes(taken, [envelopes[at] for at in chosen])
