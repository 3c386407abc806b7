"""Messages of topics along channels: in order, once, and whole when nodes take over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination import holdings as holding
from quicksilver.scopes.dissemination import outlets
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import (
    Carry,
    CloseChannel,
    Have,
    OpenChannel,
    parse_frame,
)
from quicksilver.scopes.dissemination.holdings import EARLY_MAX, Holdings
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.events import SourceOpened, TargetOpened
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import RangeSet
from tests.scopes.management.test_manager import T, lecture

IN_P = Channel("P", ("A",), ("B",), "X/T", "A")
LINK = Link("tcp", "B", "B")
A = Sender("P", "A", 1)


def packet(number: int, payload: bytes = b"x") -> Packet:
    return Packet.of("X/T", A, number, 0, 0, (Entry("P", "A", "B"),), {}, (payload,))


def pair() -> tuple[Forwarder, Forwarder]:
    """A channel from A to B, as their managers have opened it."""
    one = Forwarder(scope="P", node="A", life=1, copies_bytes_max=1 << 20)
    two = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
    one.handle_event(SourceOpened(IN_P, (ALL,), LINK))
    two.handle_event(TargetOpened(IN_P))
    return one, two


def run(one: Forwarder, two: Forwarder) -> list[int]:
    """Move frames between both; return the numbers that were delivered."""
    while (out := one.poll_transmit()) is not None:
        two.handle_frame(7, out[1], 0.0)
        while (answer := two.poll_answer()) is not None:
            one.handle_answer(LINK, answer[1])
    delivered = []
    while (delivery := two.poll_delivery()) is not None:
        assert isinstance(delivery, Packet)
        delivered += range(delivery.number, delivery.stop)
    return delivered


class TestChannels:
    def test_messages_arrive_in_order(self) -> None:
        one, two = pair()
        assert run(one, two) == []
        for _ in range(5):
            one.publish("X/T", [b"x"], None, 0.0)
        assert run(one, two) == [0, 1, 2, 3, 4]

    def test_what_is_sent_before_the_target_answers_is_not_lost(self) -> None:
        one, two = pair()
        one.publish("X/T", [b"x"], None, 0.0)
        assert run(one, two) == [0]

    def test_a_link_that_breaks_is_told_and_resumed_without_loss(self) -> None:
        one, two = pair()
        run(one, two)
        one.publish("X/T", [b"x"], None, 0.0)
        assert run(one, two) == [0]
        one.handle_link_lost(LINK)
        assert one.poll_lost() == IN_P
        for _ in range(3):
            one.publish("X/T", [b"x"], None, 0.0)
        assert run(one, two) == []
        one.handle_event(SourceOpened(IN_P, (ALL,), LINK))
        assert run(one, two) == [1, 2, 3]

    def test_a_slow_link_holds_up_nobody_and_catches_up(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Past its queue nothing is queued; later the target is asked what it lacks."""
        monkeypatch.setattr(outlets, "QUEUE_BYTES_MAX", 2_000)
        one, two = pair()
        run(one, two)
        one.handle_blocked(LINK)
        for _ in range(50):
            one.publish("X/T", [b"x" * 100], None, 0.0)
            assert one.poll_transmit() is None
        assert one.counters["queue_full"] == 1
        one.handle_writable(LINK)
        assert run(one, two) == list(range(50))

    def test_a_channel_that_nobody_announced_is_closed(self) -> None:
        two = pair()[1]
        forged = Channel("P", ("Z",), ("B",), "X/T", "Z")
        for frame in (OpenChannel(forged), Carry(forged, packet(0))):
            two.handle_frame(7, frame, 0.0)
            assert two.poll_answer() == (7, CloseChannel(forged))
        assert two.poll_delivery() is None

    @pytest.mark.parametrize(
        "bad",
        [
            Packet.of("X/other", A, 0, 0, 0, (Entry("P", "A", "B"),), {}, (b"",)),
            Packet.of("X/T", A, 0, 0, 0, (Entry("P", "B", "B"),), {}, (b"",)),
            Packet.of("X/T", A, 0, 0, 0, (), {}, (b"",)),
            Packet.of("X/T", A, (1 << 63) - 2, 0, 0, (Entry("P", "A", "B"),), {}, (b"", b"")),
        ],
    )
    def test_forged_messages_are_counted_and_dropped(self, bad: Packet) -> None:
        two = pair()[1]
        two.handle_frame(7, Carry(IN_P, bad), 0.0)
        assert two.poll_delivery() is None
        assert two.counters["forged"] == 1

    def test_answers_of_strangers_change_nothing(self) -> None:
        one = pair()[0]
        one.publish("X/T", [b"x"], None, 0.0)
        elsewhere = Link("tcp", "evil", "evil")
        while one.poll_transmit() is not None:
            pass
        one.handle_answer(elsewhere, Have(IN_P, ()))
        assert one.poll_transmit() is None

    @given(st.binary(max_size=64))
    def test_any_bytes_are_a_frame_or_nothing(self, data: bytes) -> None:
        frame = parse_frame(data)
        if frame is not None:
            pair()[1].handle_frame(7, frame, 0.0)


