"""The copies of one stream's packets that this node keeps for others.

A member keeps the packets that the hierarchy assigns to it until the region has them.
Members that nobody waits for may lack older ones: what is kept for them alone has a
budget of its own. Both budgets are shared by all streams of a node.
"""

from __future__ import annotations

from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.memory import Budget


class Copies:
    """Packets by number, charged to the budgets."""

    __slots__ = ("_absent", "_absent_end", "_budget", "_counters", "_floor", "packets", "stable")

    def __init__(self, budget: Budget, absent: Budget, counters: Counters) -> None:
        """``absent`` is the budget of what is kept for members that nobody waits for."""
        self._budget = budget
        self._absent = absent
        self._counters = counters
        self.packets: dict[int, bytes] = {}
        self.stable = 0
        """Every member has everything below; copies below are gone."""
        self._floor = 0
        """No copy is below; never less than ``stable``."""
        self._absent_end = 0
        """Copies below are for members only that nobody waits for: see ``keep_for_absent``."""

    def keep(self, sequence: int, data: bytes) -> None:
        """Keep a copy of a packet, if there is room for it."""
        budget = self._budget
        if budget.used + len(data) > budget.limit:
            self._counters.cache_refused += 1
            return
        if sequence not in self.packets and sequence >= self._absent_end:
            self.packets[sequence] = data
            budget.used += len(data)

    def forget_below(self, stable: int) -> None:
        """Every member has everything below ``stable``: drop the copies."""
        if stable <= self.stable:
            return
        self.stable = stable
        for sequence in self._between(self._floor, stable):
            self._drop(sequence)
        self._floor = max(stable, self._floor)

    def keep_for_absent(self, agreed: int) -> None:
        """All who are waited for have what is below ``agreed``: the rest is kept for others.

        Copies of that have a budget of their own, and the oldest of them go first: who is
        absent must not use up the room that repairs of the others need.
        """
        if agreed <= max(self.stable, self._absent_end):
            return
        absent, packets = self._absent, self.packets
        start = max(self._absent_end, self._floor)
        absent.used += sum(len(packets[s]) for s in self._between(start, agreed))
        self._absent_end = agreed
        while absent.used > absent.limit and self._floor < agreed:
            if self._floor in packets:
                self._drop(self._floor)
                self._counters.absent_dropped += 1
            self._floor += 1

    def drop_from(self, sequence: int) -> None:
        """Packets from here on do not exist, or nobody will deliver them."""
        for number in [s for s in self.packets if s >= sequence]:
            self._drop(number)

    def _between(self, start: int, end: int) -> list[int]:
        packets = self.packets
        if len(packets) < end - start:
            return [s for s in packets if start <= s < end]
        return [s for s in range(start, end) if s in packets]

    def _drop(self, sequence: int) -> None:
        size = len(self.packets.pop(sequence))
        self._budget.used -= size
        if sequence < self._absent_end:
            self._absent.used -= size
