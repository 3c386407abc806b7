"""Who is excluded because peers cannot reach him, and who is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from quicksilver.membership.suspicion import WEIGH_S, Suspicions
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.repair.silence import Silence
from quicksilver.wire import gms
from quicksilver.wire.gms import DISPUTED_NAMED_MAX
from tests.membership.bench import Bench

TIMEOUT_S = 3.0
ASK_S = 1.0


def accuse(*pairs: tuple[int, tuple[int, ...]]) -> Suspicions:
    """Return what follows from reports that all came at once, at 10 s."""
    suspicions = Suspicions(TIMEOUT_S, ASK_S)
    for reporter, named in pairs:
        suspicions.handle_report(reporter, named, 10.0 - WEIGH_S)
    suspicions.handle_timeout(10.0)
    return suspicions


def convicted(suspicions: Suspicions, now: float = 10.0 + TIMEOUT_S) -> list[int]:
    suspicions.handle_timeout(now)
    return [node for node, _ in suspicions.convicted(now)]


def test_two_who_agree_for_long_enough_suffice() -> None:
    suspicions = accuse((1, (9,)), (2, (9,)))
    assert suspicions.next_timeout() == 13.0
    assert convicted(suspicions, 12.9) == []
    ((node, reason),) = suspicions.convicted(13.0)
    assert node == 9
    assert "say nodes 1, 2" in reason, "who is excluded learns who could not reach him"


def test_one_alone_never_suffices() -> None:
    """It may be the one that is cut off, and says so of everybody."""
    suspicions = accuse((9, (1, 2, 3, 4)))
    assert suspicions.next_timeout() is None
    assert convicted(suspicions, 1000.0) == []


def test_a_word_taken_back_does_not_count() -> None:
    suspicions = accuse((1, (9,)), (2, (9,)))
    suspicions.handle_report(2, (), 11.0)
    suspicions.handle_timeout(11.0 + WEIGH_S)
    assert convicted(suspicions, 1000.0) == []
    suspicions.handle_report(2, (9,), 2000.0 - WEIGH_S)
    suspicions.handle_timeout(2000.0)
    assert convicted(suspicions, 2002.9) == [], "the time begins anew"
    assert convicted(suspicions, 2003.0) == [9]


def test_a_word_taken_back_in_the_last_moment_does_not_count() -> None:
    """Reports are weighed together, a moment later: whoever is heard again before that stays."""
    suspicions = accuse((1, (9,)), (2, (9,)))
    suspicions.handle_report(2, (), 13.0 - WEIGH_S / 2)
    assert convicted(suspicions, 13.0) == []
    assert suspicions.next_timeout() is None


def test_two_that_are_cut_off_cannot_have_the_others_excluded() -> None:
    """Each of the others is reported by two; but more report these two."""
    rest, lost = (1, 2, 3), (8, 9)
    suspicions = accuse(*[(n, lost) for n in rest], *[(n, rest) for n in lost])
    assert convicted(suspicions) == [8, 9]


def test_of_two_equal_halves_nobody_goes() -> None:
    """Nobody can say which one is right, and the GMS hears both."""
    one, other = (1, 2, 3), (7, 8, 9)
    suspicions = accuse(*[(n, other) for n in one], *[(n, one) for n in other])
    assert convicted(suspicions, 1000.0) == []


def test_the_order_of_reports_does_not_matter() -> None:
    reports = [(1, (9,)), (2, (9, 8)), (3, (9,)), (9, (1, 2, 3))]
    assert {tuple(convicted(accuse(*order))) for order in permutations(reports)} == {(9,)}


def test_the_word_of_those_who_are_gone_does_not_count() -> None:
    suspicions = accuse((1, (9,)), (2, (9,)))
    suspicions.handle_gone(1, 11.0)
    assert convicted(suspicions, 1000.0) == []


def test_a_gms_that_stood_still_hears_what_was_said_meanwhile_first() -> None:
    """Who was silent may have answered since, which waits in the sockets."""
    suspicions = accuse((1, (9,)), (2, (9,)))
    suspicions.handle_held_up(50.0)
    assert convicted(suspicions, 50.0) == []
    assert suspicions.next_timeout() == 53.0


def test_nobody_reports_himself() -> None:
    assert accuse((9, (9,)), (1, (9,))).next_timeout() is None


def test_a_dispute_is_told_to_all_and_ends() -> None:
    """Only what two say begins one: a broken link between two nodes is their own affair."""
    suspicions = accuse((1, (2,)), (2, (1,)))
    assert suspicions.disputed() == ()
    suspicions.handle_report(7, (9,), 11.0)
    suspicions.handle_report(8, (9,), 11.0)
    suspicions.handle_timeout(11.0 + WEIGH_S)
    assert suspicions.disputed() == (1, 2, 7, 8, 9)
    suspicions.handle_report(3, (9,), 12.0)
    suspicions.handle_timeout(12.0 + WEIGH_S)
    assert suspicions.disputed() == (1, 2, 7, 8, 9), "who was asked takes no part"
    suspicions.handle_gone(9, 13.0)
    suspicions.handle_timeout(13.0 + WEIGH_S)
    assert suspicions.disputed() == ()


def test_who_was_only_asked_is_compared_with_nobody() -> None:
    """Others were not asked about him, so that nobody reports him means nothing."""
    lost, rest = (8, 9), (1, 2)
    suspicions = accuse(*[(n, rest) for n in lost])
    for node in (5, 6, 7):
        suspicions.handle_report(node, rest, 10.0)
    for node in (1, 2, 10, 11, 12, 13):
        suspicions.handle_report(node, lost, 10.0)
    suspicions.handle_timeout(10.0 + WEIGH_S)
    assert convicted(suspicions, 1000.0) == [8, 9], "reported by six; 1 and 2 by five"


def test_who_is_found_to_be_silent_a_little_later_goes_with_the_first() -> None:
    suspicions = accuse((1, (8,)), (2, (8,)))
    for node in (1, 2):
        suspicions.handle_report(node, (8, 9), 11.5)
    suspicions.handle_timeout(11.5 + WEIGH_S)
    for node in (1, 2):
        suspicions.handle_report(node, (7, 8, 9), 12.5)
    suspicions.handle_timeout(12.5 + WEIGH_S)
    assert convicted(suspicions, 12.9) == []
    assert convicted(suspicions, 13.0) == [8, 9], "7 has hardly been asked"


def test_with_too_many_in_dispute_nobody_goes() -> None:
    """Not all of them can be asked about, and to compare some of them is not fair."""
    lost = tuple(range(1000, 1000 + DISPUTED_NAMED_MAX))
    suspicions = accuse((1, lost), (2, lost))
    assert suspicions.disputed() == ()
    assert convicted(suspicions, 1000.0) == []
    suspicions = accuse((1, lost[2:]), (2, lost[2:]))
    assert len(suspicions.disputed()) == DISPUTED_NAMED_MAX
    assert convicted(suspicions) == list(lost[2:])


@pytest.mark.parametrize("seed", range(40))
def test_of_a_network_in_parts_only_smaller_ones_go(seed: int) -> None:
    """Whoever notices it first, and in whatever order nodes are asked and answer.

    Some members of rings find each other silent by themselves; all others are asked.
    """
    rng = Random(seed)
    nodes = list(range(1, 8 + rng.randrange(60)))
    parts = 2 + rng.randrange(2)
    part_of = {node: rng.choices(range(parts), (5, 3, 1)[:parts])[0] for node in nodes}
    sizes = [list(part_of.values()).count(part) for part in range(parts)]
    order = rng.sample(nodes, len(nodes))
    is_noticing = {node: rng.random() < rng.choice((0.1, 0.5, 1.0)) for node in nodes}
    found: dict[int, set[int]] = {node: set() for node in nodes}
    for place, node in enumerate(order):
        ring = order[place // 5 * 5 :][:5]
        if is_noticing[node]:
            found[node] = {other for other in ring if part_of[other] != part_of[node]}
    suspicions, now = Suspicions(TIMEOUT_S, ASK_S), 10.0
    gone: set[int] = set()
    for step in range(8):
        for node in rng.sample(nodes, len(nodes)):
            if node not in gone:
                if step:
                    asked = {n for n in suspicions.disputed() if part_of[n] != part_of[node]}
                    found[node] |= asked
                suspicions.handle_report(node, found[node] - gone, now)
            now += 0.01
            suspicions.handle_timeout(now)
            for victim, _ in suspicions.convicted(now):
                suspicions.handle_gone(victim, now)
                gone.add(victim)
    assert all(sizes[part_of[node]] < max(sizes) for node in gone)


@pytest.mark.parametrize("half", [20, 70, 270])
def test_of_two_large_halves_nobody_goes_either(half: int) -> None:
    """Nodes name all who are silent to them, or so many that their word does not count.

    With a few of them named, always the first, those seemed to be reported by everybody, and
    the rest by nobody.
    """
    bench = Bench()
    conns = [bench.welcome(gms.Subscribe(1, join=("g",))) for _ in range(2 * half)]
    nodes = sorted(bench.service._watches.nodes)
    assert len(nodes) == len(conns)
    silent = [names_of(nodes[half:]), names_of(nodes[:half])]
    for _ in range(10):
        for place, conn in enumerate(conns):
            bench.say(conn, gms.Heartbeat(silent=silent[place >= half]))
        bench.run(0.5)
    assert bench.service.counters.unreached == 0


def names_of(silent: Sequence[int]) -> tuple[int, ...]:
    """Return whom a node names in its heartbeats to which so many do not answer."""
    surroundings = SimpleNamespace(
        node=1_000,
        is_failed=lambda _: False,
        address_of=lambda _: ("10.0.0.1", 1),
        control=SimpleNamespace(add=lambda _: None),
        regions=SimpleNamespace(by_name={}),
        directory=SimpleNamespace(regions={1: SimpleNamespace(members=silent, senders=())}),
    )
    silence = Silence(cast("Environment", surroundings))
    for node in silent:
        silence.handle_passed_over(node, 10.0)
    silence.handle_timeout(11.0)
    return silence.silent()
