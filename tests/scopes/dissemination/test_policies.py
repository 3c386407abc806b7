"""Forwarding policies: everybody gets every message, along few channels that share the work."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from quicksilver.scopes.dissemination.container import find_plan_problem
from quicksilver.scopes.dissemination.filters import Chance, Facts, Modulo, compile_filter
from quicksilver.scopes.dissemination.policies.base import Policy, SharedPolicy
from quicksilver.scopes.dissemination.policies.choice import BadPolicyError, parse_policy
from quicksilver.scopes.dissemination.policies.meshes import GOSSIP_EVERYBODY_MAX, Gossip, Mesh
from quicksilver.scopes.dissemination.policies.trees import Star, Stripes, Tree


def names(count: int) -> tuple[str, ...]:
    return tuple(f"m{i}" for i in range(count))


def deliver(policy: Policy, members: tuple[str, ...], origin: str, number: int) -> Counter[str]:
    """Return how often each member gets a message, passing it on the first time."""
    onward: dict[str, list[str]] = {}
    for edge in policy.edges(members, origin):
        if compile_filter(edge.filter)(Facts(number, {})) is not None:
            onward.setdefault(edge.source, []).append(edge.target)
    got, ahead = Counter({origin: 1}), [origin]
    while ahead:
        for target in onward.get(ahead.pop(), []):
            got[target] += 1
            if got[target] == 1:
                ahead.append(target)
    return got


def flood(policy: SharedPolicy, members: tuple[str, ...], origin: str, number: int) -> Counter[str]:
    """Return how often each member gets a message along channels that serve every origin."""
    edges = [*policy.shared_edges(members), *policy.entry_edges(members, origin)]
    onward: dict[str, list[str]] = {}
    for edge in edges:
        if compile_filter(edge.filter)(Facts(number, {})) is not None:
            onward.setdefault(edge.source, []).append(edge.target)
    got, ahead = Counter({origin: 1}), [(origin, "")]
    while ahead:
        member, via = ahead.pop()
        for target in onward.get(member, []):
            if target in (via, origin):
                continue
            got[target] += 1
            if got[target] == 1:
                ahead.append((target, member))
    return got


TREES = ["star", "chain", "tree:2", "tree:5", "stripes:2", "stripes:4"]


@pytest.mark.parametrize("text", TREES)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_along_trees_every_member_gets_every_message_once(text: str, count: int) -> None:
    policy, members = parse_policy(text), names(count)
    for origin in members:
        for number in range(8):
            assert deliver(policy, members, origin, number) == Counter(members)


@pytest.mark.parametrize("text", ["chain", "tree:2", "tree:5", "stripes:2", "stripes:4"])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_channels_for_every_origin_bring_every_message_once(text: str, count: int) -> None:
    """From members, and from who only publishes."""
    policy, members = parse_policy(text), names(count)
    assert isinstance(policy, SharedPolicy)
    for origin in (*members, "outside"):
        for number in range(8):
            assert flood(policy, members, origin, number) == Counter({*members, origin})


@pytest.mark.parametrize("text", ["mesh:2", "mesh:4", "gossip:40"])
def test_meshes_for_every_origin_leave_nobody_out(text: str) -> None:
    policy, members = parse_policy(text), names(40)
    assert isinstance(policy, SharedPolicy)
    for origin in (*members, "outside"):
        assert set(flood(policy, members, origin, 1)) == {*members, origin}


def test_who_joins_changes_the_peers_of_few_others() -> None:
    """Channels are opened anew for them; in a large scope that must not be everybody."""
    before = set(Gossip(4).shared_edges(names(500)))
    after = set(Gossip(4).shared_edges(names(501)))
    assert len(before - after) < 500 * GOSSIP_EVERYBODY_MAX // 20


@pytest.mark.parametrize("text", [*TREES, "mesh:2", "mesh:4", "gossip:3", "multicast", "qsm"])
@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_policies_leave_nobody_out(text: str, count: int) -> None:
    policy, members = parse_policy(text), names(count)
    edges = list(policy.edges(members, members[-1]))
    has_mechanism = policy.mechanism is not None
    assert not find_plan_problem(edges, members, members[-1], has_mechanism=has_mechanism)


def test_a_tree_has_the_same_channels_for_all_origins() -> None:
    """Figure 3.9: graphs of different topics overlap, so few members talk to each other."""
    members = names(30)
    pairs = {
        frozenset((edge.source, edge.target))
        for origin in members
        for edge in Tree(3).edges(members, origin)
    }
    assert len(pairs) == 29


def test_a_tree_keeps_to_its_fan_out() -> None:
    members = names(40)
    for origin in ("m0", "m17", "m39"):
        sent = Counter(edge.source for edge in Tree(3).edges(members, origin))
        assert max(sent.values()) <= 4, "three children, and the way up"


def test_stripes_share_the_work() -> None:
    """SplitStream: a member forwards in one tree and is a leaf in the others, or nearly so."""
    members = names(41)
    policy = Stripes(4)
    edges = list(policy.edges(members, "m0"))
    assert {edge.filter for edge in edges} == {Modulo(4, k) for k in range(4)}
    forwards: dict[str, set[object]] = {}
    for edge in edges:
        if edge.source != "m0":
            forwards.setdefault(edge.source, set()).add(edge.filter)
    assert max(len(stripes) for stripes in forwards.values()) == 1
    assert len(forwards) == 40, "everybody has something to do"
    alone = Counter(edge.source for edge in Tree(4).edges(members, "m0"))
    assert len(alone) < 12, "in one tree most have not"


@pytest.mark.parametrize("paths", [2, 4])
def test_a_mesh_survives_any_failures_but_as_many_as_it_has_paths(paths: int) -> None:
    members = names(9)
    for gone in combinations(members[1:], paths - 1):
        left = tuple(member for member in members if member not in gone)
        edges = [
            edge
            for edge in Mesh(paths).edges(members, "m0")
            if edge.source in left and edge.target in left
        ]
        assert not find_plan_problem(edges, left, "m0", has_mechanism=False)


def test_gossip_reaches_nearly_all_with_little_work() -> None:
    """What nobody brought is the business of recovery: a message in 70 meets no peer of its
    origin at all, since (1 - 4/32)^32 is 1.4 %."""
    members = names(100)
    policy = Gossip(4)
    reached = [len(deliver(policy, members, "m3", number)) for number in range(60)]
    assert sum(count > 80 for count in reached) >= 55
    peers = Counter(edge.source for edge in policy.edges(members, "m3"))
    assert max(peers.values()) <= GOSSIP_EVERYBODY_MAX


def test_lots_of_gossip_do_not_depend_on_the_process() -> None:
    """Python's own hash differs from run to run; the channels must not."""
    first = next(iter(Gossip(2).edges(("a", "b", "c", "d"), "a")))
    assert first.filter == Chance(2 / 3, salt=2882042492635215307)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no policy ''"),
        ("tre:2", "there are star, chain"),
        ("tree", "write tree:4"),
        ("tree:", "write tree:4"),
        ("tree:x", "write tree:4"),
        ("tree:0", "fan-out of 1"),
        ("tree:9999", "1000 is the most"),
        ("mesh:3", "even number"),
        ("stripes:1", "2 trees"),
        ("gossip:0", "fan-out of 1"),
        ("star:2", "there is no policy"),
    ],
)
def test_what_people_mistype_is_answered_in_one_line(text: str, says: str) -> None:
    with pytest.raises(BadPolicyError) as caught:
        parse_policy(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_policies_by_name() -> None:
    assert isinstance(parse_policy("star"), Star)
    assert parse_policy("multicast").mechanism == "multicast"
    chain = parse_policy("chain")
    assert isinstance(chain, Tree)
    assert chain.fan_out == 1
