"""A node of a soak in a process of its own.

One thread sends in rounds and changes memberships; the core checks each message that
arrives; the main thread takes orders and tells what was heard.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable

from quicksilver.lab.child import poll_orders, tell
from quicksilver.lab.nodes import Harm, open_node
from quicksilver.lab.soak.records import (
    Begun,
    Change,
    Conclude,
    Ended,
    Explain,
    Explained,
    Heard,
    Joined,
    Left,
    Order,
    Round,
    Stamp,
    Worker,
    encode_message,
    group_number,
    parse_message,
)
from quicksilver.node import sync
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.messages import Batch, View
from quicksilver.stdx.rand import Rng

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


class Exclusions(logging.Handler):
    """Keeps why the node was excluded, as its log says, until it is told."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._reasons: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        if "excluded" in record.msg:
            self._reasons.put(record.getMessage())

    def take(self) -> list[str]:
        """Return what was logged since the last time."""
        return [self._reasons.get() for _ in range(self._reasons.qsize())]


TELL_S = 0.5
POLL_S = 0.05
VIEW_S = 0.02
LARGE_BYTES = 80_000
"""Of a message that needs several packets."""
LARGE_CHANCE = 0.005
SMALL_BYTES_MAX = 1500
LAZY_CHANCE, LAZY_S = 0.25, 5.0
"""How often, and for how long at most, a flush is put off: what goes wrong before it begins
must not be forgotten."""


def run_soak_worker(spec: Worker) -> None:
    """Take part until the input ends; then say whether anything is left."""
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    with open_node(spec) as node:
        participant = Participant(node, spec)
        participant.run()
    left = [one.name for one in threading.enumerate() if one not in threads]
    still_open = open_descriptors()
    tell(
        Ended(
            threads=left,
            descriptors=[f"{n}: {still_open[n]}" for n in still_open if n not in descriptors],
        )
    )


def open_descriptors() -> dict[int, str]:
    """Return the descriptors of this process and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the one that lists them
    return found


class Participant:
    """A worker's node, and what it does with it."""

    def __init__(self, node: sync.Node, spec: Worker) -> None:
        self._node = node
        self._spec = spec
        self._rng = Rng(spec.seed)
        self._listener = Listener(lambda: node.id)
        self._exclusions = Exclusions()
        logging.getLogger("quicksilver.node").addHandler(self._exclusions)
        self._tasks: queue.SimpleQueue[Change | Conclude | None] = queue.SimpleQueue()
        self._groups: dict[str, sync.Group[bytes]] = {}
        """Groups that it is in; only the sending thread touches them."""
        self._epoch = 0
        self._next: dict[str, int] = {}
        """By group: the number of the next message of this epoch."""

    def run(self) -> None:
        """Take orders until there are no more."""
        self._join(self._spec.groups)
        tell(Begun(node=self._node.id, at=time.monotonic()))
        sending = threading.Thread(target=self._send, name="sends", daemon=True)
        sending.start()
        tell_at = time.monotonic()
        for order in poll_orders(Order, POLL_S):
            match order:
                case Harm():
                    order.perform(self._node)
                case Change() | Conclude():
                    self._tasks.put(order)
                case Explain():
                    counters = self._node.stats().counters
                    tell(Explained(counters={k: v for k, v in counters.items() if v}))
                case None:
                    pass
            now = time.monotonic()
            if now >= tell_at:
                tell_at = now + TELL_S
                self._tell_heard()
        self._tasks.put(None)
        sending.join()
        self._tell_heard()

    def _tell_heard(self) -> None:
        # The time before what was heard until then: whatever came earlier is in it.
        at, node = time.monotonic(), self._node.id
        runs, problems = self._listener.take()
        tell(
            Heard(
                node=node,
                at=at,
                runs=runs,
                problems=problems,
                messages=self._listener.messages,
                exclusions=self._node.exclusions,
                excluded_for=self._exclusions.take(),
            )
        )

    # The sending thread

    def _send(self) -> None:
        is_sending = True
        while True:
            began = time.monotonic()
            if is_sending:
                self._send_round(self._choose(), is_last=False)
            wait_s = max(0.0, began + self._spec.round_s - time.monotonic())
            try:
                task = self._tasks.get(timeout=wait_s)
            except queue.Empty:
                continue
            match task:
                case Change():
                    self._leave(task.leave)
                    self._join(task.join)
                    if task.join:
                        tell(Joined(at=time.monotonic(), groups=task.join))
                case Conclude():
                    is_sending = False
                    self._send_round(sorted(self._groups), is_last=True)
                case None:
                    return

    def _choose(self) -> list[str]:
        names = sorted(self._groups)
        count = min(len(names), self._spec.groups_a_round)
        return self._rng.sample(names, count)

    def _join(self, names: list[str]) -> None:
        names = [name for name in names if name not in self._groups]
        if not names:
            return
        for group in self._node.join_all(names):
            group.on_batch(self._listener.stay(group.name))
            self._groups[group.name] = group

    def _leave(self, names: list[str]) -> None:
        names = [name for name in names if name in self._groups]
        if names:
            tell(Left(at=time.monotonic(), groups=names))
            self._node.leave(*(self._groups.pop(name) for name in names))

    def _send_round(self, names: list[str], *, is_last: bool) -> None:
        spec, epoch = self._spec, self._epoch
        groups = [self._groups[name] for name in names]
        for group in groups:
            views_since(group)
        members = {group.name: members_of(group.view) for group in groups}
        at = time.monotonic()
        runs: dict[str, tuple[int, int]] = {}
        problem = ""
        try:
            for group in groups:
                first = self._next.get(group.name, 0)
                for number in range(first, first + (1 if is_last else spec.messages_a_group)):
                    group.send(self._message(group.name, epoch, number))
                    self._next[group.name] = number + 1
                    runs[group.name] = (first, number + 1)
            if not is_last and self._rng.chance(LAZY_CHANCE):
                time.sleep(LAZY_S * self._rng.uniform())
            self._node.flush(spec.flush_timeout_s)
        except (QuicksilverError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
            # Whatever the error speaks of, nothing of it is promised: begin anew.
            self._epoch += 1
            self._next.clear()
        ended_at = time.monotonic()
        # The end of a flush may be heard a moment before the view that brought it about.
        time.sleep(VIEW_S)
        for group in groups:
            for view in (*views_since(group), group.view):
                members[group.name] &= members_of(view)
            members[group.name].discard(self._node.id)
        tell(
            Round(
                epoch=epoch,
                at=at,
                ended_at=ended_at,
                problem=problem,
                runs=runs,
                members={name: sorted(members[name]) for name in runs},
                is_last=is_last,
            )
        )

    def _message(self, group: str, epoch: int, number: int) -> bytes:
        spec, rng = self._spec, self._rng
        size = LARGE_BYTES if rng.chance(LARGE_CHANCE) else rng.below(SMALL_BYTES_MAX)
        filler = bytes([number & 0xFF]) * size
        return encode_message((spec.place, spec.life, epoch), group_number(group), number, filler)


def views_since(group: sync.Group[bytes]) -> list[View]:
    """Return the views that a group was given since this was asked last."""
    return list(group.views(timeout=0.0))


def members_of(view: View | None) -> set[int]:
    return set() if view is None else {int(member) for member in view.members}
