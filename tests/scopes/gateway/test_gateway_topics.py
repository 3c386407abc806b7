"""Which topics a network wants, from views of its groups and of its gateways."""

from __future__ import annotations

from collections import Counter

import pytest

from quicksilver.scopes.gateway.topics import TOPICS_MAX, Topics, Wanted

T = "campus/news"


@pytest.fixture
def topics() -> Topics:
    topics = Topics("g1", Counter())
    topics.handle_gateways({1: "g1", 2: "g2"})
    return topics


def told(topics: Topics) -> list[Wanted]:
    found = []
    while (wanted := topics.poll_wanted()) is not None:
        found.append(wanted)
    return found


def test_gateways_do_not_count_as_subscribers(topics: Topics) -> None:
    """Else every topic would be wanted for ever, because gateways are in its group."""
    topics.handle_view(T, [1, 2])
    assert told(topics) == [Wanted(T, publishes=True, subscribes=False)]
    topics.handle_view(T, [1, 2, 7])
    assert told(topics) == [Wanted(T, publishes=True, subscribes=True)]
    topics.handle_view(T, [1, 2])
    assert told(topics) == [Wanted(T, publishes=True, subscribes=False)]
    topics.handle_gone(T)
    assert told(topics) == [Wanted(T, publishes=False, subscribes=False)]
    topics.handle_gone(T)
    assert told(topics) == []


def test_a_node_that_turns_out_to_be_a_gateway_is_none_of_them(topics: Topics) -> None:
    topics.handle_view(T, [1, 2, 3])
    assert told(topics)[-1].subscribes
    topics.handle_gateways({1: "g1", 2: "g2", 3: "g3"})
    assert not told(topics)[-1].subscribes


def test_one_gateway_brings_a_topic_in_and_all_agree_which() -> None:
    names = {1: "g1", 2: "g2", 3: "g3"}
    every = []
    for own in names.values():
        topics = Topics(own, Counter())
        topics.handle_gateways(names)
        for number in range(60):
            topics.handle_view(f"campus/t{number}", [1, 2, 3, 7])
        every.append([topics.is_presented(f"campus/t{number}") for number in range(60)])
    assert all(sum(each) == 1 for each in zip(*every, strict=True))
    assert min(map(sum, every)) > 5, "and they share the work"


def test_a_gateway_that_goes_moves_only_its_own_topics() -> None:
    topics = Topics("g1", Counter())
    names = [f"campus/t{number}" for number in range(60)]
    for name in names:
        topics.handle_view(name, [7])
    topics.handle_gateways({1: "g1", 2: "g2", 3: "g3"})
    before = {name for name in names if topics.is_presented(name)}
    topics.handle_gateways({1: "g1", 3: "g3"})
    assert before < {name for name in names if topics.is_presented(name)}


def test_nobody_brings_in_what_nobody_wants(topics: Topics) -> None:
    topics.handle_gateways({1: "g1"})
    topics.handle_view(T, [1])
    assert not topics.is_presented(T)
    assert not topics.is_presented("campus/other")


def test_names_that_are_no_topics_and_too_many_are_ignored() -> None:
    counters: Counter[str] = Counter()
    topics = Topics("g1", counters)
    for name in ("news", "campus/a b", "campus/a:b"):
        topics.handle_view(name, [7])
    for number in range(TOPICS_MAX + 3):
        topics.handle_view(f"campus/{number}", [7])
    assert counters["topics_ignored"] == 6
    assert len(told(topics)) == TOPICS_MAX
