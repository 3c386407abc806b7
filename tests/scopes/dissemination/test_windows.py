"""Publishers go no further ahead than a window of what others lack."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination import outlets
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import Have
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    SourceOpened,
    TopicLeft,
)
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel

T = "P/T"
DOMAIN = DomainId("P", 1)
WINDOW = 10_000


def node() -> Forwarder:
    return Forwarder(scope="P", node="A", life=1, copies_bytes_max=1 << 20, window_bytes=WINDOW)


def posted(*topics: str) -> AgentPosted:
    return AgentPosted(Post(DOMAIN, 1, "ring", ("A",), (), topics, is_top=True))


def fill(forwarder: Forwarder) -> int:
    """Publish until the window is closed; return how many messages that took."""
    count = 0
    while forwarder.may_publish(T):
        forwarder.publish(T, [b"x" * 500], None, 0.0)
        forwarder.poll_datagram()
        count += 1
        assert count < 100, "nothing holds it up"
    return count


def channel(target: str) -> Channel:
    return Channel("P", ("A",), (target,), T, "A")


def link(target: str, protocol: str = "tcp") -> Link:
    return Link(protocol, target, target)


def open_to(forwarder: Forwarder, target: str, *, waits: bool = True) -> None:
    forwarder.handle_event(SourceOpened(channel(target), (ALL,), link(target), waits))
    forwarder.handle_answer(link(target), Have(channel(target), ()))


def drain(forwarder: Forwarder) -> int:
    count = 0
    while forwarder.poll_transmit() is not None:
        count += 1
    return count


def test_asking_for_room_before_every_message_does_not_keep_them_from_sharing_packets() -> None:
    one = node()
    open_to(one, "B")
    drain(one)
    for _ in range(10):
        assert one.may_publish(T)
        one.publish(T, [b"x" * 500], None, 0.0)
    assert drain(one) == 2, "where the stream begins, and one packet"


class TestWithRecovery:
    def test_the_window_opens_when_messages_are_stable(self) -> None:
        one = node()
        one.handle_event(posted(T))
        open_to(one, "B")
        count = fill(one)
        drain(one)
        assert not one.may_publish(T), "that they have left is not enough"
        assert one.poll_opened() is None
        one.holdings.handle_stable(T, one.sender, 2)
        assert one.poll_opened() is None, "not for a few: publishers would wake for each message"
        one.holdings.handle_stable(T, one.sender, count)
        assert one.poll_opened() == T
        assert one.poll_opened() is None
        assert one.may_publish(T)

    def test_flush_waits_for_all_that_was_published_before(self) -> None:
        one = node()
        one.handle_event(posted(T))
        assert one.is_stable(T, one.flush_mark(T)), "there is nothing to wait for"
        one.publish(T, [b"x"] * 5, None, 0.0)
        mark = one.flush_mark(T)
        one.publish(T, [b"x"] * 5, None, 0.0)
        one.holdings.handle_stable(T, one.sender, 4)
        assert not one.is_stable(T, mark)
        one.holdings.handle_stable(T, one.sender, 5)
        assert one.is_stable(T, mark)

    def test_what_others_may_lack_is_told_in_bytes(self) -> None:
        """Whoever waits for a flush is shown them."""
        one = node()
        one.handle_event(posted(T))
        assert one.pending_bytes([T]) == 0
        one.publish(T, [b"x" * 100] * 5, None, 0.0)
        assert one.pending_bytes([T]) >= 500
        one.holdings.handle_stable(T, one.sender, 5)
        assert one.pending_bytes([T]) == 0

    def test_another_topic_has_another_window(self) -> None:
        one = node()
        one.handle_event(posted(T, "P/other"))
        fill(one)
        assert one.may_publish("P/other")

    def test_who_leaves_waits_for_nobody(self) -> None:
        one = node()
        one.handle_event(posted(T))
        fill(one)
        one.handle_event(TopicLeft(T))
        assert one.may_publish(T)
        assert one.is_stable(T, one.flush_mark(T))

    def test_when_agents_go_the_channels_count(self) -> None:
        one = node()
        one.handle_event(posted(T))
        fill(one)
        one.handle_event(AgentWithdrawn(DOMAIN, "A"))
        assert one.poll_opened() == T
        assert one.may_publish(T)


class TestWithoutRecovery:
    def test_what_has_left_for_every_channel_does_not_count(self) -> None:
        one = node()
        open_to(one, "B")
        open_to(one, "C")
        drain(one)
        one.handle_blocked(link("B"))
        fill(one)
        drain(one)
        assert not one.may_publish(T), "C has taken all, B has taken nothing"
        assert not one.is_stable(T, 1)
        assert one.poll_opened() is None
        one.handle_writable(link("B"))
        drain(one)
        assert one.poll_opened() == T
        assert one.is_stable(T, one.flush_mark(T))

    def test_whom_the_scope_does_not_wait_for_holds_up_nobody(self) -> None:
        one = node()
        open_to(one, "B", waits=False)
        drain(one)
        one.handle_blocked(link("B"))
        with pytest.raises(AssertionError, match="nothing holds it up"):
            fill(one)

    def test_targets_that_have_not_answered_and_lossy_links_hold_up_nobody(self) -> None:
        one = node()
        one.handle_event(SourceOpened(channel("B"), (ALL,), link("B")))
        one.handle_event(SourceOpened(channel("C"), (ALL,), link("C", "udp")))
        with pytest.raises(AssertionError, match="nothing holds it up"):
            fill(one)

    def test_a_channel_that_fell_behind_is_waited_for_until_it_has_caught_up(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outlets, "QUEUE_BYTES_MAX", 5_000)
        one = Forwarder(scope="P", node="A", life=1, copies_bytes_max=1 << 20, window_bytes=5_000)
        open_to(one, "B")
        drain(one)
        one.handle_blocked(link("B"))
        count = 0
        while one.may_publish(T):
            one.publish(T, [b"x" * 2_000], None, 0.0)
            one.poll_transmit()
            count += 1
        one.handle_writable(link("B"))
        drain(one)
        assert not one.may_publish(T), "the last one was not queued"
        assert not one.is_stable(T, count)
        one.handle_answer(link("B"), Have(channel("B"), ((one.sender, count - 1),)))
        assert not one.is_stable(T, count)
        drain(one)
        assert one.is_stable(T, count)
        assert one.poll_opened() == T

    def test_a_link_that_is_lost_is_not_waited_for(self) -> None:
        """Its channels are asked for anew; copies are kept meanwhile, as far as they go."""
        one = node()
        open_to(one, "B")
        drain(one)
        one.handle_blocked(link("B"))
        fill(one)
        one.handle_link_lost(link("B"))
        assert one.poll_opened() == T
