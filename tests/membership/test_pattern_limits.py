"""What patterns find stays within the limits, and never takes what is asked for by name."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from quicksilver.membership import batch
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.tables import NodeRow, group_bytes
from quicksilver.wire import gms
from tests.membership.bench import Bench, hello, kinds


def rows(bench: Bench) -> list[NodeRow]:
    return list(bench.service._tables.nodes.values())


def memberships(bench: Bench) -> int:
    return sum(len(row.joined) + len(row.opened) for row in rows(bench))


def used_bytes(bench: Bench, row: NodeRow) -> int:
    groups = bench.service._tables.groups
    return sum(group_bytes(groups[group].name) for group in row.joined | row.opened)


def names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(count))


def test_patterns_find_as_many_groups_as_there_may_be_memberships() -> None:
    bench = Bench(ServiceConfig(memberships_max=30))
    for _ in range(4):
        bench.welcome(gms.Subscribe(1, match=(">",)))
    bench.welcome(gms.Subscribe(1, open=names("g", 10)))
    assert memberships(bench) == 30
    assert bench.service.counters.patterns_cut == 4 * 10 - 20
    late = bench.welcome(gms.Subscribe(1, match=(">",)))
    assert memberships(bench) == 30
    assert late not in bench.closed


def test_patterns_give_way_to_a_join_by_name() -> None:
    """Patterns have filled the limit: somebody else's join is not refused for it."""
    bench = Bench(ServiceConfig(memberships_max=30))
    for _ in range(4):
        bench.welcome(gms.Subscribe(1, match=(">",)))
    bench.welcome(gms.Subscribe(1, open=names("g", 10)))
    cut = bench.service.counters.patterns_cut
    other = bench.connect()
    bench.say(other, hello(), gms.Subscribe(1, join=names("h", 3)))
    assert kinds(bench.run(0.1)[other])[-1] == "Subscribed"
    assert memberships(bench) == 30
    assert len(rows(bench)[-1].named) == 3
    # Three that were there before, and what the patterns would have found of the new groups.
    assert bench.service.counters.patterns_cut == cut + 3 + 4 * 3


def test_names_alone_are_still_refused_past_the_limit() -> None:
    bench = Bench(ServiceConfig(memberships_max=5))
    bench.welcome(gms.Subscribe(1, match=(">",)))
    sender = bench.welcome(gms.Subscribe(1, open=names("g", 5)))
    assert memberships(bench) == 5
    bench.say(sender, gms.Subscribe(2, open=("more",)))
    [refused] = bench.run(0.1)[sender]
    assert isinstance(refused, gms.Refused)
    assert "memberships_max" in refused.reason


def test_patterns_find_as_many_bytes_of_groups_as_a_node_may_use() -> None:
    limit = 5 * group_bytes("g0")
    bench = Bench(ServiceConfig(group_bytes_per_node_max=limit))
    early = bench.welcome(gms.Subscribe(1, match=(">",)))
    for prefix in "gh":
        bench.welcome(gms.Subscribe(1, open=names(prefix, 4)))
    bench.welcome(gms.Subscribe(1, match=(">",)))
    watchers = [row for row in rows(bench) if row.patterns]
    assert [len(row.matched) for row in watchers] == [5, 5]
    assert bench.service.counters.patterns_cut == 3 + 3
    # What the node itself names comes before what its patterns found.
    bench.say(early, gms.Subscribe(2, join=names("i", 4)))
    assert kinds(bench.run(0.1)[early])[-1] == "Subscribed"
    assert (len(watchers[0].named), len(watchers[0].matched)) == (4, 1)


def test_a_group_that_a_node_opened_counts_once_for_it() -> None:
    bench = Bench(ServiceConfig(groups_per_node_max=3))
    bench.welcome(gms.Subscribe(1, open=names("g", 3), match=(">",)))
    bench.welcome(gms.Subscribe(1, open=names("h", 3)))
    [row, _] = rows(bench)
    assert row.matched == row.opened
    assert bench.service.counters.patterns_cut == 3


