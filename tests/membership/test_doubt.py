"""A GMS that hears hardly anybody suspects its own link first."""

from __future__ import annotations

import pytest

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.store import MemoryStore
from quicksilver.wire import gms
from tests.membership.bench import SECRET, Bench, hello, kinds


def make(nodes: int, config: ServiceConfig | None = None) -> tuple[Bench, list[int]]:
    bench = Bench(config)
    conns = [bench.welcome(gms.Subscribe(1, join=("a",))) for _ in range(nodes)]
    bench.live(1.0, *conns)
    return bench, conns


@pytest.mark.parametrize("nodes", [1, 2, 5])
@pytest.mark.parametrize("cut_s", [3.5, 10.0, 25.0])
def test_nobody_is_excluded_because_the_gms_was_cut_off(nodes: int, cut_s: float) -> None:
    """Five of five were, after three seconds; they were well all the time."""
    bench, conns = make(nodes)
    assert bench.run(cut_s) == {}
    bench.live(10.0, *conns)
    assert bench.closed == []
    counters = bench.service.counters
    assert (counters.failed, counters.holds) == (0, 1)
    assert len(bench.notes) == 2
    assert f"{nodes} of {nodes} nodes are silent" in bench.notes[0]
    assert "heard again" in bench.notes[1]


def test_those_who_come_late_after_a_cut_have_the_usual_time_from_then_on() -> None:
    """The network gives nodes back one by one."""
    bench, conns = make(5)
    bench.run(8.0)
    bench.live(2.5, conns[0])
    assert bench.closed == []
    bench.live(3.0, *conns[:3])
    assert bench.closed == conns[3:]


def test_a_minority_that_falls_silent_is_excluded_in_the_usual_time() -> None:
    """The GMS hears enough of the others to trust its link."""
    bench, conns = make(5)
    bench.live(2.4, *conns[2:])
    assert bench.closed == []
    bench.live(0.2, *conns[2:])
    assert bench.closed == conns[:2]
    assert bench.service.counters.holds == 0


def test_of_two_nodes_one_may_fail() -> None:
    """Half is not most: the smallest cluster loses a member as ever."""
    bench, conns = make(2)
    bench.live(3.5, conns[0])
    assert bench.closed == [conns[1]]


def test_a_node_on_the_same_machine_does_not_hide_the_cut() -> None:
    """Its connection does not need the link."""
    bench, conns = make(5)
    bench.live(8.0, conns[0])
    bench.live(5.0, *conns)
    assert bench.closed == []


def test_nodes_that_died_together_are_excluded_in_the_end() -> None:
    """The doubt is bounded, and shown while it lasts."""
    bench, conns = make(5)
    bench.live(20.0, *conns[:2])
    assert bench.closed == []
    tool = bench.connect()
    bench.say(tool, gms.Inspect(1))
    [snapshot] = bench.hear()[tool]
    assert isinstance(snapshot, gms.Snapshot)
    assert snapshot.held_s == pytest.approx(17.0, abs=0.6)
    assert snapshot.counters["holds"] == 1
    bench.live(11.0, *conns[:2])
    assert sorted(set(bench.closed)) == conns[2:]


def test_one_who_comes_and_goes_does_not_protect_the_dead_for_ever() -> None:
    """Every time it is heard the others have time anew, but not past the bound."""
    bench, conns = make(5)
    for _ in range(4):
        bench.run(5.0)
        bench.live(1.0, conns[0])
    assert bench.closed == []
    for _ in range(2):
        bench.run(5.0)
        bench.live(1.0, conns[0])
    assert sorted(bench.closed) == conns[1:]


def test_nodes_that_die_one_after_another_are_excluded_one_after_another() -> None:
    """Only the last is waited for: when it falls silent, nobody is left."""
    bench, conns = make(4)
    for alive in range(3, 0, -1):
        bench.live(6.0, *conns[:alive])
        assert sorted(bench.closed) == conns[alive:]
    bench.run(29.0)
    assert len(bench.closed) == 3
    bench.run(2.0)
    assert len(bench.closed) == 4


def test_a_crash_of_most_processes_is_cleaned_up_at_once() -> None:
    """Their systems end the connections: that is heard, so it is no silence."""
    bench, conns = make(5)
    for conn in conns[1:]:
        bench.service.handle_disconnected(conn, bench.now)
    heard = bench.live(1.0, conns[0])
    failed = {n for reply in heard[conns[0]] for n in getattr(reply, "nodes_failed", ())}
    assert failed == {2, 3, 4, 5}


def test_connections_that_the_kernel_gave_up_during_the_cut_cost_nobody_its_place() -> None:
    """A long cut ends them here; what a node's system did not say is still silence."""
    bench, conns = make(3)
    bench.run(10.0)
    for conn in conns:
        bench.service.handle_disconnected(conn, bench.now, is_silent=True)
    bench.run(10.0)
    for node in (1, 2, 3):
        again = bench.connect()
        bench.say(again, hello(gms.Resume(bench.service.cluster, node, SECRET)))
        assert kinds(bench.run(0.5)[again]) == ["Welcome", "Update"]
    assert bench.service.counters.failed == 0


def test_a_node_that_gave_up_its_connection_has_time_to_make_another() -> None:
    """When the link is back the end of the old connection may come first."""
    bench, conns = make(3)
    bench.run(10.0)
    for conn in conns:
        bench.service.handle_disconnected(conn, bench.now)
    bench.run(2.5)
    for node in (1, 2, 3):
        again = bench.connect()
        bench.say(again, hello(gms.Resume(bench.service.cluster, node, SECRET)))
        assert kinds(bench.hear()[again]) == ["Welcome", "Update"]


def test_a_gms_that_starts_without_its_link_waits_for_it() -> None:
    """The nodes that it knows cannot resume, and are well."""
    store = MemoryStore()
    first = Bench(store=store)
    for _ in range(3):
        first.welcome()
    bench = Bench(store=store)
    bench.run(20.0)
    for node in (1, 2, 3):
        again = bench.connect()
        bench.say(again, hello(gms.Resume(bench.service.cluster, node, SECRET)))
        assert kinds(bench.run(0.2)[again]) == ["Welcome", "Update"]
    assert bench.service.counters.failed == 0
