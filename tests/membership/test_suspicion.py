"""Who is excluded because peers cannot reach him, and who is not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from quicksilver.membership.suspicion import Suspicions
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.repair.silence import Silence
from quicksilver.wire import gms
from tests.membership.bench import Bench

TIMEOUT_S = 3.0


def accuse(*pairs: tuple[int, tuple[int, ...]]) -> Suspicions:
    """Return what follows from reports that all came at once, at 10 s."""
    suspicions = Suspicions(TIMEOUT_S)
    for reporter, named in pairs:
        suspicions.handle_report(reporter, named, 10.0)
    return suspicions


def convicted(suspicions: Suspicions, now: float = 10.0 + TIMEOUT_S) -> list[int]:
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
    assert convicted(suspicions, 1000.0) == []
    suspicions.handle_report(2, (9,), 20.0)
    assert convicted(suspicions, 22.9) == [], "the time begins anew"
    assert convicted(suspicions, 23.0) == [9]


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


def test_what_counts_is_what_all_reports_say_together() -> None:
    """The books are kept report by report; here they are compared with a count of all."""
    rng = Random(5)
    for _ in range(50):
        suspicions, reports = Suspicions(TIMEOUT_S), dict[int, set[int]]()
        for _ in range(30):
            node = rng.randrange(8)
            if rng.random() < 0.1:
                suspicions.handle_gone(node, 10.0)
                reports = {r: named - {node} for r, named in reports.items() if r != node}
            else:
                reports[node] = {n for n in range(8) if n != node and rng.random() < 0.3}
                suspicions.handle_report(node, reports[node], 10.0)
            accusers = {n: {r for r, named in reports.items() if n in named} for n in range(8)}
            for n, all_of_them in accusers.items():
                counting = sorted(r for r in all_of_them if len(accusers[r]) < len(all_of_them))
                assert suspicions.reporters_of(n) == counting
            assert convicted(suspicions) == [
                n for n in range(8) if len(suspicions.reporters_of(n)) >= 2
            ]


@pytest.mark.parametrize("half", [20, 70])
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
    )
    silence = Silence(cast("Environment", surroundings))
    for node in silent:
        silence.handle_passed_over(node, 10.0)
    silence.handle_timeout(11.0)
    return silence.silent()
