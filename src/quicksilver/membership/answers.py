"""Answers to requests: joins when those who may send have confirmed the new views.

``barrier`` says when; here it is told who has to confirm, who is trusted to, and who is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.core.ports import Reported
from quicksilver.membership.barrier import JoinBarrier
from quicksilver.membership.batch import BatchInput, BatchOutcome
from quicksilver.membership.bits import slots_of
from quicksilver.membership.counters import ServiceCounters
from quicksilver.membership.health import Watch
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.membership.timers import Timer, Timers
from quicksilver.membership.watching import Watches
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId


class Answers:
    """Answers nodes in the order of their requests; whoever serves the timers calls
    ``handle_timeout`` for ``BARRIER``."""

    def __init__(
        self,
        *,
        tables: Tables,
        watches: Watches,
        timers: Timers,
        counters: ServiceCounters,
        join_wait_s: float,
        send_to: Callable[[NodeId, bytes], None],
    ) -> None:
        self._tables = tables
        self._watches = watches
        self._timers = timers
        self._counters = counters
        self._join_wait_s = join_wait_s
        self._send_to = send_to
        self._barrier = JoinBarrier(join_wait_s)

    # Who has to confirm

    def ask(self, nodes: int, batch: int, now: float) -> None:
        """Nodes are told to confirm a batch."""
        rows = [self._tables.by_slot[slot] for slot in slots_of(nodes)]
        self._barrier.ask(nodes, self._watches.trusted(rows, now), batch, now)

    def ask_resumed(self, row: NodeRow, now: float) -> None:
        """A node that resumed is told to confirm the complete update."""
        self._barrier.ask(row.bit, row.bit, self._tables.batch, now)

    def handle_applied(self, watch: Watch, batch: int, now: float) -> None:
        """A node says which batch it has applied; none is newer than the newest."""
        newest = self._tables.batch
        self._barrier.handle_confirmed(watch.row.slot, min(batch, newest), now)
        self._send()

    def handle_gone(self, watch: Watch) -> None:
        """A node is disconnected or goes: no join waits for it."""
        self._barrier.handle_gone(watch.row.id, watch.row.slot)
        self._send()

    def handle_timeout(self, now: float) -> None:
        """Wait no longer for nodes that are overdue."""
        for slot in self._barrier.handle_timeout(now):
            self._counters.joins_unconfirmed += 1
            who = self._watches.describe(self._tables.by_slot[slot].id)
            text = f"{who} did not confirm new views for {self._join_wait_s:g} s"
            self._watches.notes.append(
                Reported(f"{text}: joins wait for it no longer", is_warning=True)
            )
        self._send()

    def waits_for(self, node: NodeId) -> bool:
        """Whether a node is one whose confirmation joins wait for.

        It is connected, stays, and does not owe one that it was not waited for.
        """
        watch = self._watches.nodes.get(node)
        if watch is None or watch.conn is None or watch.departs:
            return False
        return not self._barrier.is_excused(watch.row.slot)

    # Answers

    def answer(self, given: BatchInput, outcome: BatchOutcome) -> None:
        """Answer the requests of a batch, each as soon as it may be."""
        groups_of = self._tables.groups
        for (node, conn, request), groups in zip(given.requests, outcome.answers, strict=True):
            asker = self._watches.nodes.get(node)
            if asker is None:
                continue
            senders = 0
            matched = asker.row.matched if request.match else ()
            for group in (*groups[: len(request.join)], *matched):
                row = groups_of.get(group)
                senders |= 0 if row is None else row.users
            frame = gms.encode(gms.Subscribed(request.request, groups))
            self._barrier.answer(node, conn, frame, outcome.batch, senders & ~asker.row.bit)
        self._send()

    def _send(self) -> None:
        while (answer := self._barrier.poll_answer()) is not None:
            # A node that resumed meanwhile sends its unanswered requests again.
            asker = self._watches.nodes.get(answer.node)
            if asker is not None and asker.conn == answer.conn:
                self._send_to(answer.node, answer.frame)
        due = self._barrier.next_timeout()
        if due is None:
            self._timers.cancel((Timer.BARRIER, 0))
        else:
            self._timers.set((Timer.BARRIER, 0), due)