def test_each_node_is_looked_at_once_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sets may be large: copied for each new group they made a batch quadratic."""
    bench = Bench()
    for _ in range(3):
        bench.welcome(gms.Subscribe(1, match=(">",)))
    sender = bench.welcome(gms.Subscribe(1, open=names("g", 40)))
    rebuilt: Counter[int] = Counter()
    set_groups = batch._Batch._set_groups

    def count(self: batch._Batch, row: NodeRow, *sets: frozenset[int]) -> None:
        rebuilt[row.id] += 1
        set_groups(self, row, *sets)  # type: ignore[arg-type]

    monkeypatch.setattr(batch._Batch, "_set_groups", count)
    bench.say(sender, gms.Subscribe(2, close=names("g", 20), open=names("h", 50)))
    bench.run(0.02)
    assert rebuilt == {1: 1, 2: 1, 3: 1, 4: 1}
    assert [len(row.matched) for row in rows(bench)] == [70, 70, 70, 0]


@pytest.mark.parametrize("seed", range(20))
def test_limits_hold_whatever_nodes_ask_for(seed: int) -> None:
    """What is named is never cut, no limit is passed, and what is counted is what there is."""
    rng = random.Random(seed)
    config = ServiceConfig(
        memberships_max=60, groups_per_node_max=14, group_bytes_per_node_max=12 * 2070
    )
    bench = Bench(config)
    tables = bench.service._tables
    every = [f"{a}.{b}" for a in "ab" for b in range(8)]
    wanted: dict[int, tuple[set[str], set[str]]] = {}
    conns: list[int] = []
    for step in range(60):
        if len(conns) < 6:
            conns.append(bench.welcome())
            wanted[bench.service._tables.next_node - 1] = (set(), set())
        conn = rng.choice(conns)
        joined, opened = wanted[sorted(wanted)[conns.index(conn)]]
        join, open_ = rng.sample(every, rng.randrange(3)), rng.sample(every, rng.randrange(3))
        leave, close = rng.sample(every, 4), rng.sample(every, 4)
        joined.difference_update(leave)
        opened.difference_update(close)
        joined.update(join)
        opened.update(open_)
        match = rng.sample(["a.*", "b.*", ">"], rng.randrange(2))
        unmatch = rng.sample(["a.*", "b.*", ">"], rng.randrange(2))
        bench.say(
            conn,
            gms.Subscribe(
                step,
                join=tuple(join),
                open=tuple(open_),
                leave=tuple(leave),
                close=tuple(close),
                match=tuple(match),
                unmatch=tuple(unmatch),
            ),
        )
        bench.live(0.05, *conns)
        if conn in bench.closed:
            # Too much by name alone: it goes, and another one comes in its place.
            del wanted[sorted(wanted)[conns.index(conn)]]
            conns.remove(conn)
            bench.live(bench.service.config.resume_grace_s + 1, *conns)
        assert memberships(bench) == tables.memberships <= config.memberships_max
        assert sum(len(row.matched) for row in rows(bench)) == tables.matches
        for row in rows(bench):
            assert row.matched <= row.joined
            assert len(row.joined | row.opened) <= config.groups_per_node_max
            assert used_bytes(bench, row) == row.group_bytes <= config.group_bytes_per_node_max
            if row.id in wanted:
                assert {tables.groups[group].name for group in row.named} == wanted[row.id][0]
                assert {tables.groups[group].name for group in row.opened} == wanted[row.id][1]
    assert bench.service.counters.patterns_cut
    again = Bench(config, bench.store).service._tables
    assert (again.memberships, again.matches) == (tables.memberships, tables.matches)
    assert {n: row.group_bytes for n, row in again.nodes.items()} == {
        n: row.group_bytes for n, row in tables.nodes.items()
    }
