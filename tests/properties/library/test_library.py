"""What each program of the library says it does, on simulated nodes; invariants hold throughout."""

from __future__ import annotations

import pytest

from quicksilver.properties import library
from quicksilver.properties.check.program import check
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.plan import Plan
from quicksilver.properties.syntax.format import format_program
from quicksilver.properties.values.intset import IntSet
from quicksilver.stdx.rand import Rng
from tests.properties.library.group import Group
from tests.properties.plans import CLEANUP_PLAN, PHASES_PLAN

NODES = range(9)


@pytest.mark.parametrize("name", library.names())
class TestTexts:
    def test_there_is_nothing_to_say_about_it(self, name: str) -> None:
        """Neither errors nor warnings, and the layout of the formatter."""
        checked = check(library.text_of(name), name)
        assert [one.render(checked.parsed.source) for one in checked.diagnostics] == []
        assert format_program(checked.parsed) == library.text_of(name)

    def test_it_is_described_and_claims_something(self, name: str) -> None:
        checked = check(library.text_of(name), name)
        assert checked.parsed.program is not None
        assert len(checked.parsed.program.doc.splitlines()) >= 3
        plan = compile_text(library.text_of(name))
        assert plan.eventualities
        assert all(len(line) <= 100 for line in library.text_of(name).splitlines())


@pytest.mark.parametrize(
    ("name", "by_hand"), [("cleanup", CLEANUP_PLAN), ("coordinated_phases", PHASES_PLAN)]
)
def test_the_printed_programs_are_those_of_the_paper(name: str, by_hand: Plan) -> None:
    """Dissertation, Code 5.1 and 5.2; invariants are added."""
    plan = compile_text(library.text_of(name))
    assert (plan.properties, plan.rules) == (by_hand.properties, by_hand.rules)
    assert (plan.bindings, plan.conditions) == (by_hand.bindings, by_hand.conditions)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError):
        library.text_of("../cleanup")


def test_cleanup() -> None:
    group = Group("cleanup", 9)
    for slot in NODES:
        group.say(slot, "Receive", 7)
        if slot:
            group.say(slot, "Receive", 8)
    group.settle()
    assert [group.told(slot) for slot in NODES] == [[("DoCleanup", 7)]] * 9


def test_coordinated_phases() -> None:
    group = Group("coordinated_phases", 4)
    group.settle(2.0)
    for slot in range(4):
        told = group.told(slot)
        assert told == [("Phase", k) for k in range(1, len(told) + 1)]


@pytest.mark.slow
def test_last_copy_recall() -> None:
    """Overview paper, Tables 1 and 2: neighbours forward what is missing; then all forget it."""
    group = Group("last_copy_recall", 4)
    group.run(1.0)
    group.say(2, "Receive", 5)
    for _ in range(8):
        group.run(0.5)
        for slot in range(4):
            for _, to, m in group.told(slot, "Forward"):
                group.say(int(to[1:]), "Receive", m)
    group.settle()
    assert [group.told(slot, "Clean") for slot in range(4)] == [[("Clean", 5)]] * 4
    assert {group.has(slot, "Cached") for slot in range(4)} == {IntSet()}


def test_barrier() -> None:
    group = Group("barrier", 9)
    for slot in NODES:
        group.say(slot, "Arrive", 2 if slot else 1)
    group.settle()
    assert [group.told(slot) for slot in NODES] == [[("Pass", 1)]] * 9
    group.say(0, "Arrive", 2)
    group.settle()
    assert [group.told(slot)[-1] for slot in NODES] == [("Pass", 2)] * 9


def test_atomic_delivery() -> None:
    group = Group("atomic_delivery", 9)
    for slot in NODES:
        group.say(slot, "Receive", 1)
        if slot != 4:
            group.say(slot, "Receive", 2)
    group.settle()
    assert [group.told(slot) for slot in NODES] == [[("Deliver", 1)]] * 9
    group.crash(4)  # Nobody who lives lacks message 2 any more.
    group.settle()
    assert group.told(0) == [("Deliver", 1), ("Deliver", 2)]


@pytest.mark.parametrize(
    ("name", "result", "without_last"),
    [("sum", 45, 36), ("minimum", 1, 1), ("maximum", 9, 8), ("average", 5, 4)],
)
def test_monitoring(name: str, result: int, without_last: int) -> None:
    group = Group(name, 9)
    for slot in NODES:
        group.say(slot, "Set", slot + 1)
    group.settle()
    assert {group.told(slot)[-1] for slot in NODES} == {("Report", result)}
    group.crash(8)
    group.settle()
    assert group.told(0)[-1] == ("Report", without_last)


def test_top() -> None:
    group = Group("top", 9, {"count": 2})
    for slot in NODES:
        group.say(slot, "Set", 10 * slot % 50)
    group.settle()
    assert group.told(0)[-2:] == [("Rank", 40, "n04"), ("Rank", 30, "n08")][::-1]


def test_a_configuration_needs_a_quorum_and_not_everybody() -> None:
    group = Group("configuration_rollout", 9, {"quorum": 5})
    group.run(1.0)
    group.say(3, "Propose", 7)
    group.settle()
    assert all(group.told(slot) == [("Store", 7)] for slot in NODES)
    for slot in range(4):
        group.say(slot, "Stored", 7)
    group.settle()
    assert group.told(8, "Use") == []
    group.say(8, "Stored", 7)
    group.settle()
    assert [group.told(slot, "Use") for slot in NODES] == [[("Use", 7)]] * 9


