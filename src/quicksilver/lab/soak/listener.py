"""What a worker of a soak checks of each message that it is given."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quicksilver.lab.soak.records import Stamp, group_number, parse_message
from quicksilver.node.messages import Batch

PROBLEMS_MAX = 50
"""Problems told at once; more of the same would only hide the first."""

RunKey = tuple[int, Stamp, str]
"""Incarnation that delivered, stamp of the sender, group."""


class Listener:
    """Checks tag, checksum, order and repetition; keeps runs of numbers until they are told.

    Called on the core thread; ``take`` on another.
    """

    def __init__(self, incarnation: Callable[[], int]) -> None:
        """``incarnation``: says which one this node is now; asked on the core thread."""
        self.messages = 0
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._runs: dict[RunKey, list[list[int]]] = {}
        self._problems: list[str] = []
        self._last: dict[tuple[str, int], tuple[int, int, int]] = {}
        """By group and place of the sender: life, epoch and number of its newest message, in
        this whole life of ours."""

    def stay(self, group: str) -> Callable[[Batch], None]:
        """Return what takes a group's messages from a join to the next leave."""
        following: dict[int, tuple[int, int, Stamp, int]] = {}
        """By place of the sender: our incarnation, its own, its stamp, its next number.
        Within these, no number may be left out."""

        def take(batch: Batch) -> None:
            ours = self._incarnation()
            with self._lock:
                for payload in batch.payloads:
                    self._check(group, payload, ours, batch.sender, following)

        return take

    def _check(
        self,
        group: str,
        payload: bytes,
        ours: int,
        sender: int,
        following: dict[int, tuple[int, int, Stamp, int]],
    ) -> None:
        self.messages += 1
        found = parse_message(payload)
        if found is None:
            self._fail(f"damaged message of {len(payload)} bytes in {group} from node {sender}")
            return
        stamp, group_tag, number = found
        place, life, epoch = stamp
        if group_tag != group_number(group):
            self._fail(f"message of group {group_tag} of {stamp} came in {group}")
            return
        known = following.get(place)
        if known is not None and known[:3] == (ours, sender, stamp) and known[3] < number:
            self._fail(
                f"{group}: after {known[3] - 1} of {stamp} (node {sender}) came {number} "
                f"at node {ours}"
            )
        if known is None or known[1] <= sender:
            following[place] = (ours, sender, stamp, number + 1)
        last = self._last.get((group, place))
        if last is not None and last[:2] == (life, epoch) and number <= last[2]:
            self._fail(
                f"{group}: {number} of {stamp} (node {sender}) came at node {ours} although "
                f"{last[2]} was there"
            )
        if last is None or last < (life, epoch, number):
            self._last[group, place] = (life, epoch, number)
        runs = self._runs.setdefault((ours, stamp, group), [])
        if runs and runs[-1][1] == number:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])

    def _fail(self, problem: str) -> None:
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(problem)

    def take(self) -> tuple[list[tuple[int, int, int, int, str, int, int]], list[str]]:
        """Return what was delivered since the last time, and what was wrong with it."""
        with self._lock:
            runs, self._runs = self._runs, {}
            problems, self._problems = self._problems, []
        rows = [
            (ours, *stamp, group, start, stop)
            for (ours, stamp, group), several in runs.items()
            for start, stop in several
        ]
        return rows, problems
