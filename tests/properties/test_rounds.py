"""The printed programs on agents of every kind, while nodes crash and start again."""

from __future__ import annotations

import pytest

from quicksilver.properties.run.program import Program
from quicksilver.properties.run.rounds import Participant, Placed, PropertyRounds
from quicksilver.properties.values.intset import IntSet
from quicksilver.recovery.domains import Domain
from quicksilver.stdx.rand import Rng
from tests.properties.plans import CLEANUP, CLEANUP_PLAN, NEXT, PHASES_PLAN, STABLE
from tests.properties.world import World

KINDS = ("ring", "star", "tree", "gossip", "requests")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slots", [1, 2, 3, 9])
def test_what_all_have_is_cleaned_up_and_nothing_else(kind: str, slots: int) -> None:
    """Code 5.1: DoCleanup(m) on all nodes as soon as, but not earlier than, Receive(m) on all."""
    world = World(CLEANUP_PLAN, slots, kinds=[kind])
    world.run(1.0)
    for slot in range(slots):
        world.event(slot, 0, 7)
        if slot:
            world.event(slot, 0, 8)
    world.run(2.0)
    assert world.values(CLEANUP) == [IntSet.of(7)] * slots
    world.event(0, 0, 8)
    world.run(2.0)
    assert world.values(CLEANUP) == [IntSet.of(7, 8)] * slots
    for running in world.running.values():
        assert running.events == [(0, (7,)), (0, (8,))]


@pytest.mark.parametrize("kind", KINDS)
def test_phases_go_on_and_nobody_is_ahead(kind: str) -> None:
    world = World(PHASES_PLAN, 9, kinds=[kind])
    world.run(4.0)
    phases = world.values(NEXT)
    assert min(phases) > 10
    assert max(phases) - min(phases) <= 1
    for running in world.running.values():
        numbers = [arguments[0] for _, arguments in running.events]
        assert numbers == list(range(1, len(numbers) + 1))


def test_a_protocol_without_news_falls_silent() -> None:
    world = World(CLEANUP_PLAN, 9)
    for slot in range(9):
        world.event(slot, 0, 1)
    world.run(3.0)
    before = world.messages
    world.run(20.0)
    assert world.messages == before
    for slot in range(9):
        world.event(slot, 0, 2)
    world.run(3.0)
    assert world.values(CLEANUP) == [IntSet.of(1, 2)] * 9


def test_a_round_that_is_lost_is_held_again() -> None:
    """Members said their news in it, and do not wake anybody for them again."""
    program = Program(CLEANUP_PLAN)
    domain = Domain((0, 0), (1, 2))
    participant = Participant(1, "a", 1)
    participant.add(0, program)
    participant.become_placed([Placed(domain, 1)])
    rounds = PropertyRounds(participant, Placed(domain, 1))
    participant.instances[0].awake.clear()
    rounds.open_round(0.0)
    assert rounds.has_news()


def test_who_starts_again_is_light_until_it_has_what_others_have() -> None:
    """Guarded join (3.2.15): what is stable stays stable."""
    world = World(CLEANUP_PLAN, 9)
    for slot in range(9):
        world.event(slot, 0, 1)
    world.run(2.0)
    world.crash(4)
    world.run(1.0)
    world.start(4)
    world.run(2.0)
    assert not world.is_regular(4)
    for slot in range(9):
        if slot != 4:
            world.event(slot, 0, 2)
    world.run(2.0)
    assert world.top()[STABLE].value == IntSet.of(1, 2), "the light one does not count"
    assert world.value(4, CLEANUP) == IntSet.of(1, 2), "but it is told"
    world.event(4, 0, 1)
    world.run(1.0)
    assert not world.is_regular(4)
    world.event(4, 0, 2)
    world.run(1.0)
    assert world.is_regular(4)
    world.event(4, 0, 3)
    world.run(1.0)
    assert world.top()[STABLE].value == IntSet.of(1, 2)


@pytest.mark.parametrize("slot", [0, 3, 4, 8])
def test_a_crash_of_a_leader_moves_nobody_back(slot: int) -> None:
    """Whoever leads next begins without a word, and hears from members who is regular."""
    world = World(CLEANUP_PLAN, 9)
    for each in range(9):
        world.event(each, 0, 1)
    world.run(2.0)
    world.crash(slot)
    world.run(2.0)
    others = [each for each in range(9) if each != slot]
    assert all(world.is_regular(each) for each in others)
    for each in others[1:]:
        world.event(each, 0, 2)
    world.run(2.0)
    assert world.top()[STABLE].value == IntSet.of(1)
    world.event(others[0], 0, 2)
    world.run(2.0)
    assert world.values(CLEANUP) == [IntSet.of(1, 2)] * 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_claims_hold_while_nodes_crash_and_messages_are_lost(kind: str, seed: int) -> None:
    """The world checks claims and certificates after every step."""
    rng = Rng(seed)
    world = World(CLEANUP_PLAN, 12, kinds=[kind], loss=0.05, jitter=20.0, seed=seed)
    world.run(1.5)
    for step in range(80):
        world.run(0.05)
        slot = rng.below(12)
        # If all that are regular crash, the protocol begins again, and nothing is promised.
        regular = sum(world.is_regular(each) for each in world.running)
        if rng.uniform() < 0.1 and regular > 6:
            world.crash(slot)
        elif slot not in world.running and rng.uniform() < 0.7:
            world.start(slot)
        for each in list(world.running):
            if rng.uniform() < 0.7:
                world.event(each, 0, rng.below(step // 2 + 1))
    for slot in range(12):
        if slot not in world.running:
            world.start(slot)
    world.loss = 0.0
    world.run(1.0)
    for slot in range(12):
        for m in range(40):
            world.event(slot, 0, m)
    world.run(5.0)
    assert all(world.is_regular(slot) for slot in range(12))
    assert world.values(CLEANUP) == [IntSet([(0, 40)])] * 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_phases_go_on_while_every_node_crashes(kind: str, seed: int) -> None:
    rng = Rng(seed)
    world = World(PHASES_PLAN, 12, kinds=[kind], loss=0.02, jitter=5.0, seed=seed)
    world.run(2.0)
    for _ in range(50):
        world.run(0.1)
        regular = sum(world.is_regular(each) for each in world.running)
        if rng.uniform() < 0.15 and regular > 6:
            world.crash(rng.below(12))
        for slot in range(12):
            if slot not in world.running and rng.uniform() < 0.3:
                world.start(slot)
    before = max((value for value in world.values(NEXT) if value is not None), default=0)
    for slot in range(12):
        if slot not in world.running:
            world.start(slot)
    world.run(5.0)
    assert min(world.values(NEXT)) > before + 3
