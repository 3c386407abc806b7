"""What a node fetches for others is kept apart from what it has for itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.holdings import STABLE_SHARE, Holdings
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.events import TopicLeft
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import RangeSet

T = "P/T"
A = Sender("P", "A", 1)
ALL = RangeSet([(0, 100)])


def run(first: int, stop: int, sender: Sender = A) -> Packet:
    messages = tuple(b"%d" % number for number in range(first, stop))
    return Packet.of(T, sender, first, 7, 0, (Entry("P", sender.node, "B"),), {}, messages)


def numbers(packets: list[Packet]) -> list[int]:
    return [int(message) for packet in packets for message in packet.split()]


def here(holdings: Holdings) -> list[int]:
    return numbers(holdings.copies(T, A, ALL, 1 << 20))


class TestHoldings:
    def test_what_was_fetched_can_be_given_and_is_not_had(self) -> None:
        """Whoever joins later begins as if nothing had come (the plan
        who-has-fetched-for-others-lacks-the-rest)."""
        holdings = Holdings(1 << 20)
        assert numbers(holdings.take_fetched(run(40, 50))) == list(range(40, 50))
        assert here(holdings) == list(range(40, 50))
        assert holdings.find(T, A) is None
        assert holdings.begin(T, A, 70).low == 70

    def test_one_that_began_late_can_fetch_what_comes_before_and_no_more(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.begin(T, A, 50)
        holdings.take(run(50, 60))
        assert holdings.never_here(T, A, ALL) == RangeSet([(0, 50), (60, 100)])
        assert numbers(holdings.take_fetched(run(45, 55))) == list(range(45, 50))
        assert numbers(holdings.take_fetched(run(40, 48))) == list(range(40, 45))
        assert holdings.never_here(T, A, ALL) == RangeSet([(0, 40), (60, 100)])
        assert here(holdings) == list(range(40, 60))

    def test_messages_that_are_passed_over_were_never_here(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.begin(T, A, 0)
        holdings.skip(T, A, 30)
        assert holdings.never_here(T, A, RangeSet([(0, 30)])) == RangeSet([(0, 30)])

    def test_a_stream_that_begins_earlier_than_was_known_is_had_from_there(self) -> None:
        """What was fetched of it comes again, as messages for this node."""
        holdings = Holdings(1 << 20)
        holdings.begin(T, A, 50)
        holdings.take_fetched(run(40, 50))
        holdings.begin(T, A, 45)
        assert (holdings.bytes, here(holdings)) == (0, [])
        assert numbers(holdings.take(run(45, 50)).ready) == list(range(45, 50))

    def test_who_leaves_forgets_what_it_has_fetched(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.take_fetched(run(0, 5))
        holdings.forget_topic(T)
        assert (holdings.bytes, here(holdings)) == (0, [])

    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=40))
    def test_it_takes_a_share_of_the_budget_the_oldest_go_first(
        self, spans: list[tuple[int, int]]
    ) -> None:
        holdings = Holdings(run(0, 1).size() * 80)
        came: list[int] = []
        for first, count in spans:
            came += numbers(holdings.take_fetched(run(first, first + count)))
            found = here(holdings)
            assert set(found) == set(came[-len(found) :] if found else [])
            assert found == sorted(found)
            packets = holdings.copies(T, A, ALL, 1 << 20)
            assert holdings.bytes == sum(packet.size() for packet in packets)
            assert holdings.bytes <= holdings.bytes_max // STABLE_SHARE
            missing = RangeSet([(0, 100)])
            for number in found:
                missing.discard(number, number + 1)
            assert holdings.never_here(T, A, ALL) == missing


class TestForwarder:
    def test_a_sender_that_came_back_fetches_its_own_messages(self) -> None:
        """It has left the topic and has no copies any more; others may ask it for them, and some
        of those that it speaks for have them."""
        one = Forwarder(scope="P", node="A", life=1, copies_bytes_max=1 << 20)
        one.publish(T, [b"%d" % number for number in range(5)], None, 0.0)
        assert one.poll_arrived()
        one.handle_event(TopicLeft(T))
        one.publish(T, [b"5"], None, 0.0)
        assert one.poll_arrived()
        assert here(one.holdings) == [5]
        way = Channel("P", ("B",), ("A",), T, "A")
        back = run(0, 5).moved((Entry("P", "A", "B"),))
        assert one.holdings.never_here(T, A, ALL).clamped(0, 6) == RangeSet([(0, 5)])
        assert one.handle_repair(way, back, 0.0)
        assert here(one.holdings) == [0, 1, 2, 3, 4, 5]
        assert one.poll_delivery() is None
        assert not one.handle_repair(way, back, 0.0), "they are here"

    def test_before_it_publishes_again_it_knows_which_are_its_own(self) -> None:
        one = Forwarder(scope="P", node="A", life=1, copies_bytes_max=1 << 20)
        way = Channel("P", ("B",), ("A",), T, "A")
        back = run(0, 5).moved((Entry("P", "A", "B"),))
        assert not one.handle_repair(way, back, 0.0), "it has not sent any"
        one.publish(T, [b"x"] * 3, None, 0.0)
        assert one.poll_arrived()
        one.handle_event(TopicLeft(T))
        assert one.handle_repair(way, back, 0.0)
        assert here(one.holdings) == [0, 1, 2], "it has not sent more"