class TestTakingOver:
    @pytest.mark.parametrize("victim", list("BCDE"))
    @pytest.mark.parametrize("policy", ["chain", "star", "tree:2"])
    def test_nothing_is_lost_or_repeated_when_a_node_crashes(
        self, victim: str, policy: str
    ) -> None:
        """Whoever takes over asks what is lacking, and has copies of it."""
        network = lecture(policy)
        for number in range(30):
            network.forwarders["A"].publish(T, [b"x"], None, 0.0)
            if number % 3:
                network.settle()
            if number == 10:
                network.kill(victim)
            if number == 20:
                network.run(5.0)
        network.run(10.0)
        for node in sorted(set("BCDE") - {victim}):
            assert network.got[node] == [("A", number) for number in range(30)]

    def test_several_senders_are_each_in_order(self) -> None:
        network = lecture()
        for node in "BCE":
            network.want(node, T, "ps")
        network.run(1.0)
        for number in range(20):
            for node in "ABCE":
                network.forwarders[node].publish(T, [b"x"], None, 0.0)
            if number == 10:
                network.kill("D")
        network.run(10.0)
        for node in "BCE":
            for sender in sorted(set("ABCE") - {node}):
                numbers = [n for who, n in network.got[node] if who == sender]
                assert numbers == list(range(20)), (node, sender)


class TestHoldings:
    def test_early_messages_wait_for_the_gap(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.begin("X/T", A, 5)
        stream = holdings.of_topic("X/T")[A]
        assert holdings.take(packet(7)) == ([packet(7)], [])
        assert stream.missing(10) == RangeSet([(5, 7), (8, 10)])
        assert holdings.take(packet(5)).ready == [packet(5)]
        assert holdings.take(packet(6)) == ([packet(6)], [packet(6), packet(7)])
        assert (stream.low, stream.high) == (8, 8)

    def test_what_cannot_be_had_is_passed_over_and_told(self) -> None:
        holdings = Holdings(1 << 20)
        for number in (2, 3, 6):
            holdings.take(packet(number))
        assert holdings.pass_over("X/T", A, 1) == [Gap("X/T", A, 0, 0)]
        assert holdings.pass_over("X/T", A, 5) == [
            Gap("X/T", A, 1, 1),
            packet(2),
            packet(3),
            Gap("X/T", A, 4, 4),
        ]
        assert holdings.pass_over("X/T", A, 1 << 62) == [
            Gap("X/T", A, 5, 5),
            packet(6),
            Gap("X/T", A, 7, (1 << 62) - 1),
        ]

    def test_copies_stay_within_their_budget_the_oldest_go_first(self) -> None:
        holdings = Holdings(10 * packet(0, b"y" * 700).size())
        for number in range(50):
            holdings.take(packet(number, b"y" * 700))
        assert holdings.bytes <= holdings.bytes_max
        assert [p.number for p in holdings.since("X/T", {A: 0})] == list(range(40, 50))
        holdings.forget_topic("X/T")
        assert (holdings.bytes, holdings.streams) == (0, {})

    def test_early_messages_are_within_the_budget_too(self) -> None:
        holdings = Holdings(10 * packet(0, b"y" * 700).size())
        for life in range(3):
            for number in range(1, 50):
                sender = Sender("P", "A", life)
                holdings.take(
                    Packet.of("X/T", sender, number, 0, 0, packet(0).record, {}, (b"y" * 700,))
                )
        assert holdings.bytes <= holdings.bytes_max
        holdings.forget_topic("X/T")
        assert (holdings.bytes, holdings.early_bytes) == (0, 0)

    def test_all_that_a_peer_writes_counts(self) -> None:
        small = packet(0).size()
        many = Packet.of("X/T", A, 0, 0, 0, packet(0).record * 9, {"a" * 255: "b" * 255}, (b"",))
        assert many.size() > small + 510 + 8 * 3 * 60

    def test_streams_are_bounded_and_the_quietest_is_forgotten(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(holding, "STREAMS_MAX", 3)
        holdings = Holdings(1 << 20)
        for life in (1, 2, 3, 1, 4):
            number = len(holdings.of_topic("X/T")) if life == 4 else 0
            sender = Sender("P", "A", life)
            holdings.take(Packet.of("X/T", sender, number, 0, 0, packet(0).record, {}, (b"",)))
            holdings.take(Packet.of("X/T", sender, 1, 0, 0, packet(0).record, {}, (b"",)))
        assert sorted(sender.life for sender in holdings.of_topic("X/T")) == [1, 3, 4]

    def test_early_messages_are_bounded(self) -> None:
        holdings = Holdings(1 << 30)
        holdings.take(packet(0))
        for number in range(2, EARLY_MAX + 10):
            holdings.take(packet(number))
        (stream,) = holdings.streams.values()
        assert len(stream.early) == EARLY_MAX
        assert holdings.take(packet(1)).ready
        assert stream.low == EARLY_MAX + 2

    @given(st.permutations(range(12)), st.integers(0, 3))
    def test_any_order_of_arrival_is_put_right(self, order: list[int], repeats: int) -> None:
        holdings = Holdings(1 << 20)
        holdings.take(packet(0))
        delivered = [0]
        for number in order + order[:repeats]:
            delivered += [p.number for p in holdings.take(packet(number)).ready]
        assert delivered == list(range(12))
