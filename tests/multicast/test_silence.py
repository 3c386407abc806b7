"""How often a member is asked whether it is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.repair.silence import HAIL_S_MAX, Silence
from quicksilver.wire.control import Hail


class Asking:
    """A node that asks others; ``hails`` counts how often it did."""

    def __init__(self, *known: int) -> None:
        self.hails = 0
        self.now = 10.0
        self.regions = {1: SimpleNamespace(members=known, senders=frozenset())}
        """The region views that the node knows."""
        self.ended: list[str] = []
        self.surroundings = SimpleNamespace(
            node=1,
            config=EngineConfig(),
            heard_at={},
            drained_at=0.0,
            end_incarnation=self.ended.append,
            is_failed=lambda _: False,
            address_of=lambda node: ("10.0.0.1", node) if node in known else None,
            control=SimpleNamespace(add=self._count),
            regions=SimpleNamespace(by_name={}),
            directory=SimpleNamespace(regions=self.regions),
        )
        self.silence = Silence(cast("Environment", self.surroundings))

    def _count(self, _: object) -> None:
        self.hails += 1

    def run(self, seconds: float) -> int:
        """Let time pass; return how often somebody was asked."""
        before, end = self.hails, self.now + seconds
        while (due := self.silence.next_timeout()) is not None and due <= end:
            self.now = max(self.now, due)
            self.silence.handle_timeout(self.now)
        self.now = end
        return self.hails - before


def test_a_link_that_stays_broken_is_tried_less_and_less_often() -> None:
    asking = Asking(2)
    asking.silence.handle_passed_over(2, asking.now)
    assert asking.run(1.0) == 4
    asking.run(20.0)
    assert asking.silence.silent() == (2,)
    assert asking.run(600.0) <= 600.0 / HAIL_S_MAX + 1


def test_whom_the_gms_is_about_to_judge_is_asked_at_once_again() -> None:
    """What was found out long ago may be over."""
    asking = Asking(2)
    asking.silence.handle_passed_over(2, asking.now)
    asking.run(60.0)
    asking.silence.handle_disputed((2,), asking.now)
    assert asking.run(0.25) == 1
    asking.silence.handle_hail(Hail(1, 2, True), asking.now)
    assert asking.silence.silent() == ()


def test_who_was_not_noticed_is_asked_for_the_gms() -> None:
    asking = Asking(2)
    asking.silence.handle_disputed((1, 2, 3), asking.now)
    assert asking.run(0.05) == 1, "not this node itself, nor one whose address is unknown"
    asking.run(1.0)
    assert asking.silence.silent() == (2,)


def test_whoever_has_moved_away_is_asked_no_more() -> None:
    """It may not know the node that asks any more, and could not answer."""
    asking = Asking(2)
    asking.silence.handle_passed_over(2, asking.now)
    asking.run(1.0)
    assert asking.silence.silent() == (2,)
    asking.regions.clear()
    assert asking.run(10.0) == 0
    assert asking.silence.silent() == ()


class TestDoubt:
    """Whether anybody hears a node, whose packets an old view does not acknowledge."""

    def ask(self, asking: Asking, answering: tuple[int, ...] = (), *, reads: bool = True) -> bool:
        """Doubt for some seconds while some answer; return whether the node begins again."""
        since = asking.now
        for _ in range(20):
            if reads:
                asking.surroundings.drained_at = asking.now
            asking.silence.handle_unacknowledged(since, asking.now)
            for node in answering:
                asking.silence.handle_hail(Hail(1, node, True), asking.now)
            asking.run(0.25)
        return bool(asking.ended)

    def test_whom_nobody_answers_begins_again(self) -> None:
        assert self.ask(Asking(1, 2, 3, 4))

    def test_one_answer_suffices_to_go_on(self) -> None:
        """The others are cut off, not this node."""
        assert not self.ask(Asking(1, 2, 3, 4), answering=(3,))

    def test_of_two_alone_nobody_knows_who_is_mute(self) -> None:
        assert not self.ask(Asking(1, 2))

    def test_those_who_were_silent_before_prove_nothing(self) -> None:
        """An old view may have got the rest of a large message only now: ask others first."""
        asking = Asking(1, 2, 3, 4, 5)
        for node in (2, 3):
            asking.silence.handle_passed_over(node, asking.now)
        asking.run(10.0)
        asking.surroundings.drained_at = asking.now
        asking.silence.handle_unacknowledged(0.0, asking.now)
        asking.run(0.1)
        asking.surroundings.drained_at = asking.now
        asking.silence.handle_unacknowledged(0.0, asking.now)
        assert asking.ended == []

    def test_answers_may_wait_to_be_read(self) -> None:
        """A node that stood still must not take its own silence for that of others."""
        assert not self.ask(Asking(1, 2, 3, 4), reads=False)

    def test_who_was_heard_last_is_asked_first(self) -> None:
        """Of many members only a few are asked: those who are likely to answer."""
        asking = Asking(*range(1, 101))
        asking.surroundings.heard_at = {70: 9.0}
        assert not self.ask(asking, answering=(70,))
        asking = Asking(*range(1, 101))
        assert self.ask(asking, answering=(70,)), "not among those who were asked"
