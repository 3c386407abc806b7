"""Replicas alone, against a world that is as unkind as the channel below may be.

Messages from one sender to one receiver stay in order; nothing else does. What a
crashed node sent reaches each of the others up to a point of its own, and everybody
learns of a view when it likes. A message goes to the view that its sender had, and
is not delivered before its receiver has that view.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.infrastructure.ordering.events import (
    Capture,
    Initialize,
    Participants,
    Receive,
)
from quicksilver.live.components.infrastructure.ordering.messages import (
    Snapshot,
    parse,
)
from quicksilver.live.components.infrastructure.ordering.replica import Replica
from quicksilver.live.components.infrastructure.ordering.state_transfer import OutgoingStates
from quicksilver.live.components.infrastructure.ordering.states import Candidate
from quicksilver.stdx.rand import Rng

DRAWN = """
Outsider -> Newcomer
Newcomer -> Newcomer Follower Leader
Follower -> Newcomer Follower Candidate
Candidate -> Newcomer Follower Leader
Leader -> Newcomer Follower
"""
"""The states and what leads from one to another, as docs/channels.md draws them."""


class Traced(Replica):
    """A replica that remembers which states it was in."""

    def __init__(self, number: int, **options: Any) -> None:
        super().__init__(number, **options)
        self.changes: set[str] = set()
        succession = self._succession
        become = succession._become

        def remember(state: Any) -> None:
            self.changes.add(f"{type(succession.state).__name__} -> {type(state).__name__}")
            become(state)

        succession._become = remember


def drawn() -> set[str]:
    """Return the changes of state that are drawn."""
    lines = (line.split(" -> ") for line in DRAWN.split("\n") if line)
    return {f"{before} -> {after}" for before, afters in lines for after in afters.split()}


class Node:
    """One replica and its user."""

    def __init__(self, number: int, *, safe: bool) -> None:
        self.number = number
        self.replica = Traced(1, safe=safe, patience_s=1e9)
        self.view: tuple[int, frozenset[int]] = (0, frozenset())
        self.views: deque[tuple[int, frozenset[int]]] = deque()
        self.items: list[bytes] | None = None
        self.starts = 0
        self.sent = 0
        self.is_dead = False
        self.people: tuple[tuple[int, int], ...] = ()


class World:
    """Nodes, what is between them, and chance."""

    def __init__(self, seed: int, *, safe: bool) -> None:
        self.rng = Rng(seed)
        self.safe = safe
        self.now = 0.0
        self.nodes: list[Node] = []
        self.ways: dict[tuple[int, int], deque[tuple[int, bytes]]] = {}
        """From and to: messages with the number of the view they were sent to."""
        self.view = 0

    # What happens

    def start(self) -> None:
        self.nodes.append(Node(len(self.nodes) + 1, safe=self.safe))
        self._publish()

    def crash(self, node: Node) -> None:
        node.is_dead = True
        for (source, target), way in self.ways.items():
            if source == node.number:
                keep = self.rng.below(len(way) + 1)
                while len(way) > keep:
                    way.pop()
            elif target == node.number:
                way.clear()
        self._publish()

    def _publish(self) -> None:
        self.view += 1
        members = frozenset(node.number for node in self.alive())
        for node in self.alive():
            node.views.append((self.view, members))

    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_dead]

    def send(self, node: Node) -> None:
        node.replica.send(b"%d/%d" % (node.number, node.sent), self.now)
        node.sent += 1
        self._carry_out(node)

    def install(self, node: Node) -> bool:
        if not node.views:
            return False
        node.view = node.views.popleft()
        node.replica.handle_view(node.view[1], node.number, self.now)
        self._carry_out(node)
        return True

    def deliver(self, way: tuple[int, int]) -> bool:
        target = self.nodes[way[1] - 1]
        queue = self.ways[way]
        if not queue or target.is_dead or queue[0][0] > target.view[0]:
            return False
        _, message = queue.popleft()
        target.replica.handle_message(message, self.now)
        self._carry_out(target)
        return True

    def tick(self, node: Node) -> None:
        node.replica.handle_timeout(self.now)
        self._carry_out(node)

    def _carry_out(self, node: Node) -> None:
        replica = node.replica
        if replica.has_unsent and self.rng.chance(0.7):
            replica.flush(self.now)
        while (event := replica.poll_event()) is not None:
            match event:
                case Initialize(snapshot):
                    node.starts += 1
                    node.items = (snapshot.state or b"").split()
                case Receive(message):
                    assert node.items is not None
                    node.items.append(message)
                case Capture(ticket):
                    replica.handle_checkpoint(ticket, b" ".join(node.items or []), self.now)
                case Participants(members, _):
                    node.people = members
                case _:
                    pass
        while (transmit := replica.poll_transmit()) is not None:
            for member in sorted(node.view[1]):
                way = self.ways.setdefault((node.number, member), deque())
                way.append((node.view[0], transmit.message))

    # Chance

    def step(self) -> None:
        rng = self.rng
        self.now += 0.01 * rng.uniform()
        ways = [way for way, queue in self.ways.items() if queue]
        for _ in range(4):
            if ways:
                self.deliver(rng.choice(ways))
        alive = self.alive()
        node = rng.choice(alive)
        if rng.chance(0.1):
            self.install(node)
        if rng.chance(0.15):
            self.tick(node)
        if rng.chance(0.1):
            self.send(node)

    def settle(self) -> None:
        """Let everything arrive, and time pass."""
        for _ in range(400):
            self.now += 0.1
            for node in self.alive():
                while self.install(node):
                    pass
                self.tick(node)
            while any(self.deliver(way) for way in list(self.ways)):
                pass


def run(seed: int, *, steps: int = 1500) -> World:
    """Live through a random history, and let it settle."""
    world = World(seed, safe=seed % 4 == 0)
    for _ in range(3):
        world.start()
    for number in range(steps):
        world.step()
        if world.rng.chance(0.004) and len(world.alive()) > 1:
            holders = [node for node in world.alive() if node.items is not None]
            victim = world.rng.choice(world.alive())
            if len(holders) > 1 or victim.items is None:
                world.crash(victim)
        if world.rng.chance(0.006) and number < steps - 100 and len(world.nodes) < 12:
            world.start()
    world.settle()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 61))
def test_survivors_agree_whatever_happens(seed: int) -> None:
    """The same list everywhere, started once, each survivor's updates whole and in order."""
    world = run(seed)
    alive = world.alive()
    items = alive[0].items
    assert items is not None
    for node in alive:
        assert node.items == items, f"{node.number} differs"
        assert node.people == alive[0].people
        assert node.starts == 1, f"{node.number} was given another state than it had"
    for node in world.nodes:
        own = [int(one.split(b"/")[1]) for one in items if one.startswith(b"%d/" % node.number)]
        expected = node.sent if not node.is_dead else len(own)
        assert own == list(range(expected))
    assert sorted(one[0] for one in alive[0].people) == [node.number for node in alive]
    assert all(node.replica.next_delay() is None for node in alive), "they never come to rest"