def test_leader_election() -> None:
    group = Group("leader_election", 9)
    group.settle()
    assert [group.told(slot) for slot in NODES] == [[("Leader", 1, "n00")]] * 9
    group.crash(0)
    group.settle()
    for slot in range(1, 9):
        assert group.told(slot) == [("Leader", 1, "n00"), ("Leader", 2, "n01")]


@pytest.mark.slow
def test_distributed_lock() -> None:
    group = Group("distributed_lock", 6)
    group.run(1.0)
    group.say(3, "Acquire")
    group.say(5, "Acquire")
    group.settle()
    assert (group.told(5), group.told(3)) == ([("Grant", 1)], [])
    group.say(5, "Release")
    group.settle()
    assert group.told(3) == [("Grant", 2)]
    group.crash(3)  # It still has the lock.
    group.say(1, "Acquire")
    group.settle()
    assert group.told(1) == [("Grant", 3)]
    group.say(5, "Acquire")
    group.settle()
    assert group.told(5) == [("Grant", 1)], "not while another one has it"


def test_total_order() -> None:
    group = Group("total_order", 9)
    for slot in NODES:
        for m in range(4):
            group.say(slot, "Receive", (m + slot) % 4 + 1)
    group.settle()
    first = group.told(0)
    assert sorted(m for _, _, m in first) == [1, 2, 3, 4]
    assert [position for _, position, _ in first] == sorted({p for _, p, _ in first})
    assert all(group.told(slot) == first for slot in NODES)


@pytest.mark.slow
def test_state_machine_replication() -> None:
    group = Group("state_machine_replication", 9)
    for slot in (0, 4, 8):
        group.say(slot, "Submit", 10 + slot)
    group.settle()
    log = group.told(0)
    assert sorted(command for _, _, command in log) == [10, 14, 18]
    assert all(group.told(slot) == log for slot in NODES)
    group.crash(7)
    group.run(1.0)
    group.start(7)
    group.say(1, "Submit", 99)
    group.settle()
    assert group.told(7) == group.told(0), "who starts again is told everything"
    assert group.told(7)[-1][2] == 99


@pytest.mark.slow
def test_atomic_commit() -> None:
    group = Group("atomic_commit", 9)
    for slot in NODES:
        group.say(slot, "Vote", 1, True)
        group.say(slot, "Vote", 2, slot != 4)
        if slot:
            group.say(slot, "Vote", 3, True)
    group.settle()
    for slot in NODES:
        assert sorted(group.told(slot)) == [("Abort", 2), ("Commit", 1)]
    group.say(0, "Vote", 3, True)
    group.settle()
    assert group.told(6)[-1] == ("Commit", 3)


@pytest.mark.slow
def test_virtual_synchrony() -> None:
    """All that go on from a view have delivered the same messages in it."""
    group = Group("virtual_synchrony", 4)
    for slot in range(4):
        group.say(slot, "Receive", 1)
        group.say(slot, "Stop", 1)
    group.say(3, "Receive", 2)  # Too late: it has stopped.
    group.settle()
    assert [group.told(slot) for slot in range(4)] == [[("Deliver", 1), ("Install", 1)]] * 4
    group.say(3, "Receive", 3)
    group.run(0.5)
    for slot in range(4):
        group.say(slot, "Stop", 2)
    group.settle()
    assert ("Fetch", 3) in group.told(0)
    assert ("Install", 2) not in group.told(0)
    for slot in range(4):
        group.say(slot, "Receive", 3)
    group.settle()
    for slot in range(4):
        assert group.told(slot, "Deliver", "Install")[2:] == [("Deliver", 3), ("Install", 2)]


EVENTS = {
    "atomic_commit": lambda rng, slot, at: ("Vote", at % 4 + 1, rng.below(4) > 0),
    "atomic_delivery": lambda rng, slot, at: ("Receive", at % 5),
    "barrier": lambda rng, slot, at: ("Arrive", at // 9),
    "cleanup": lambda rng, slot, at: ("Receive", at % 5),
    "configuration_rollout": lambda rng, slot, at: (
        ("Propose", at // 9) if at % 2 else ("Stored", at // 9)
    ),
    "distributed_lock": lambda rng, slot, at: ("Acquire",) if rng.below(2) else ("Release",),
    "last_copy_recall": lambda rng, slot, at: ("Receive", at % 5),
    "state_machine_replication": lambda rng, slot, at: ("Submit", at),
    "total_order": lambda rng, slot, at: ("Receive", at % 5),
    "virtual_synchrony": lambda rng, slot, at: (
        ("Receive", at % 5 + 1) if rng.below(6) else ("Stop", at // 18)
    ),
}


KINDS = [["ring", "tree"], ["star"], ["gossip", "ring"], ["requests"]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 22, 24])
@pytest.mark.parametrize("name", sorted({*EVENTS, "leader_election", "coordinated_phases"}))
def test_invariants_hold_while_nodes_crash_and_messages_are_lost(name: str, seed: int) -> None:
    """With seed 24 a node that had started again held a lock that another one had been given."""
    rng = Rng(seed)
    slots = 4 + seed % 4
    kinds = KINDS[seed % 4]
    group = Group(name, slots, size=2, kinds=kinds, loss=0.08, jitter=5.0, seed=seed)
    at = 0
    for step in range(80):
        for _ in range(2):
            at += 1
            slot = rng.below(slots)
            if name in EVENTS and slot in group.running:
                group.say(slot, *EVENTS[name](rng, slot, at))
        if step % 12 == 3 and len(group.running) > 1:
            group.crash(rng.below(slots))
        for slot in range(slots):
            if slot not in group.running and rng.below(4) == 0:
                group.start(slot)
        group.run(0.15)
