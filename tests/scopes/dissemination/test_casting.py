"""Messages as datagrams: over links that lose some, and by mechanisms that reach everybody."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination import casting
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import (
    DATAGRAM_BYTES_MAX,
    Cast,
    Given,
    LossyCarry,
    OpenChannel,
    encode,
    parse_datagram,
)
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.events import (
    AgentPosted,
    MechanismClosed,
    MechanismOpened,
    SourceOpened,
    TargetOpened,
)
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import VALUE_MAX

T = "P/T"
A = Sender("P", "A", 1)
AB = Channel("P", ("A",), ("B",), T, "A")
UDP = Link("udp", "10.0.0.2:7000", "B")
GROUP = External("multicast", "239.1.2.3:7000")
RECOVERED = AgentPosted(Post(DomainId("P", 1), 1, "ring", ("B",), (), (T,), is_top=True))


def node(name: str, scope: str = "P") -> Forwarder:
    return Forwarder(scope=scope, node=name, life=1, copies_bytes_max=1 << 20)


def datagrams(forwarder: Forwarder) -> list[bytes]:
    found = []
    while (out := forwarder.poll_datagram()) is not None:
        found.append(out[1])
    return found


def hear(forwarder: Forwarder, data: bytes, now: float) -> None:
    """Let a datagram come; whoever drives a forwarder parses it."""
    datagram = parse_datagram(data)
    assert isinstance(datagram, LossyCarry | Cast)
    forwarder.handle_datagram(datagram, now)


def delivered(forwarder: Forwarder) -> list[int | tuple[int, int]]:
    """Numbers of messages; pairs are gaps."""
    found: list[int | tuple[int, int]] = []
    while (told := forwarder.poll_delivery()) is not None:
        if isinstance(told, Gap):
            found.append((told.first, told.last))
        else:
            found += range(told.number, told.stop)
    return found


def sent(count: int, start: int = 0) -> list[bytes]:
    """Datagrams along AB, one message each."""
    one = node("A")
    one.handle_event(SourceOpened(AB, (ALL,), UDP))
    for _ in range(count):
        one.publish(T, [b"x"], None, 0.0)
        one.poll_transmit()
    return datagrams(one)[start:]


def target(*events: object) -> Forwarder:
    two = node("B")
    two.handle_event(TargetOpened(AB))
    for event in events:
        two.handle_event(event)  # type: ignore[arg-type]  # events of any kind
    return two


class TestLossyLinks:
    def test_sending_begins_without_an_answer(self) -> None:
        one, two = node("A"), target()
        one.handle_event(SourceOpened(AB, (ALL,), UDP))
        one.publish(T, [b"x", b"y"], None, 0.0)
        assert one.poll_transmit() is None, "there is no stream of frames"
        (data,) = datagrams(one)
        hear(two, data, 0.0)
        assert delivered(two) == [0, 1]
        assert two.poll_answer() is None

    def test_a_source_that_loses_messages_cannot_say_that_they_are_gone(self) -> None:
        """A's channel over TCP has given all it can; the lossy one, or recovery, may bring 1."""
        data = sent(3)
        two = target(RECOVERED)
        reliable = Channel("P", ("C",), ("B",), T, "A")
        two.handle_event(TargetOpened(reliable))
        two.handle_frame(1, OpenChannel(reliable), 0.0)
        hear(two, data[0], 0.0)
        hear(two, data[2], 0.0)
        two.handle_frame(1, Given(reliable, ((A, 3),), is_answer=True), 0.0)
        assert delivered(two) == [0]
        two.pass_over(T, A, 2)
        assert delivered(two) == [(1, 1), 2], "recovery can say so"

    def test_where_nobody_recovers_a_lost_message_is_waited_for_a_moment(self) -> None:
        data = sent(6)
        two = target()
        for number in (0, 2, 3, 5):
            hear(two, data[number], 10.0)
        assert delivered(two) == [0]
        assert two.next_timeout() == 11.0
        two.handle_timeout(11.0)
        assert delivered(two) == [(1, 1), 2, 3]
        hear(two, data[4], 11.5)
        assert delivered(two) == [4, 5]
        two.handle_timeout(12.0)
        assert delivered(two) == []
        assert two.next_timeout() is None

    def test_where_agents_recover_it_nothing_is_given_up(self) -> None:
        data = sent(3)
        two = target()
        hear(two, data[0], 0.0)
        hear(two, data[2], 0.0)
        two.handle_event(RECOVERED)
        two.handle_timeout(99.0)
        assert delivered(two) == [0]
        assert two.next_timeout() is None

    def test_who_comes_late_begins_where_others_have_all(self) -> None:
        one, two = node("A"), target()
        for _ in range(5):
            one.publish(T, [b"x"], None, 0.0)
            one.poll_datagram()
        one.holdings.handle_stable(T, A, 3)
        one.handle_event(SourceOpened(AB, (ALL,), UDP))
        one.publish(T, [b"x"], None, 0.0)
        (data,) = datagrams(one)
        hear(two, data, 0.0)
        (stream,) = two.holdings.streams.values()
        assert list(stream.missing(6)) == [(3, 5)]

    def test_what_is_too_long_is_cut_or_left_to_recovery(self) -> None:
        one = node("A")
        one.handle_event(SourceOpened(AB, (ALL,), UDP))
        one.publish(T, [b"x" * 20_000] * 9, {"a" * 250: "ü" * 250}, 0.0)
        one.publish(T, [b"x" * 70_000], None, 0.0)
        found = datagrams(one)
        assert all(len(data) <= DATAGRAM_BYTES_MAX for data in found)
        two = target()
        for data in found:
            hear(two, data, 0.0)
        assert delivered(two) == list(range(9))
        assert one.counters["too_long_for_datagram"] == 1

    def test_a_packet_of_many_messages_that_was_cut_elsewhere_is_cut_again(self) -> None:
        """A gateway's packets, or tags of filters, may make a packet too long."""
        counters = node("A").counters
        waiting = casting.Datagrams(counters)
        big = Packet.of(T, A, 0, 0, 0, (Entry("P", "A", "B"),), {}, (b"x" * 30_000,) * 5)
        waiting.send(UDP, LossyCarry(AB, 0, VALUE_MAX, big))
        numbers = []
        while (out := waiting.poll()) is not None:
            parsed = parse_datagram(out[1])
            assert isinstance(parsed, LossyCarry)
            numbers += range(parsed.packet.number, parsed.packet.stop)
        assert numbers == [0, 1, 2, 3, 4]

    def test_datagrams_that_wait_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(casting, "WAITING_BYTES_MAX", 1_000)
        one = node("A")
        one.handle_event(SourceOpened(AB, (ALL,), UDP))
        for _ in range(10):
            one.publish(T, [b"x" * 400], None, 0.0)
            one.poll_transmit()
        assert len(datagrams(one)) == 2
        assert one.counters["datagrams_dropped"] == 8

    @pytest.mark.parametrize(
        ("bad", "counter"),
        [
            (
                encode(
                    LossyCarry(
                        Channel("P", ("Z",), ("B",), T, "Z"),
                        0,
                        VALUE_MAX,
                        Packet.of(T, A, 0, 0, 0, (Entry("P", "Z", "B"),), {}, (b"",)),
                    )
                ),
                "unknown_channels",
            ),
            (
                encode(LossyCarry(AB, 0, VALUE_MAX, Packet.of(T, A, 0, 0, 0, (), {}, (b"",)))),
                "forged",
            ),
            (
                encode(
                    Cast(
                        "Q",
                        0,
                        VALUE_MAX,
                        Packet.of(T, A, 0, 0, 0, (Entry("Q", "A", "A"),), {}, (b"",)),
                    )
                ),
                "unknown_mechanisms",
            ),
            (
                encode(
                    Cast(
                        "P",
                        0,
                        VALUE_MAX,
                        Packet.of(T, A, 0, 0, 0, (Entry("P", "A", "C"),), {}, (b"",)),
                    )
                ),
                "forged",
            ),
            (encode(Cast("P", 0, VALUE_MAX, Packet.of(T, A, 0, 0, 0, (), {}, (b"",)))), "forged"),
            (
                encode(
                    Cast(
                        "P",
                        0,
                        VALUE_MAX,
                        Packet.of(T, A, 0, 0, 0, (Entry("P", "B", "B"),), {}, (b"",)),
                    )
                ),
                "echoes",
            ),
        ],
    )
    def test_what_no_honest_node_sends_is_counted_and_dropped(
        self, bad: bytes, counter: str
    ) -> None:
        two = target(MechanismOpened(T, "P", GROUP, ("B",)))
        hear(two, bad, 0.0)
        assert two.counters == {counter: 1}
        assert not two.holdings.streams


