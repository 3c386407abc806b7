"""Who may be a member, who is one still, and what a manager keeps of them."""

from __future__ import annotations

from msgspec.structs import replace

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.domains import SEATS_BYTES_MAX
from quicksilver.scopes.management.events import MemberGone, TopicLeft
from quicksilver.scopes.management.members import STRANGERS_MAX
from quicksilver.scopes.management.topics import Part
from tests.scopes.peers import Alone

WANTS = say.Subscribe("lan/t", 1, publishes=True, subscribes=True)
NOTHING = say.Subscribe("lan/t", 1, publishes=False, subscribes=False)


class TestStrangers:
    def test_who_never_says_what_for_is_put_out(self) -> None:
        lan = Alone("lan")
        lan.manager.handle_accepted(1, 0.0)
        lan.run(4.0)
        (refused,) = lan.heard(1)
        assert isinstance(refused, say.Refused)
        assert lan.closed == [1]

    def test_idle_strangers_keep_nobody_out(self) -> None:
        lan = Alone("lan")
        for conn in range(STRANGERS_MAX):
            lan.manager.handle_accepted(conn, 0.0)
        lan.join(9_999, "a")
        assert isinstance(lan.heard(9_999)[0], say.Registered)
        assert lan.closed == [0], "the oldest"

    def test_a_connection_that_is_refused_is_ended_after_it_was_told(self) -> None:
        lan = Alone("lan")
        lan.join(1, "lan")
        assert isinstance(lan.heard(1)[0], say.Refused)
        assert lan.closed == [1]


class TestSilence:
    def test_a_silent_scope_has_its_grace(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a", grace_s=30.0)
        lan.tell(1, WANTS)
        lan.run(10.0)
        assert lan.closed == [1]
        assert not any(isinstance(event, MemberGone) for event in lan.events)
        assert list(lan.manager.topics()[0].parts) == ["a"]
        lan.run(30.0)
        (gone,) = [event for event in lan.events if isinstance(event, MemberGone)]
        assert "silent for 3 s" in gone.reason
        assert lan.manager.topics() == []

    def test_nobody_takes_the_place_of_a_member_that_is_there(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a")
        lan.run(5.0, 1)
        lan.join(2, "a")
        assert isinstance(lan.heard(2)[0], say.Refused)
        assert lan.closed == [2]

    def test_who_starts_again_takes_the_place_of_its_silent_connection(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a")
        lan.run(2.0)
        lan.join(2, "a")
        assert isinstance(lan.heard(2)[0], say.Registered)
        assert lan.closed == [1]
        lan.tell(1, WANTS)
        assert lan.manager.counters["unexpected"] == 1
        assert lan.manager.topics() == []

    def test_a_member_may_be_forgotten_together_with_what_it_wanted(self) -> None:
        """Both deadlines are due when the host calls late."""
        lan = Alone("lan")
        lan.join(1, "a")
        manager = lan.manager
        manager.handle_closed(1, 0.1)
        manager.handle_accepted(2, 0.2)
        hello = say.Register(say.PROTOCOL_VERSION, "a", "a", is_member=True, grace_s=0.5)
        manager.handle_message(2, hello, 0.2)
        manager.handle_closed(2, 2.65)
        manager.handle_timeout(3.3)
        lan.drain()
        assert MemberGone("a", "its connection ended") in lan.events


class TestParts:
    def test_only_topics_that_a_member_takes_part_in_are_remembered(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a")
        for number in range(100):
            lan.tell(1, say.Subscribe(f"bad name {number}", 1, publishes=True, subscribes=True))
        lan.tell(1, WANTS)
        member = lan.manager._members.by_name["a"]
        assert member.confirmed == {"lan/t"}
        lan.tell(1, NOTHING)
        assert (member.confirmed, member.told) == (set(), {})

    def test_a_member_that_comes_back_as_a_client_is_one(self) -> None:
        lan = Alone("lan")
        lan.join(1, "a")
        lan.tell(1, WANTS)
        lan.manager.handle_closed(1, lan.now)
        lan.join(2, "a", is_member=False)
        (topic,) = lan.manager.topics()
        assert not topic.parts["a"].is_member
        assert topic.party_of("a") is None

    def test_a_view_that_fits_no_frame_takes_nobody_in(self) -> None:
        lan = Alone("lan")
        lan.join(0, "a")
        lan.tell(0, WANTS)
        (topic,) = lan.manager.topics()
        name = "x" * 196
        for number in range(SEATS_BYTES_MAX // (200 + 200 + 24)):
            each = f"{name}{number:04}"
            assert topic.has_room(each, each)
            topic.handle_part(each, Part(1, publishes=False, subscribes=True), each)
        lan.join(1, name)
        lan.tell(1, WANTS)
        refused = lan.heard(1)[-1]
        assert isinstance(refused, say.TopicRefused)
        assert "divide" in refused.reason

    def test_many_changes_are_worked_out_once(self) -> None:
        """Else a scope of many members takes time that grows with their square."""
        lan = Alone("lan")
        for conn in range(50):
            lan.join(conn, f"n{conn}")
        lan.clear()
        for conn in range(50):
            lan.manager.handle_message(conn, WANTS, lan.now)
        lan.drain()
        assert lan.said == []
        lan.run(0.02)
        kinds = [type(message) for _, message in lan.said]
        assert kinds.count(say.Orders) == 50


def test_a_node_that_leaves_a_topic_says_so() -> None:
    node = Alone("n1", "lan", is_node=True)
    node.own("lan", 1)
    node.manager.subscribe("lan/t", publishes=True, subscribes=True, now=node.now)
    node.run(0.02)
    node.manager.subscribe("lan/t", publishes=False, subscribes=False, now=node.now)
    node.run(0.02)
    assert node.events[-1] == TopicLeft("lan/t")
    assert node.heard(1)[-1] == replace(NOTHING, domain=0)
