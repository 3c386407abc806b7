"""Messages that come from elsewhere: other nodes of a network, other gateways, repairs."""

from __future__ import annotations

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import Carry, Have
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.events import SourceOpened, TargetOpened
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.stdx.ranges import RangeSet

T = "X/T"
N = Sender("P", "node7", 7)
"""An ordinary node of network P."""
Z = Sender("Q", "z", 1)
"""A node of network Q."""
P_TO_Q = Channel("X", ("P", "G"), ("Q", "C"), T, "P")
P_TO_R = Channel("X", ("P", "G"), ("R", "E"), T, "Q")
Q_TO_P = Channel("X", ("Q", "C"), ("P", "H"), T, "Q")
Q, R = Link("tcp", "c", "C"), Link("tcp", "e", "E")


def gateway(name: str = "G") -> Forwarder:
    return Forwarder(scope="P", node=name, life=1, copies_bytes_max=1 << 20)


def carried(forwarder: Forwarder) -> list[tuple[str, int, int]]:
    """Return who was sent which messages, from one number to another."""
    found = []
    while (out := forwarder.poll_transmit()) is not None:
        if isinstance(out[1], Carry):
            found.append((out[0].node, out[1].packet.number, out[1].packet.stop))
    return found


def delivered(forwarder: Forwarder) -> list[int]:
    found: list[int] = []
    while (told := forwarder.poll_delivery()) is not None:
        assert isinstance(told, Packet)
        found += range(told.number, told.stop)
    return found


class TestLocalMessages:
    def test_they_go_out_under_their_own_name_and_numbers(self) -> None:
        one = gateway()
        one.handle_event(SourceOpened(P_TO_Q, (ALL,), Q))
        one.handle_answer(Q, Have(P_TO_Q, ()))
        one.handle_local(T, N, 40, [b"a", b"b"], 0.0)
        one.handle_local(T, N, 42, [b"c"], 0.0)
        assert carried(one) == [("C", 40, 42), ("C", 42, 43)]
        assert delivered(one) == [], "the network has them"
        (stream,) = one.holdings.streams.values()
        assert (stream.low, stream.record) == (43, (Entry("P", "G", "G"),))

    def test_what_another_gateway_has_sent_is_not_sent_twice_to_who_has_it(self) -> None:
        """Two gateways cut the same messages differently; the second takes over from the first."""
        one, two = gateway("G"), gateway("H")
        target = Forwarder(scope="Q", node="C", life=1, copies_bytes_max=1 << 20)
        other = Channel("X", ("P", "H"), ("Q", "C"), T, "P")
        target.handle_event(TargetOpened(P_TO_Q))
        for first, stop in ((0, 3), (3, 7)):
            one.handle_local(T, N, first, [b"x"] * (stop - first), 0.0)
        for first, stop in ((0, 2), (2, 5), (5, 9)):
            two.handle_local(T, N, first, [b"x"] * (stop - first), 0.0)
        got: list[int] = []
        for forwarder, channel in ((one, P_TO_Q), (two, other)):
            forwarder.handle_event(SourceOpened(channel, (ALL,), Q))
            number = id(forwarder)
            while (out := forwarder.poll_transmit()) is not None:
                target.handle_frame(number, out[1], 0.0)
                while (answer := target.poll_answer()) is not None:
                    forwarder.handle_answer(Q, answer[1])
            target.handle_link_closed(number)
            got += delivered(target)
        assert got == list(range(9))
        assert target.counters["duplicates"] == 0, "C says what it has"

    def test_messages_may_begin_above_zero_and_others_are_told_so(self) -> None:
        one = gateway()
        target = Forwarder(scope="Q", node="C", life=1, copies_bytes_max=1 << 20)
        target.handle_event(TargetOpened(P_TO_Q))
        one.handle_local(T, N, 1_000, [b"x"], 0.0)
        one.handle_event(SourceOpened(P_TO_Q, (ALL,), Q))
        while (out := one.poll_transmit()) is not None:
            target.handle_frame(1, out[1], 0.0)
            while (answer := target.poll_answer()) is not None:
                one.handle_answer(Q, answer[1])
        assert delivered(target) == [1_000]

    def test_a_run_may_be_told_twice(self) -> None:
        one = gateway()
        one.handle_event(SourceOpened(P_TO_Q, (ALL,), Q))
        one.handle_answer(Q, Have(P_TO_Q, ()))
        one.handle_local(T, N, 0, [b"a", b"b"], 0.0)
        one.handle_local(T, N, 1, [b"b", b"c"], 0.0)
        assert carried(one) == [("C", 0, 2), ("C", 2, 3)]


