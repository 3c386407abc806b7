"""The judge of a soak finds what was promised and lost, and accuses nobody wrongly."""

from __future__ import annotations

import pytest

from quicksilver.lab.soak.judge import FORGET_S, GRACE_S, Judge
from quicksilver.lab.soak.records import Begun, Heard, Joined, Left, Round

SENDER, MEMBER = (0, 0), (1, 0)
GROUP = "soak-0001"
LATE = 2.0 + GRACE_S
"""When what was confirmed at 2 s is due."""


def begin(judge: Judge) -> None:
    judge.handle_begun(SENDER, Begun(node=10, at=0.0))
    judge.handle_begun(MEMBER, Begun(node=11, at=0.0))


def confirm(judge: Judge, *, problem: str = "", members: tuple[int, ...] = (11,)) -> None:
    """The sender sends 0 to 9 from 1 s on, and its flush ends at 2 s."""
    judge.handle_round(
        SENDER,
        Round(
            epoch=0,
            at=1.0,
            ended_at=2.0,
            problem=problem,
            runs={GROUP: (0, 10)},
            members={GROUP: list(members)},
        ),
    )


def hear(
    judge: Judge, at: float, *runs: tuple[int, int], node: int = 11, by: int | None = None
) -> None:
    """The member, as incarnation ``node``, tells what incarnation ``by`` delivered."""
    judge.handle_heard(
        MEMBER,
        Heard(
            node=node,
            at=at,
            runs=[(node if by is None else by, 0, 0, 0, GROUP, *run) for run in runs],
            problems=[],
            messages=0,
            exclusions=0,
        ),
    )


def test_what_was_delivered_is_settled() -> None:
    judge = Judge()
    begin(judge)
    confirm(judge)
    hear(judge, 1.5, (0, 4))
    hear(judge, LATE, (4, 10))
    assert judge.violations == []
    assert judge.settled == {"delivered": 1}
    assert judge.open_debts() == 0
    assert judge.confirmed == 10


@pytest.mark.parametrize(
    ("runs", "lacking"),
    [([], "(0, 10)"), ([(0, 9)], "(9, 10)"), ([(0, 3), (5, 10)], "(3, 5)")],
    ids=["nothing", "no tail", "a hole"],
)
def test_what_was_confirmed_and_not_delivered_is_a_violation(
    runs: list[tuple[int, int]], lacking: str
) -> None:
    """The reason for the soak: ``flush`` must not vouch for what a member lacks."""
    judge = Judge()
    begin(judge)
    confirm(judge)
    hear(judge, LATE, *runs)
    (violation,) = judge.violations
    assert "worker 0.0" in violation
    assert "worker 1.0" in violation
    assert lacking in violation


def test_nothing_is_judged_before_it_is_due() -> None:
    judge = Judge()
    begin(judge)
    confirm(judge)
    hear(judge, LATE - 0.1)
    assert judge.violations == []
    assert judge.open_debts() == 1


def test_what_a_flush_did_not_vouch_for_is_owed_to_nobody() -> None:
    judge = Judge()
    begin(judge)
    confirm(judge, problem="ExcludedError: counted out")
    hear(judge, LATE)
    assert judge.violations == []
    assert judge.unconfirmed == 10
    assert judge.problems == {"ExcludedError": 1}


def test_a_member_that_was_killed_is_owed_nothing() -> None:
    judge = Judge()
    begin(judge)
    confirm(judge)
    judge.handle_gone(MEMBER, 3.0)
    judge.conclude()
    assert judge.violations == []
    assert judge.settled["ended"] == 1


def test_a_member_that_was_counted_out_is_owed_nothing() -> None:
    """Its next incarnation was not in the view."""
    judge = Judge()
    begin(judge)
    confirm(judge)
    hear(judge, LATE, node=12)
    judge.conclude()
    assert judge.violations == []


def test_an_incarnation_between_two_words_is_owed_nothing() -> None:
    """It was counted out twice before it spoke: 12 was never the present one."""
    judge = Judge()
    begin(judge)
    confirm(judge, members=(11, 12))
    hear(judge, LATE, (0, 2), node=13, by=12)
    judge.conclude()
    assert judge.violations == []


def test_a_member_that_left_meanwhile_is_owed_nothing() -> None:
    judge = Judge()
    begin(judge)
    confirm(judge)
    judge.handle_left(MEMBER, Left(at=2.5, groups=[GROUP]))
    hear(judge, LATE)
    assert judge.violations == []
    assert judge.settled == {"left": 1}


def test_a_member_that_left_and_is_still_in_views_is_owed_nothing() -> None:
    """While the GMS is down nobody else hears of the leave."""
    judge = Judge()
    begin(judge)
    judge.handle_left(MEMBER, Left(at=0.5, groups=[GROUP]))
    confirm(judge)
    judge.handle_joined(MEMBER, Joined(at=1.5, groups=[GROUP]))
    hear(judge, LATE)
    assert judge.violations == []


def test_a_member_that_was_back_before_is_owed_it() -> None:
    judge = Judge()
    begin(judge)
    judge.handle_left(MEMBER, Left(at=0.5, groups=[GROUP]))
    judge.handle_joined(MEMBER, Joined(at=0.9, groups=[GROUP]))
    confirm(judge)
    hear(judge, LATE)
    assert len(judge.violations) == 1


def test_a_member_that_left_long_after_or_another_group_is_owed_it() -> None:
    judge = Judge()
    begin(judge)
    judge.handle_left(MEMBER, Left(at=1.5, groups=["soak-0002"]))
    judge.handle_left(MEMBER, Left(at=LATE + 1, groups=[GROUP]))
    confirm(judge)
    hear(judge, LATE + 2)
    assert len(judge.violations) == 1


def test_a_flush_that_is_told_before_its_member_counts() -> None:
    """Processes speak through pipes of their own, in any order."""
    judge = Judge()
    judge.handle_begun(SENDER, Begun(node=10, at=0.0))
    confirm(judge)
    hear(judge, LATE, (0, 9))
    assert len(judge.violations) == 1


def test_in_the_end_all_debts_are_due() -> None:
    judge = Judge()
    begin(judge)
    hear(judge, 1.0)
    confirm(judge)
    judge.conclude()
    assert len(judge.violations) == 1


def test_what_workers_found_themselves_is_a_violation() -> None:
    judge = Judge()
    judge.handle_heard(
        MEMBER,
        Heard(node=11, at=1.0, runs=[], problems=["it came twice"], messages=1, exclusions=0),
    )
    assert judge.violations == ["worker 1.0: it came twice"]


def test_lives_that_ended_long_ago_take_no_memory() -> None:
    """A soak of hours has thousands of them."""
    judge = Judge()
    begin(judge)
    hear(judge, 1.0, (0, 10))
    judge.handle_gone(SENDER, 2.0)
    judge.handle_time(2.0 + FORGET_S + 1)
    confirm(judge)
    hear(judge, LATE)
    assert len(judge.violations) == 1, "what was delivered is forgotten"
