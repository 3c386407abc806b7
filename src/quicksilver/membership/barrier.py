"""The join barrier: a join is answered when everybody who may send knows of the new member.

Without it a node could hear that it is in a group while a sender still has the view
before, and commit to that view whatever it sends next. So the GMS asks the nodes that were
in the group already, or had opened it, to confirm the batch, and keeps the answer to the
join until they have. Nodes that come with the same batch need not be asked: they cannot
send before they have its views.

Nobody waits for ever. A node that has confirmed nothing new for ``wait_s`` is *overdue*: answers
go out without it, now and until it confirms a newer batch than before. Nodes are known by their
slots, sets of them are integers (``bits``). An answer watches one of the nodes that it waits for,
and looks for another one when that has confirmed, so a confirmation costs as much as it sets
free; only when an overdue node answers again, all answers that wait are looked at.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from quicksilver.membership.bits import slots_of
from quicksilver.wire.ids import NodeId


@dataclass(slots=True, eq=False)
class HeldAnswer:
    """An answer that waits, or that waits behind one of the same node."""

    node: NodeId
    conn: int
    """The connection that it belongs to: a node that resumes asks again."""
    frame: bytes
    batch: int
    """The batch that the others must have applied."""
    waits_for: int
    """The nodes that may send to the groups of the request, without its own node."""
    is_free: bool = False


@dataclass(slots=True)
class _Debt:
    """What a node has to confirm."""

    batch: int
    since: float
    """When it was asked, or last confirmed something new."""


class JoinBarrier:
    """Who has yet to confirm which batch, and the answers that wait for it."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._debts: dict[int, _Debt] = {}
        """By slot, the longest waiting first: nodes that are waited for."""
        self._indebted = 0
        """The same slots as a set."""
        self._applied: dict[int, int] = {}
        """By slot: the newest batch that a node which owes a newer one has confirmed."""
        self._overdue: dict[int, int] = {}
        """By slot: nodes that are not waited for until they confirm, and the batch they owe."""
        self._watching: dict[int, list[HeldAnswer]] = {}
        """By the slot that they watch."""
        self._held: dict[NodeId, deque[HeldAnswer]] = {}
        """By the node that asked: its answers leave in the order of its requests."""
        self._released: deque[HeldAnswer] = deque()

    # Inputs

    def ask(self, nodes: int, trusted: int, batch: int, now: float) -> None:
        """Nodes were asked to confirm a batch; only the ``trusted`` of them are waited for."""
        for slot in slots_of(nodes):
            if slot in self._overdue or not trusted >> slot & 1:
                self._end_debt(slot)
                self._overdue[slot] = batch
                continue
            debt = self._debts.get(slot)
            if debt is None:
                self._debts[slot] = _Debt(batch, now)
                self._indebted |= 1 << slot
            else:
                debt.batch = batch

    def answer(self, node: NodeId, conn: int, frame: bytes, batch: int, waits_for: int) -> None:
        """Answer a request as soon as nobody is waited for; ``poll_answer`` has it then."""
        held = HeldAnswer(node, conn, frame, batch, waits_for)
        self._held.setdefault(node, deque()).append(held)
        self._watch(held)
        self._release(node)

    def handle_confirmed(self, slot: int, batch: int, now: float) -> None:
        """A node has applied all batches up to this one."""
        debt = self._debts.get(slot)
        owed = self._overdue.get(slot) if debt is None else debt.batch
        if owed is None:
            return
        if batch >= owed:
            self._overdue.pop(slot, None)
            self._applied.pop(slot, None)
            self._end_debt(slot)
            return
        if batch <= self._applied.get(slot, 0):
            # The same again is no answer: it could hold joins up for ever.
            return
        # It answers, if late: moved to the end, as others have waited for longer by now.
        self._applied[slot] = batch
        self._debts.pop(slot, None)
        self._debts[slot] = _Debt(owed, now)
        if debt is not None:
            self._look_again(slot)
            return
        del self._overdue[slot]
        self._indebted |= 1 << slot
        self._look_again_if_free()

    def handle_gone(self, node: NodeId, slot: int) -> None:
        """A node is disconnected or its incarnation is over: nobody waits for it.

        What it asked for itself it asks again, should it come back.
        """
        self._overdue.pop(slot, None)
        self._applied.pop(slot, None)
        self._held.pop(node, None)
        self._end_debt(slot)

    def handle_timeout(self, now: float) -> list[int]:
        """Wait no longer for those who are overdue; return who became it."""
        overdue = []
        while self._debts:
            slot, debt = next(iter(self._debts.items()))
            if now < debt.since + self._wait_s:
                break
            self._overdue[slot] = debt.batch
            self._end_debt(slot)
            overdue.append(slot)
        return overdue

    # Outputs

    def is_excused(self, slot: int) -> bool:
        """Whether a node owes a confirmation that nobody waits for."""
        return slot in self._overdue

    def next_timeout(self) -> float | None:
        """Return when the next node becomes overdue."""
        if not self._held or not self._debts:
            return None
        return next(iter(self._debts.values())).since + self._wait_s

    def poll_answer(self) -> HeldAnswer | None:
        """Return an answer that is to be sent, or None."""
        return self._released.popleft() if self._released else None

    # Who waits for whom

    def _end_debt(self, slot: int) -> None:
        if self._debts.pop(slot, None) is not None:
            self._indebted ^= 1 << slot
        self._look_again(slot)

    def _look_again(self, slot: int) -> None:
        for held in self._watching.pop(slot, ()):
            self._watch(held)
            self._release(held.node)

    def _look_again_if_free(self) -> None:
        """A node is waited for again, also by answers that are behind others of their node."""
        for queue in self._held.values():
            for held in queue:
                if held.is_free:
                    held.is_free = False
                    self._watch(held)

    def _watch(self, held: HeldAnswer) -> None:
        """Find a node that the answer waits for; without one it is free."""
        for slot in slots_of(held.waits_for & self._indebted):
            if self._applied.get(slot, 0) < held.batch:
                self._watching.setdefault(slot, []).append(held)
                return
        held.is_free = True

    def _release(self, node: NodeId) -> None:
        queue = self._held.get(node)
        if queue is None:
            return
        while queue and queue[0].is_free:
            self._released.append(queue.popleft())
        if not queue:
            del self._held[node]