@pytest.mark.slow
def test_states_change_as_they_are_drawn() -> None:
    """And a few histories are enough to see how a log is founded, followed and handed over."""
    seen = {
        change
        for seed in range(1, 9)
        for node in run(seed).nodes
        for change in node.replica.changes
    }
    assert seen <= drawn()
    assert seen >= {
        "Outsider -> Newcomer",
        "Newcomer -> Leader",
        "Newcomer -> Follower",
        "Follower -> Candidate",
        "Candidate -> Leader",
    }


def test_who_was_counted_out_is_a_newcomer_and_goes_on_with_what_it_has() -> None:
    """If all were counted out at once, somebody must: here it is alone."""
    world = World(1, safe=False)
    world.start()
    world.settle()
    (node,) = world.nodes
    world.send(node)
    world.settle()
    node.replica.changes.clear()
    node.replica.handle_view(frozenset({7}), 7, world.now)
    world._carry_out(node)
    assert node.replica.changes == {"Leader -> Newcomer"}
    node.view = (world.view, frozenset({1}))
    world.settle()
    assert node.replica.changes == {"Leader -> Newcomer", "Newcomer -> Leader"}
    assert node.items == [b"1/0"]
    assert node.starts == 1
    assert node.people == ((7, 1),)


@pytest.mark.slow
def test_what_is_checked_finds_a_leader_that_does_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without everybody's report, somebody's updates are taken back."""
    monkeypatch.setattr(Candidate, "unheard", lambda self, members: [])
    assert is_found()


@pytest.mark.slow
def test_what_is_checked_finds_a_state_given_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer that not all members know of is forgotten by the next leader."""

    def begin(self: OutgoingStates, reach: int) -> bool:
        return original_begin(self, 1 << 60)

    def captured(self: OutgoingStates, snapshot: Snapshot, stable: int, now: float) -> None:
        self.waiting = dict.fromkeys(self.waiting, 0)
        original_captured(self, snapshot, stable, now)

    original_begin = OutgoingStates.begin_capture
    original_captured = OutgoingStates.handle_captured
    monkeypatch.setattr(OutgoingStates, "begin_capture", begin)
    monkeypatch.setattr(OutgoingStates, "handle_captured", captured)
    assert is_found()


def is_found() -> bool:
    """Whether any of the histories is judged wrong."""
    for seed in range(1, 61):
        try:
            test_survivors_agree_whatever_happens(seed)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x93\x01", b"\xff" * 50])
def test_noise_is_counted_and_dropped(data: bytes) -> None:
    """Bad bytes never stop a replica."""
    with pytest.raises(BadMessageError):
        parse(data)
    replica = Replica(1)
    replica.handle_view(frozenset({1}), 1, 0.0)
    replica.handle_message(data, 0.0)
    assert replica.rejected == 1
