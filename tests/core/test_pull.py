"""The pull stack: nothing is made before it can leave, and the urgent leaves first."""

from __future__ import annotations

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import (
    RatePolicy,
    Sink,
    WindowPolicy,
)

HERE = ("10.0.0.1", 7000)


class Counting:
    """A feed with a number of packets; counts how often it was asked."""

    def __init__(self, name: str, packets: int, size: int = 10) -> None:
        self.name = name
        self.left = packets
        self.size = size
        self.asked = 0

    def poll(self, now: float) -> Transmit | None:
        self.asked += 1
        if not self.left:
            return None
        self.left -= 1
        return Transmit(HERE, [self.name.encode().ljust(self.size)])


def drain(sink: Sink, now: float = 0.0) -> list[str]:
    """Poll until there is nothing; return who was served, in order."""
    served = []
    while (transmit := sink.poll(now)) is not None:
        served.append(transmit.packets[0].decode().strip())
    return served


class TestSink:
    """Order, registration and laziness."""

    def test_nothing_is_created_before_the_sink_is_polled(self) -> None:
        """Feeds "do not create their messages at the time of registering" (4.2.2)."""
        sink = Sink()
        feed = Counting("a", 1)
        sink.register(feed)
        assert feed.asked == 0
        assert len(sink) == 1
        sink.poll(0.0)
        assert feed.asked == 1

    def test_an_empty_sink_has_nothing(self) -> None:
        """A socket that is ready and has no feeds stays silent."""
        assert Sink().poll(0.0) is None

    def test_higher_priorities_are_served_first_whenever_they_come(self) -> None:
        """Tokens are never stuck behind repairs, nor repairs behind data."""
        sink = Sink()
        sink.register(Counting("data", 2), 2)
        sink.register(Counting("repair", 2), 1)
        first = sink.poll(0.0)
        assert first is not None
        sink.register(Counting("token", 1), 0)
        assert drain(sink) == ["token", "repair", "data", "data"]

    def test_feeds_of_one_priority_take_turns(self) -> None:
        """No feed holds the socket while others of its class wait."""
        sink = Sink()
        for name, count in (("a", 3), ("b", 1), ("c", 2)):
            sink.register(Counting(name, count), 1)
        assert drain(sink) == ["a", "b", "c", "a", "c", "a"]

    def test_a_feed_with_nothing_left_is_dropped(self) -> None:
        """Deregistration is automatic: an idle feed costs nothing."""
        sink = Sink()
        feed = Counting("a", 1)
        sink.register(feed)
        drain(sink)
        assert len(sink) == 0
        asked = feed.asked
        sink.poll(0.0)
        assert feed.asked == asked

    def test_a_dropped_feed_registers_again_when_it_has_something(self) -> None:
        """The intent to send is all that a feed has to declare."""
        sink = Sink()
        feed = Counting("a", 1)
        sink.register(feed)
        drain(sink)
        feed.left = 2
        assert sink.poll(0.0) is None
        sink.register(feed)
        assert drain(sink) == ["a", "a"]

    def test_registering_twice_is_registering_once(self) -> None:
        """A feed that says twice that it has something gets one turn, not two."""
        sink = Sink()
        eager = Counting("a", 3)
        sink.register(eager)
        sink.register(eager)
        sink.register(Counting("b", 2))
        assert drain(sink) == ["a", "b", "a", "b", "a"]

    def test_a_feed_that_registers_another_while_polled_does_not_lose_its_turn(self) -> None:
        """A token that is made may cause a request; both leave."""
        sink = Sink()
        other = Counting("other", 1)

        class Chaining(Counting):
            def poll(self, now: float) -> Transmit | None:
                sink.register(other)
                return super().poll(now)

        sink.register(Chaining("a", 2))
        assert sorted(drain(sink)) == ["a", "a", "other"]

    def test_sinks_form_a_tree_rooted_at_the_socket(self) -> None:
        """A sink is a feed of the sink below and registers with it by itself."""
        root = Sink()
        tokens = Sink(parent=root, priority=0)
        data = Sink(parent=root, priority=2)
        data.register(Counting("data", 1))
        tokens.register(Counting("token", 1))
        assert len(root) == 2
        assert drain(root) == ["token", "data"]
        assert len(root) == 0