class TestMechanisms:
    def test_one_datagram_reaches_all_members_and_goes_on_from_one(self) -> None:
        """A message enters P at A and is multicast there; C carries it out of P."""
        names = ("A", "B", "C")
        nodes = {name: node(name) for name in names}
        for name, each in nodes.items():
            each.handle_event(MechanismOpened(T, "P", GROUP, (name,)))
        inward = Channel("X", ("Q", "Z"), ("P", "A"), T, "Q")
        outward = Channel("X", ("P", "C"), ("R", "E"), T, "Q")
        nodes["A"].handle_event(TargetOpened(inward))
        nodes["C"].handle_event(SourceOpened(outward, (ALL,), Link("udp", "e", "E")))
        z = Sender("Q", "Z", 1)
        record = (Entry("X", "Q", "P"), Entry("P", "A", "A"))
        packet = Packet.of(T, z, 0, 0, 0, record, {}, (b"hello",))
        hear(nodes["A"], encode(LossyCarry(inward, 0, VALUE_MAX, packet)), 0.0)
        out = nodes["A"].poll_datagram()
        assert out is not None
        assert out[0] == GROUP
        assert nodes["A"].poll_datagram() is None, "once, however many members there are"
        for each in nodes.values():
            hear(each, out[1], 0.0)
        assert {name: delivered(each) for name, each in nodes.items()} == {
            "A": [0],
            "B": [0],
            "C": [0],
        }
        assert nodes["B"].poll_datagram() is None, "it did not originate there"
        carried = nodes["C"].poll_datagram()
        assert carried is not None
        parsed = parse_datagram(carried[1])
        assert isinstance(parsed, LossyCarry)
        assert parsed.packet.record == (Entry("X", "Q", "R"), Entry("R", "E", "E"))
        assert nodes["C"].poll_datagram() is None

    def test_what_a_node_publishes_is_multicast_in_each_of_its_scopes(self) -> None:
        one, two = node("A"), node("B", scope="Q")
        one.handle_event(MechanismOpened("Q/T", "Q", GROUP, ("A",)))
        two.handle_event(MechanismOpened("Q/T", "Q", GROUP, ("B",)))
        one.publish("Q/T", [b"x"], None, 0.0)
        (data,) = datagrams(one)
        hear(two, data, 0.0)
        assert delivered(two) == [0]
        (stream,) = two.holdings.streams.values()
        assert stream.record == (Entry("Q", "A", "B"),)

    def test_a_mechanism_that_was_closed_takes_and_brings_nothing(self) -> None:
        one, two = node("A"), node("B")
        for each, name in ((one, "A"), (two, "B")):
            each.handle_event(MechanismOpened(T, "P", GROUP, (name,)))
        one.publish(T, [b"x"], None, 0.0)
        (data,) = datagrams(one)
        for each in (one, two):
            each.handle_event(MechanismClosed(T, "P"))
        one.publish(T, [b"x"], None, 0.0)
        assert datagrams(one) == []
        hear(two, data, 0.0)
        assert delivered(two) == []
