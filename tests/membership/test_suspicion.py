"""Who is excluded because peers cannot reach him, and who is not."""

from __future__ import annotations

from itertools import permutations

from quicksilver.membership.suspicion import Suspicions

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