class TestPolicies:
    """Rate, window and concurrency close a sink; time or news opens it."""

    def test_a_rate_lets_a_burst_through_and_then_its_average(self) -> None:
        """10 bytes at once, then 100 bytes a second."""
        rate = RatePolicy(100.0, 10)
        sink = Sink(policies=(rate,))
        sink.register(Counting("a", 1000, size=10))
        assert len(drain(sink, 0.0)) == 1
        sent = 0
        for step in range(1, 101):
            sent += len(drain(sink, step / 100))
        assert 9 <= sent <= 11

    def test_a_rate_says_when_it_opens(self) -> None:
        """The host sleeps until then; waking at that time finds it open."""
        rate = RatePolicy(100.0, 10)
        rate.charge(25, 0.0)
        assert not rate.is_open(0.0)
        opens = rate.next_open(0.0)
        assert opens is not None
        assert not rate.is_open(opens - 0.02)
        assert rate.is_open(opens)

    def test_a_rate_asked_with_an_older_time_opens_no_sooner(self) -> None:
        """Asked with the time at which the socket was drained, it named a time that was
        over while it was still closed: the host went from timer to timer for ever."""
        rate = RatePolicy(100.0, 10)
        rate.charge(25, 0.1)
        assert not rate.is_open(0.2)
        opens = rate.next_open(0.05)
        assert opens is not None
        assert opens > 0.2
        assert rate.is_open(opens)

    def test_an_unused_rate_saves_up_no_more_than_its_burst(self) -> None:
        """An hour of silence does not allow an hour's worth of packets."""
        rate = RatePolicy(100.0, 30)
        sink = Sink(policies=(rate,))
        sink.register(Counting("a", 1000, size=10))
        assert len(drain(sink, 3600.0)) == 3

    def test_time_does_not_run_backwards_for_a_rate(self) -> None:
        """A clock read earlier than the last one earns nothing and breaks nothing."""
        rate = RatePolicy(100.0, 10)
        rate.charge(50, 5.0)
        assert not rate.is_open(4.0)
        assert rate.is_open(5.5)

    def test_a_window_opens_when_bytes_are_released(self) -> None:
        """Unacknowledged bytes are bounded; acknowledgement, not time, opens it."""
        window = WindowPolicy(25)
        sink = Sink(policies=(window,))
        sink.register(Counting("a", 10, size=10))
        assert len(drain(sink)) == 3
        window.release(20)
        assert len(drain(sink)) == 2

    def test_a_closed_sink_leaves_its_parent_and_resumes(self) -> None:
        """Others go on; nothing that waited is forgotten."""
        root = Sink()
        window = WindowPolicy(5)
        narrow = Sink(parent=root, priority=1, policies=(window,))
        feed = Counting("narrow", 2, size=10)
        narrow.register(feed)
        root.register(Counting("wide", 2), 1)
        assert drain(root) == ["narrow", "wide", "wide"]
        assert len(root) == 0
        asked = feed.asked
        window.release(10)
        assert root.poll(0.0) is None
        narrow.resume()
        assert drain(root) == ["narrow"]
        assert feed.asked == asked + 1

    def test_a_sink_without_feeds_does_not_resume(self) -> None:
        """An empty sink would only be polled for nothing."""
        root = Sink()
        idle = Sink(parent=root, policies=(WindowPolicy(5),))
        idle.resume()
        assert len(root) == 0

    def test_a_sink_opens_when_its_last_policy_does(self) -> None:
        """All policies must agree."""
        slow, fast = RatePolicy(10.0, 5), RatePolicy(100.0, 5)
        sink = Sink(policies=(slow, fast))
        sink.register(Counting("a", 10, size=10))
        assert len(drain(sink)) == 1
        assert not drain(sink, fast.next_open(0.0))
        assert len(drain(sink, slow.next_open(0.0))) == 1
