"""Bugs that were put in on purpose: the checks of this folder find every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.management.events import Event, PeerLost
from quicksilver.scopes.posts import DomainId
from quicksilver.scopes.reliability import rounds
from quicksilver.scopes.reliability.agents import Agents, Hosted
from quicksilver.scopes.reliability.frames import Frame
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.scopes.reliability.records import Gathered, Kind, Own, Record
from quicksilver.scopes.reliability.repairs import Asker, Repairs
from tests.scopes.reliability import test_members as members
from tests.scopes.reliability.test_agreement import settle, trouble
from tests.scopes.reliability.world import TOPIC, Scope, World

Patch = pytest.MonkeyPatch


def folds_light_members_in(patch: Patch) -> None:
    report = NodeState.report
    patch.setattr(NodeState, "report", lambda *arguments: _regular(report(*arguments)))


def _regular(own: Own) -> Own:
    if own.kind is not Kind.LIGHT:
        return own
    return Own(Kind.REGULAR, own.low, own.need, own.high, own.kept, own.some, own.limit)


def forgets_the_view_number(patch: Patch) -> None:
    def broken(self: Agents, frame: Frame) -> Hosted | None:
        for hosted in self._by_domain.get(frame.domain, ()):
            if hosted.rounds.seat == frame.to and frame.origin < len(hosted.post.seats):
                return hosted
        return None

    patch.setattr(Agents, "_addressee", broken)


def counts_who_is_passed_over(patch: Patch) -> None:
    patch.setattr(
        rounds.StreamRounds, "_is_complete", lambda self, record, end: not record.is_blocked
    )


def never_answers(patch: Patch) -> None:
    patch.setattr(Repairs, "handle_pull", lambda *_: None)


def lets_stable_go_back(patch: Patch) -> None:
    learn = NodeState.learn

    def broken(self: NodeState, name: Name, stable: int, lost: int) -> None:
        if stable < self.stable(name):
            self._stable[name] = stable
            self.risen[name] = None
        learn(self, name, stable, lost)

    patch.setattr(NodeState, "learn", broken)


def speaks_for_a_domain_it_knows_nothing_of(patch: Patch) -> None:
    above = rounds.StreamRounds.report_above

    def broken(self: rounds.StreamRounds, name: Name, doubt: int) -> Own:
        own = above(self, name, doubt)
        return Own(Kind.NEUTRAL) if own.kind is Kind.UNKNOWN else own

    patch.setattr(rounds.StreamRounds, "report_above", broken)


def takes_part_of_the_members_for_all(patch: Patch) -> None:
    visit = rounds.StreamRounds.visit

    def broken(self: rounds.StreamRounds, content: Gathered, previous: int, now: float) -> Gathered:
        found = visit(self, content, previous, now)
        return Gathered(tuple(_whole(record) for record in found.records))

    patch.setattr(rounds.StreamRounds, "visit", broken)


def _whole(record: Record) -> Record:
    return msgspec.structs.replace(record, is_partial=False)


def gives_up_at_once(patch: Patch) -> None:
    patch.setattr(rounds, "LOST_ROUNDS", 1)
    patch.setattr(rounds, "LOST_S", 0.0)
    counts_who_is_passed_over(patch)


def asks_the_same_member_again_and_again(patch: Patch) -> None:
    choose = Repairs._choose

    def broken(self: Repairs, asker: Asker, due: object, offers: object, tries: int) -> object:
        return choose(self, asker, due, offers, 0)  # type: ignore[arg-type]

    patch.setattr(Repairs, "_choose", broken)


def takes_newcomers_from_the_beginning(patch: Patch) -> None:
    patch.setattr(NodeState, "_beginning", lambda self, name: 0)


def shift_of_seats() -> None:
    """What was said in an old view from a seat is somebody else's in the new one."""
    world = World(Scope("top", "star", list("abc")))
    world.publish("a", 5, reach=1.0)
    world.run(2.0)
    a, b, c = (world.nodes[name] for name in "abc")
    packet = a.publish(10, world.now)
    b.take(packet, world.now)
    c.frozen_until = world.now + 60.0
    said: list[bytes] = []
    schedule = world._schedule

    def listen(delay_s: float, origin: str, to: str, what: bytes | Event) -> None:
        if isinstance(what, bytes) and (origin, to) == ("b", "a"):
            said.append(what)
        schedule(delay_s, origin, to, what)

    world._schedule = listen  # type: ignore[method-assign]
    world.run(1.0)
    b.is_down = True
    world.arrange(delay_s=0.0)
    world.run(0.0)
    # Nothing is known yet of where the agent of c is, who has the seat of b now.
    a.agents.handle_event(PeerLost(DomainId("top", 1), "c"), world.now)
    for _ in range(20):
        world.run(0.02)
        for data in said:
            a.agents.handle_message("b", data, world.now)
    assert a.agents.state.stable(Name(TOPIC, a.sender)) == 5


def holder_falls_silent() -> None:
    """Who is said to have something does not answer, and others do."""
    world = World(Scope("top", "ring", list("abcd")))
    world.run(0.2)
    deaf = world.nodes["d"].agents.repairs
    deaf.handle_pull = lambda *_: None  # type: ignore[method-assign,assignment]
    deaf.give = lambda *_: None  # type: ignore[method-assign,assignment]
    world.publish("b", 5, reach=1.0)
    packet = world.nodes["b"].publish(5, world.now)
    world.nodes["d"].take(packet, world.now)
    settle(world, 3.0)


def settle_after_loss() -> None:
    world = World(Scope("top", "ring", list("abc")))
    world.publish("a", 10, reach=0.0)
    settle(world, 3.0)


def trouble_with_hosts() -> None:
    trouble(4)


@dataclass(frozen=True)
class Planted:
    plant: Callable[[Patch], None]
    find: Callable[[], None]


BUGS = [
    Planted(folds_light_members_in, members.test_who_catches_up_holds_up_nobody_until_it_has),
    Planted(forgets_the_view_number, shift_of_seats),
    Planted(
        counts_who_is_passed_over,
        lambda: members.test_a_silent_member_is_waited_for_until_its_manager_gives_it_up("ring"),
    ),
    Planted(never_answers, settle_after_loss),
    Planted(lets_stable_go_back, trouble_with_hosts),
    Planted(speaks_for_a_domain_it_knows_nothing_of, trouble_with_hosts),
    Planted(takes_part_of_the_members_for_all, trouble_with_hosts),
    Planted(gives_up_at_once, members.test_what_a_silent_node_may_have_is_not_given_up),
    Planted(asks_the_same_member_again_and_again, holder_falls_silent),
    Planted(
        takes_newcomers_from_the_beginning,
        lambda: members.test_a_newcomer_begins_at_what_is_stable("star"),
    ),
]


# Those of ``test_members`` and seed 4 of ``test_agreement`` are tests of their own.
@pytest.mark.slow
@pytest.mark.parametrize("find", [shift_of_seats, holder_falls_silent, settle_after_loss])
def test_without_the_bug_all_is_well(find: Callable[[], None]) -> None:
    find()


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_a_planted_bug_is_found(bug: Planted, monkeypatch: Patch) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        bug.find()