class TestKnownMessages:
    RECORD = (Entry("X", "Q", "P"), Entry("P", "H", "H"))
    """Of what came from Q to gateway H."""

    def test_they_are_kept_and_neither_forwarded_nor_delivered(self) -> None:
        one = gateway()
        one.handle_event(SourceOpened(P_TO_R, (ALL,), R))
        one.handle_answer(R, Have(P_TO_R, ()))
        one.handle_known(T, Z, 5, [b"a", b"b"], 0.0, self.RECORD)
        assert carried(one) == []
        assert delivered(one) == []
        (copy,) = one.holdings.copies(T, Z, RangeSet([(0, 9)]), 1 << 20)
        assert (copy.number, copy.split()) == (5, [b"a", b"b"])

    def test_they_are_given_when_this_gateway_takes_over(self) -> None:
        """R gets what came from Q; Q does not get its own messages back."""
        one = gateway()
        one.handle_known(T, Z, 0, [b"a", b"b"], 0.0, self.RECORD)
        for channel, where in ((P_TO_R, R), (P_TO_Q, Q)):
            one.handle_event(SourceOpened(channel, (ALL,), where))
            one.handle_answer(where, Have(channel, ()))
        assert carried(one) == [("E", 0, 2)]

    def test_without_a_record_they_are_for_repairs_alone(self) -> None:
        one = gateway()
        one.handle_known(T, Z, 0, [b"a", b"b"], 0.0)
        for channel, where in ((P_TO_R, R), (P_TO_Q, Q)):
            one.handle_event(SourceOpened(channel, (ALL,), where))
            one.handle_answer(where, Have(channel, ()))
        assert carried(one) == []
        assert one.holdings.copies(T, Z, RangeSet([(0, 9)]), 1 << 20)

    def test_the_same_message_along_a_channel_is_not_delivered_again(self) -> None:
        one = gateway("H")
        one.handle_event(TargetOpened(Q_TO_P))
        one.handle_known(T, Z, 0, [b"a", b"b"], 0.0)
        record = (Entry("X", "Q", "P"), Entry("P", "H", "H"))
        late = Packet.of(T, Z, 1, 0, 0, record, {}, (b"b", b"c"))
        one.handle_frame(1, Carry(Q_TO_P, late), 0.0)
        assert delivered(one) == [2]


class TestRepairs:
    def test_a_repair_is_delivered_and_goes_on(self) -> None:
        """B lacked it, has it from A's agent, and works a channel out of P."""
        one = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        out = Channel("X", ("P", "B"), ("Q", "C"), T, "P")
        one.handle_event(SourceOpened(out, (ALL,), Q))
        one.handle_answer(Q, Have(out, ()))
        given = Packet.of(T, N, 0, 0, 0, (Entry("P", "A", "A"),), {}, (b"x", b"y"))
        way = Channel("P", ("A",), ("B",), T, "A")
        one.holdings.begin(T, N, 0)
        assert one.handle_repair(way, given, 0.0)
        assert delivered(one) == [0, 1]
        assert carried(one) == [("C", 0, 2)]
        assert not one.handle_repair(way, given, 0.0), "it was here before"
        assert one.counters["repaired"] == 2

    def test_a_repair_between_scopes_enters_as_along_a_channel(self) -> None:
        """Node E of R has it from an agent in Q, which speaks for Q in X's domain."""
        one = Forwarder(scope="R", node="E", life=1, copies_bytes_max=1 << 20)
        inside = Channel("R", ("E",), ("F",), T, "E")
        f = Link("tcp", "f", "F")
        one.handle_event(SourceOpened(inside, (ALL,), f))
        one.handle_answer(f, Have(inside, ()))
        record = (Entry("X", "P", "Q"), Entry("Q", "C", "D"))
        given = Packet.of(T, N, 0, 0, 0, record, {}, (b"x",))
        one.holdings.begin(T, N, 0)
        assert one.handle_repair(Channel("X", ("Q", "D"), ("R", "E"), T, "P"), given, 0.0)
        assert carried(one) == [("F", 0, 1)]
        (stream,) = one.holdings.streams.values()
        assert stream.record == (Entry("X", "P", "R"), Entry("R", "E", "E"))

    def test_forged_repairs_are_counted_and_dropped(self) -> None:
        one = gateway()
        way = Channel("P", ("A",), ("G",), T, "A")
        for bad in (
            Packet.of("X/other", N, 0, 0, 0, (Entry("P", "A", "A"),), {}, (b"",)),
            Packet.of(T, N, 0, 0, 0, (Entry("P", "Z", "A"),), {}, (b"",)),
            Packet.of(T, N, (1 << 63) - 2, 0, 0, (Entry("P", "A", "A"),), {}, (b"",) * 3),
        ):
            assert not one.handle_repair(way, bad, 0.0)
        assert one.counters["forged"] == 3
        own = Packet.of(T, one.sender, 0, 0, 0, (Entry("P", "A", "A"),), {}, (b"",))
        assert not one.handle_repair(way, own, 0.0), "nobody tells a node about its own"
        assert not one.holdings.streams
