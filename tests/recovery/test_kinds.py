"""Agents of every kind hold the same rounds, alone and above each other."""

from __future__ import annotations

from collections import Counter
from itertools import product

import msgspec
import pytest

from quicksilver.recovery.gathering import GatheringAgent
from quicksilver.recovery.pacing import Following
from quicksilver.recovery.rounds import Receipt, Report, Token, Wake
from tests.recovery import minimum
from tests.recovery.minimum import KINDS, TIMING, World

OTHERS = tuple(kind for kind in KINDS if kind != "ring")

MIXTURES = [*product(KINDS, KINDS), ("gossip", "tree", "star"), ("requests", "ring", "gossip")]


@pytest.mark.parametrize("members", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("kind", OTHERS)
def test_every_member_learns_the_minimum(kind: str, members: int) -> None:
    values = [100 + 7 * n % 61 for n in range(members)]
    world = World(values, size=7, kinds=[kind])
    world.run(2.0)
    assert world.answers() == {min(values)}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", MIXTURES, ids="-".join)
def test_kinds_nest_in_any_mixture(kinds: tuple[str, ...]) -> None:
    """How peers talk is the business of each domain: its neighbours do not notice."""
    values = [60 + 7 * n % 61 for n in range(30)]
    world = World(values, size=4, kinds=kinds)
    world.run(3.0)
    assert world.answers() == {min(values)}
    world.members[17].is_down = True
    world.fail(17)
    world.members[23].value = 1
    world.run(3.0)
    assert world.answers() == {1}


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.05, 0.3])
@pytest.mark.parametrize("kind", OTHERS)
def test_loss_costs_time_and_not_the_result(kind: str, loss: float) -> None:
    """Rounds go on all the time, and what changes in the middle of it is agreed on."""
    world = World([n + 10 for n in range(12)], size=12, loss=loss, kinds=[kind])
    world.run(5.0)
    assert world.answers() == {10}
    numbers = [member.announced[0] for member in world.members.values()]
    assert min(numbers) > 10, "complete rounds, with nobody passed over"
    world.members[12].value = 3
    world.run(5.0)
    assert world.answers() == {3}


@pytest.mark.parametrize("gone", [(1,), (2,), (1, 2), (2, 3, 5), (7,)])
@pytest.mark.parametrize("kind", OTHERS)
def test_a_crash_takes_the_value_of_the_dead_out(kind: str, gone: tuple[int, ...]) -> None:
    """Leaders, inner nodes and leaves of a tree, before and after the membership says so."""
    world = World(list(range(1, 11)), size=10, kinds=[kind])
    world.run(1.0)
    assert world.answers() == {1}
    for node in gone:
        world.members[node].is_down = True
    world.run(1.0)
    world.fail(*gone)
    world.run(2.0)
    assert world.answers() == {min(set(range(1, 11)) - set(gone))}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_silent_member_is_passed_over_until_it_is_back(kind: str) -> None:
    """Until the membership changes, nobody may agree without it."""
    world = World([5, 6, 1, 7, 8, 9, 10], size=7, kinds=[kind])
    world.run(1.0)
    world.members[3].is_down = True
    world.members[2].value = 2
    world.run(2.0)
    leader = world.members[1].stack.agents[0]
    assert isinstance(leader, GatheringAgent)
    assert leader.suspects == {3}
    assert world.answers() == {1}
    world.members[3].is_down = False
    world.members[3].value = 9
    world.run(2.0)
    assert leader.suspects == set()
    assert world.answers() == {2}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_follower_stands_in_for_a_silent_leader_until_it_is_back(kind: str) -> None:
    world = World([5, 6, 7, 8], size=4, kinds=[kind])
    world.run(1.0)
    world.members[1].is_down = True
    for node in (2, 3, 4):
        world.members[node].stack.handle_news(world.now)
    before = world.members[2].tokens_released
    world.run(3.0)
    acting = world.members[2].stack.agents[0]
    assert isinstance(acting, GatheringAgent)
    assert not isinstance(acting.state, Following)
    assert world.members[2].tokens_released > before + 10
    assert isinstance(world.members[3].stack.agents[0].state, Following)  # type: ignore[attr-defined]
    world.members[1].is_down = False
    world.run(2.0)
    assert isinstance(acting.state, Following)
    world.members[4].value = 1
    world.run(2.0)
    assert world.answers() == {1}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_leader_with_no_news_of_its_own_takes_its_place_back(kind: str) -> None:
    """Else whoever stands in would pass over it for ever, and nothing would be agreed on."""
    world = World([5, 6, 7], size=3, kinds=[kind])
    world.run(1.0)
    world.members[1].is_down = True
    world.run(2.0)
    leader = world.members[1]
    leader.is_down = False
    leader.stack = type(leader.stack)()
    world.place()
    world.members[3].value = 1
    world.run(3.0)
    assert world.answers() == {1}


