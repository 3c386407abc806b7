"""Patterns of names: the indexes against the obvious way, and the GMS frame by frame."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.names import find_name_problem, find_pattern_name_problem
from quicksilver.membership.patterns import NameIndex, PatternIndex, is_pattern, matches
from quicksilver.wire import gms
from tests.membership.bench import Bench, hello

LEVELS = st.sampled_from(["a", "b", "c", "$s", "", "a/b", "a/c/b", "/"])
NAMES = st.lists(LEVELS, min_size=1, max_size=4).map(".".join).filter(bool)
PATHS = st.sampled_from(["a/*", "a/c/*", "b/*", "a.b/*", "a.a/*", "$s/*", "a.a/c/*"])
PATTERNS = PATHS | st.lists(st.sampled_from(["a", "b", "*", "$s"]), min_size=0, max_size=3).flatmap(
    lambda head: st.sampled_from(["a", "*", ">"]).map(lambda last: ".".join([*head, last]))
)


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("prices.*", "prices.eu", True),
        ("prices.*", "prices", False),
        ("prices.*", "prices.eu.spot", False),
        ("prices.>", "prices.eu", True),
        ("prices.>", "prices.eu.spot", True),
        ("prices.>", "prices", False),
        ("*.eu", "prices.eu", True),
        ("*.eu", "prices.us", False),
        ("*", "prices", True),
        (">", "prices.eu.spot", True),
        (">", "$attend.x", False),
        ("*.x", "$attend.x", False),
        ("$attend.*", "$attend.x", True),
        ("prices", "prices", True),
        ("pri*", "prices", False),
        ("campus/*", "campus/news", True),
        ("campus/*", "campus/library/news", False),
        ("campus/library/*", "campus/library/news", True),
        ("campus/*", "campus/news.eu", True),
        ("campus/*", "campus", False),
        ("campus/*", "campus.x/news", False),
        ("*", "campus/news", True),
        ("$s/*", "$s/news", True),
    ],
)
def test_what_a_pattern_stands_for(pattern: str, name: str, is_match: bool) -> None:
    """The rules of NATS: ``*`` is one level, ``>`` one or more at the end."""
    assert matches(pattern, name) == is_match


@given(st.lists(PATTERNS, max_size=12), st.lists(NAMES, max_size=12), st.data())
def test_the_indexes_agree_with_the_obvious_way(
    patterns: list[str], names: list[str], data: st.DataObject
) -> None:
    by_pattern: PatternIndex[int] = PatternIndex()
    by_name: NameIndex[int] = NameIndex()
    for number, pattern in enumerate(patterns):
        by_pattern.add(pattern, number)
    for number, name in enumerate(names):
        by_name.add(name, number)
    gone = data.draw(st.sets(st.integers(0, max(len(patterns), 1) - 1)))
    for number in sorted(gone.intersection(range(len(patterns)))):
        by_pattern.discard(patterns[number], number)
        by_pattern.discard(patterns[number], number)
    left = {n: p for n, p in enumerate(patterns) if n not in gone}
    assert len(by_pattern) == len(left)
    for name in names:
        assert by_pattern.match(name) == {n for n, p in left.items() if matches(p, name)}
    for pattern in patterns:
        expected = [n for n, name in enumerate(names) if matches(pattern, name)]
        assert sorted(by_name.match(pattern)) == expected


@given(st.lists(PATTERNS, max_size=8, unique=True))
def test_an_index_that_was_emptied_holds_nothing(patterns: list[str]) -> None:
    """Levels that lead to nothing are forgotten: memory follows what is subscribed."""
    index: PatternIndex[int] = PatternIndex()
    for pattern in patterns:
        index.add(pattern, 1)
    for pattern in patterns:
        index.discard(pattern, 1)
    assert len(index) == 0
    assert index._root.branches == {}


def test_ten_thousand_groups_and_a_thousand_patterns() -> None:
    """The work is that of levels and matches: every branch that is looked at is counted."""
    by_pattern: PatternIndex[int] = PatternIndex()
    for number in range(1000):
        by_pattern.add(f"market{number}.*", number)
    for number in range(10_000):
        assert by_pattern.match(f"market{number % 1000}.s{number}") == {number % 1000}
    by_name: NameIndex[int] = NameIndex()
    for number in range(10_000):
        by_name.add(f"market{number % 1000}.s{number}", number)
    for number in range(1000):
        assert len(by_name.match(f"market{number}.*")) == 10
    assert len(by_name.match(">")) == 10_000


@pytest.mark.parametrize("name", ["*", ">", "a.*", "a.>", "*.b"])
def test_no_group_has_a_wildcard_for_a_level(name: str) -> None:
    assert is_pattern(name)
    assert find_name_problem(name) is not None
    assert find_pattern_name_problem(name) is None


@pytest.mark.parametrize("pattern", ["a.>.b", ">.a", "a..*", "", "x" * 300])
def test_patterns_that_make_no_sense(pattern: str) -> None:
    assert find_pattern_name_problem(pattern) is not None


@pytest.mark.parametrize("name", ["a*b", "a>b", "a.b*", "->"])
def test_a_wildcard_inside_a_level_is_a_letter_like_others(name: str) -> None:
    assert not is_pattern(name)
    assert find_name_problem(name) is None


# -- the service


def test_a_new_group_has_those_whose_patterns_stand_for_it_from_its_first_view() -> None:
    """Whoever opens a group and sends at once reaches them all."""
    bench = Bench()
    member = bench.welcome(gms.Subscribe(1, match=("a.*",)))
    sender = bench.welcome(gms.Subscribe(1, open=("a.x",)))
    del member, sender
    late = bench.connect()
    bench.say(late, hello(), gms.Subscribe(1, open=("a.y",)))
    heard = bench.run(0.02)
    update = next(reply for reply in heard[late] if isinstance(reply, gms.Update))
    assert [(group.name, group.view, group.joined) for group in update.groups] == [("a.y", 1, (1,))]


def test_too_many_patterns_are_refused() -> None:
    bench = Bench(ServiceConfig(patterns_per_node_max=2))
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, match=("a.*", "b.*", "c.*")))
    [refused] = bench.hear()[conn]
    assert isinstance(refused, gms.Refused)
    assert "more than 2 patterns" in refused.reason


def test_a_pattern_that_makes_no_sense_is_refused() -> None:
    bench = Bench()
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, match=("a.>.b",)))
    [refused] = bench.hear()[conn]
    assert isinstance(refused, gms.Refused)
    assert "'>' before its last level" in refused.reason


def test_a_node_is_in_no_more_groups_than_it_may_be() -> None:
    """A pattern of everything must not take what the limits leave to nobody."""
    bench = Bench(ServiceConfig(groups_per_node_max=3))
    watcher = bench.connect()
    bench.say(watcher, hello(), gms.Subscribe(1, match=(">",)))
    bench.run(0.02)
    for number in range(2):
        names = tuple(f"g{number}.{each}" for each in range(3))
        bench.welcome(gms.Subscribe(1, open=names))
    heard = bench.hear().get(watcher, [])
    del heard
    row = next(iter(bench.service._tables.nodes.values()))
    assert len(row.joined) == 3
    assert bench.service.counters.patterns_cut == 3


def test_attendance_has_views_numbered_by_batches_and_no_regions() -> None:
    bench = Bench()
    bench.welcome(gms.Subscribe(1, join=("$attend.t",)))
    conn = bench.connect()
    bench.say(conn, hello(), gms.Subscribe(1, join=("$attend.t",)))
    update = next(r for r in bench.run(0.02)[conn] if isinstance(r, gms.Update))
    [group] = update.groups
    assert (group.view, group.regions, group.joined) == (update.batch, (), (1, 2))
    assert update.regions == ()


def test_a_private_group_leaves_the_plan_of_others_as_it_is() -> None:
    """Two nodes of one region; one of them makes a private group, and both stay there."""
    bench = Bench()
    one = bench.welcome(gms.Subscribe(1, join=("a",)))
    two = bench.welcome(gms.Subscribe(1, join=("a",)))
    bench.hear()
    bench.say(one, gms.Subscribe(2, join=("$private.p",)))
    heard = bench.run(0.02)
    update = next(r for r in heard[one] if isinstance(r, gms.Update))
    [region] = update.regions
    assert (region.joined, region.address) == ((1,), "")
    assert [group.name for group in update.groups] == ["$private.p"]
    assert two not in heard


def test_senders_hear_of_a_queue_that_changes() -> None:
    """What they send from then on is shared by the members that are left."""
    bench = Bench()
    queue = "$attend.queue.w.a"
    bench.welcome(gms.Subscribe(1, join=("a", queue)))
    two = bench.welcome(gms.Subscribe(1, join=("a", queue)))
    sender = bench.welcome(gms.Subscribe(1, open=("a",)))
    bench.hear()
    bench.say(two, gms.Subscribe(2, leave=(queue,)))
    heard = bench.run(0.02)
    update = next(r for r in heard[sender] if isinstance(r, gms.Update))
    assert [group.id for group in update.groups] == [1]


def test_the_region_of_a_private_group_never_uses_a_number_twice() -> None:
    """Its last member leaves, somebody keeps it open, another member comes."""
    bench = Bench()
    one = bench.welcome(gms.Subscribe(1, join=("$private.p",)))
    keeper = bench.welcome(gms.Subscribe(1, open=("$private.p",)))
    first = bench.service._tables.regions[1 << 31 | 1].view
    bench.say(one, gms.Subscribe(2, leave=("$private.p",)))
    bench.run(0.02)
    assert not bench.service._tables.regions
    bench.say(keeper, gms.Subscribe(2, join=("$private.p",)))
    bench.run(0.02)
    assert bench.service._tables.regions[1 << 31 | 1].view > first


def test_a_group_that_only_patterns_have_left_ends() -> None:
    """A gateway is in all topics of its scope and must not keep one alive by itself."""
    bench = Bench()
    gateway = bench.welcome(gms.Subscribe(1, match=("campus/*",)))
    node = bench.connect()
    join = ("campus/news", "campus/library/news", "news")
    bench.say(node, hello(), gms.Subscribe(1, join=join))
    (update,) = [r for r in bench.run(0.02)[gateway] if isinstance(r, gms.Update)]
    assert [(group.name, group.joined) for group in update.groups] == [("campus/news", (1, 2))]
    bench.say(node, gms.Subscribe(2, leave=("campus/news",)))
    (update,) = [r for r in bench.run(0.02)[gateway] if isinstance(r, gms.Update)]
    assert update.groups_gone == (1,)
