"""Asking for messages, and giving them: a little at a time, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from quicksilver.scopes.dissemination.holdings import Holdings, Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.posts import AgentKey, DomainId, Post, Seat
from quicksilver.scopes.reliability.frames import Copies, Item, Pull
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.scopes.reliability.records import Kind, Segment
from quicksilver.scopes.reliability.repairs import (
    ITEM_MESSAGES,
    MESSAGES_ASKED_MAX,
    SENT_MAX,
    Config,
    Repairs,
)
from quicksilver.scopes.routing import begin
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

SENDER = Sender("top", "s", 1)
NAME = Name("top/x", SENDER)
DOMAIN = DomainId("top", 1)
SEATS = tuple(Seat(name, 0, name) for name in "abcd")


class Asking:
    """The agent of a, the first of four members."""

    seat = 0
    key = AgentKey(DOMAIN, "a")

    def __init__(self, protocol: str = "ring") -> None:
        self.post = Post(DOMAIN, 1, protocol, ("a",), SEATS, ("top/x",), True)
        self.below: tuple[Asking, list[Segment]] | None = None

    def offers_below(self, name: Name) -> tuple[Asking, list[Segment]] | None:
        return self.below


def packet(number: int, count: int = 1, size: int = 10) -> Packet:
    messages = tuple(b"m" * size for _ in range(count))
    return Packet.of("top/x", SENDER, number, number, 0, begin("top", "s"), {}, messages)


def make(config: Config | None = None) -> Repairs:
    return Repairs(NodeState(Holdings(10 << 20), lambda _: True), config or Config())


def pulls(repairs: Repairs) -> list[tuple[int, list[int]]]:
    found = [(member, list(pull.ranges)) for _, member, pull in repairs.pulls]
    repairs.pulls.clear()
    return found


def lack(
    repairs: Repairs, ranges: Iterable[tuple[int, int]], now: float, *, holder: int = 2
) -> list[tuple[int, list[int]]]:
    lacking = RangeSet(ranges)
    offers = [Segment(start, stop, holder) for start, stop in lacking]
    repairs.handle_lacking(Asking(), NAME, lacking, offers, now)
    return pulls(repairs)


def test_what_may_be_on_its_way_is_not_asked_for() -> None:
    repairs = make()
    assert lack(repairs, [(0, 5)], 1.0) == []
    assert lack(repairs, [(3, 8)], 1.03) == [(2, [3, 2])]


def test_it_is_asked_for_once_and_after_a_while_elsewhere() -> None:
    repairs = make(Config(grace_s=0.0, again_s=0.1))
    lack(repairs, [(0, 5)], 1.0)
    assert lack(repairs, [(0, 5)], 1.05) == []
    asked = []
    for step in range(1, 40):
        asked += [member for member, _ in lack(repairs, [(0, 5)], 1.05 + step / 20)]
    assert asked[0] != 2, "who has it was asked before"
    assert {1, 2, 3} == set(asked)
    assert 8 <= len(asked) <= 20


def test_two_agents_of_a_node_ask_once() -> None:
    repairs = make(Config(grace_s=0.0))
    other = Asking()
    other.key = AgentKey(DomainId("above", 1), "top")  # type: ignore[misc]
    for now in (1.0, 1.01):
        for asker in (Asking(), other):
            offers = [Segment(0, 5, 2)]
            repairs.handle_lacking(asker, NAME, RangeSet([(0, 5)]), offers, now)
    assert len(pulls(repairs)) == 1


def test_a_question_is_bounded() -> None:
    repairs = make(Config(grace_s=0.0))
    lack(repairs, [(0, 1 << 40)], 1.0)
    asked = lack(repairs, [(0, 1 << 40)], 2.0)
    assert [ranges for _, ranges in asked] == [[0, MESSAGES_ASKED_MAX]]


def test_the_same_is_not_sent_to_the_same_member_at_once() -> None:
    repairs = make(Config(sent_again_s=0.05))
    repairs._node.lower.take(packet(0, 10))  # type: ignore[attr-defined]
    pull = Pull("top/x", SENDER, (2, 3))
    first = repairs.handle_pull(Asking(), 1, pull, 1.0)
    assert first is not None
    assert [(p.number, p.count) for p in first.packets] == [(2, 3)]
    assert first.way == ("a",)
    assert repairs.handle_pull(Asking(), 1, pull, 1.01) is None
    assert repairs.handle_pull(Asking(), 2, pull, 1.01) is not None
    assert repairs.handle_pull(Asking(), 1, pull, 1.2) is not None


def test_answers_are_limited_in_bytes_and_in_rate() -> None:
    repairs = make(Config(answer_bytes=5_000, answer_bytes_s=10_000, sent_again_s=0.0))
    for n in range(100):
        repairs._node.lower.take(packet(n, size=600))  # type: ignore[attr-defined]
    pull = Pull("top/x", SENDER, (0, 100))
    given = 0
    for step in range(100):
        copies = repairs.handle_pull(Asking(), 1 + step % 3, pull, 1.0 + step / 100)
        if copies is not None:
            size = sum(p.size() for p in copies.packets)
            assert size <= 5_000
            given += size
    assert 8_000 <= given <= 16_000, "a second's worth, and the first burst"


def test_bad_questions_are_counted_and_not_answered() -> None:
    repairs = make()
    repairs._node.lower.take(packet(0, 10))  # type: ignore[attr-defined]
    for pull in (
        Pull("top/x", SENDER, (1,)),
        Pull("top/x", SENDER, (5, 2, 1, 2)),
        Pull("top/x", SENDER, (5, 0)),
        Pull("top/other", SENDER, (0, 5)),
    ):
        assert repairs.handle_pull(Asking(), 1, pull, 1.0) is None
    assert repairs.counters["bad_pulls"] == 4


def test_tables_are_bounded() -> None:
    repairs = make(Config(grace_s=0.0))
    for n in range(2 * SENT_MAX):
        repairs.handle_pull(Asking(), 1, Pull("top/x", Sender("s", "n", n), (0, 5)), 1.0)
    assert len(repairs._sent) <= SENT_MAX


def test_what_is_given_goes_the_way_of_a_channel_once() -> None:
    repairs = make()
    node = repairs._node.lower
    node.take(packet(0, 2))  # type: ignore[attr-defined]
    repairs.handle_copies(Asking(), 1, Copies(("b",), (packet(0, 2), packet(2, 3))))
    [(channel, taken)] = repairs.repairs
    assert (channel.scope, channel.source, channel.target) == ("top", ("b",), ("a",))
    assert (channel.topic, channel.origin) == ("top/x", "s")
    assert taken.number == 2


def test_gifts_of_other_topics_and_of_other_members_are_refused() -> None:
    repairs = make()
    strange = Packet.of("top/other", SENDER, 0, 0, 0, (), {}, (b"x",))
    repairs.handle_copies(Asking(), 1, Copies(("b",), (strange,)))
    repairs.handle_copies(Asking(), 1, Copies(("c",), (packet(0),)))
    assert not repairs.repairs
    assert repairs.counters["forged"] == 2


def test_where_all_are_asked_everybody_cuts_alike() -> None:
    """So that one question of many is enough."""
    repairs = make(Config(grace_s=0.0))
    asking = Asking("requests")
    for now in (1.0, 1.1):
        offers = [Segment(10, 200, 2)]
        repairs.handle_lacking(asking, NAME, RangeSet([(10, 200)]), offers, now)
    assert not repairs.pulls
    cuts = [(item.start, item.stop) for item in repairs.wanted(asking)]
    assert cuts == [(10, 64), (64, 128), (128, 192), (192, 200)]
    assert ITEM_MESSAGES == 64
    giver = make()
    giver._node.lower.take(packet(0, 100))  # type: ignore[attr-defined]
    assert giver.give(asking, Item("top/x", SENDER, 10, 64), 0.0) is not None
    assert giver.give(asking, Item("top/x", SENDER, 64, 128), 0.0) is None, "it has a part only"
    assert giver.give(asking, Item("top/x", SENDER, 5, 5), 0.0) is None
    assert giver.give(asking, Item("top/other", SENDER, 0, 5), 0.0) is None
    assert giver.give(asking, "book", 0.0) is None


@pytest.mark.parametrize("by_all", [False, True])
def test_who_speaks_for_a_domain_fetches_what_its_members_have(by_all: bool) -> None:
    """A node that only sends to a topic may lead, and has nothing to give by itself."""
    repairs = Repairs(NodeState(Holdings(10 << 20), lambda _: False), Config())
    asking, below = Asking(), Asking()
    below.key = AgentKey(DomainId("top", 2), "a")
    asking.below = below, [Segment(3, 8, 2)]
    item = Item("top/x", SENDER, 4, 6)
    if by_all:
        assert repairs.give(asking, item, 1.0) is None
    else:
        assert repairs.handle_pull(asking, 1, Pull("top/x", SENDER, (4, 2)), 1.0) is None
    assert list(repairs.pulls) == [(below.key, 2, Pull("top/x", SENDER, (4, 2)))]
    repairs.handle_copies(below, 2, Copies(("c",), (packet(4, 2),)))
    (given,) = (each for _, each in repairs.repairs)
    repairs._node.lower.take_fetched(given)  # type: ignore[attr-defined]
    assert repairs.give(asking, item, 1.1) is not None, "it is here when it is asked for again"
    assert repairs._node.lower.find(*NAME) is None, "the stream has not begun here"
    own = repairs._node.report(NAME, 0)
    assert own.can_give() == RangeSet([(4, 6)]), "others in the domains of this node may need it"
    assert (own.kind, own.need) == (Kind.NEUTRAL, VALUE_MAX), "and it waits for nothing"


def test_of_large_messages_as_many_are_given_as_fit() -> None:
    """Else nobody ever gets those that all are asked for at once."""
    giver = make(Config(answer_bytes=1000))
    for number in range(10):
        giver._node.lower.take(packet(number, size=400))  # type: ignore[attr-defined]
    given = giver.give(Asking("requests"), Item("top/x", SENDER, 2, 8), 0.0)
    assert given is not None
    numbers = [each.number for each in given.packets]
    assert numbers == list(range(2, 2 + len(numbers)))
    assert len(numbers) < 6