def rounds_and_messages(kind: str, members: int) -> tuple[float, Counter[int]]:
    """Return how many rounds were held, and what each member sent, without loss."""
    world = World(list(range(members)), size=members, kinds=[kind])
    world.run(1.0)
    world.sent.clear()
    begun = world.members[1].tokens_released
    world.run(5.0)
    return world.members[1].tokens_released - begun, world.sent


@pytest.mark.slow
def test_what_a_round_costs_each_member() -> None:
    """Ring: one message of each. Star: all of them at the leader. Tree: the fan-out, a report
    and a receipt, however many members. Requests: one to all, of each."""
    n = 31
    rounds, sent = rounds_and_messages("ring", n)
    assert max(sent.values()) / rounds <= 1.05
    rounds, sent = rounds_and_messages("star", n)
    assert n - 1.5 <= sent[1] / rounds <= n - 0.5
    assert max(count for node, count in sent.items() if node != 1) / rounds <= 1.05
    rounds, sent = rounds_and_messages("tree", n)
    assert max(sent.values()) / rounds <= 2 + 1 + 1.05
    assert sent[1] / rounds <= 2.1
    rounds, sent = rounds_and_messages("requests", n)
    assert max(sent.values()) / rounds <= 1.05


@pytest.mark.slow
@pytest.mark.parametrize("members", [15, 40])
def test_gossip_costs_each_member_its_fanout_at_each_interval(members: int) -> None:
    """However many there are; the leader also asks those again that it does not hear of."""
    world = World(list(range(members)), size=members, kinds=["gossip"])
    world.run(1.0)
    world.sent.clear()
    world.run(4.0)
    intervals = 4.0 / TIMING.trouble_interval_s
    others = [count for node, count in world.sent.items() if node != 1]
    assert max(others) <= 2 * (intervals + 2)
    assert world.sent[1] <= 4 * intervals


def test_a_tree_goes_around_a_silent_parent_in_the_same_round() -> None:
    """Its children answer its parent: only the silent one is passed over."""
    world = World(list(range(15)), size=15, kinds=["tree"])
    world.run(1.0)
    world.members[2].is_down = True
    world.run(2.0)
    leader = world.members[1].stack.agents[0]
    assert isinstance(leader, GatheringAgent)
    assert leader.suspects == {2}
    assert world.members[1].roll_calls == 1, "nobody else was ever passed over"


@pytest.mark.parametrize("kind", OTHERS)
def test_what_a_liar_or_a_former_peer_says_does_no_harm(kind: str) -> None:
    """Rounds that nobody began, leaders that are none, members that are none."""
    world = World([5, 6, 7], size=3, kinds=[kind])
    world.run(0.5)
    for member in world.members.values():
        stack = member.stack
        content = stack.agents[0].rounds.open_round(world.now)
        for leader, round_ in product((1, 2, 3), (0, 5, 1 << 40)):
            stack.handle_token(Token((0, 0), round_, leader, 2, (), content), world.now)
            stack.handle_token(Token((0, 0), round_, leader, 2, (9,), None), world.now)
            stack.handle_message(Report((0, 0), round_, leader, 3, (77,), content), world.now)
            stack.handle_receipt(Receipt((0, 0), 99, leader, round_), world.now)
        stack.handle_wake(Wake((0, 0), 3), world.now)
    world.members[3].value = 1
    world.run(3.0)
    assert world.answers() == {1}


@pytest.mark.parametrize("kind", ["ring", "star"])
def test_rounds_that_take_longer_than_is_waited_for_are_learnt_of(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members are far apart: else all are passed over and called back, for ever."""
    monkeypatch.setattr(minimum, "DELAY_S", 0.06)
    for learns_late in (False, True):
        timing = msgspec.structs.replace(
            minimum.TIMING, timeout_s_max=2.0, learns_late=learns_late, in_flight_max=1
        )
        monkeypatch.setattr(minimum, "TIMING", timing)
        world = World([5, 6, 7, 8, 9, 10], size=6, kinds=[kind])
        world.run(6.0)
        world.members[4].value = 1
        world.run(4.0)
        assert (world.answers() == {1}) == learns_late
