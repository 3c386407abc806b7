"""What is missing and cannot be had: never skipped in silence, and nobody waits for ever."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination import batches, outlets
from quicksilver.scopes.dissemination.batches import MessageTooLargeError
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL, Filter, Modulo
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import (
    Begin,
    Carry,
    CloseChannel,
    Given,
    Have,
    OpenChannel,
    encode,
    parse_frame,
)
from quicksilver.scopes.dissemination.holdings import EARLY_ASK
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.events import (
    AgentPosted,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicLeft,
)
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel, Entry

T = "P/T"
A = Sender("P", "A", 1)


class Line:
    """Nodes of scope P and channels between them, all for messages that originated at A."""

    def __init__(self, nodes: str, copies_bytes_max: int = 1 << 20) -> None:
        self.nodes = {
            node: Forwarder(scope="P", node=node, life=1, copies_bytes_max=copies_bytes_max)
            for node in nodes
        }
        self.got: dict[str, list[int | tuple[int, int]]] = {node: [] for node in nodes}

    def open(self, ends: str, rule: Filter = ALL) -> None:
        """``ends``: AB is the channel from A to B."""
        self.nodes[ends[1]].handle_event(TargetOpened(channel(ends)))
        self.nodes[ends[0]].handle_event(SourceOpened(channel(ends), (rule,), link(ends[1])))
        self.settle()

    def cut(self, ends: str) -> None:
        """A link ends, and both sides notice."""
        self.nodes[ends[0]].handle_link_lost(link(ends[1]))
        self.nodes[ends[0]].handle_event(SourceClosed(channel(ends)))
        self.nodes[ends[1]].handle_link_closed(ord(ends[0]))
        self.settle()

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.nodes["A"].publish(T, [b"x" * 100], None, 0.0)
            self.settle()  # Else they would share packets.

    def settle(self) -> None:
        is_busy = True
        while is_busy:
            is_busy = False
            for name, node in self.nodes.items():
                while (out := node.poll_transmit()) is not None:
                    is_busy = True
                    where, frame = out
                    assert parse_frame(encode(frame)) == frame
                    self.nodes[where.node].handle_frame(ord(name), frame, 0.0)
                while (answer := node.poll_answer()) is not None:
                    is_busy = True
                    self.nodes[chr(answer[0])].handle_answer(link(name), answer[1])
                while (told := node.poll_delivery()) is not None:
                    if isinstance(told, Gap):
                        self.got[name].append((told.first, told.last))
                    else:
                        self.got[name] += range(told.number, told.stop)


def channel(ends: str) -> Channel:
    return Channel("P", (ends[0],), (ends[1],), T, "A")


def link(node: str) -> Link:
    return Link("tcp", node, node)


def packet(number: int) -> Packet:
    return Packet.of(T, A, number, 0, 0, (Entry("P", "A", "B"),), {}, (b"x",))


SMALL = 20 * 700
"""A budget for about twenty copies."""


class TestGaps:
    def test_an_outage_beyond_the_copies_is_told_and_then_it_goes_on(self) -> None:
        line = Line("AB", SMALL)
        line.open("AB")
        line.publish()
        line.cut("AB")
        line.publish(100)
        line.open("AB")
        line.publish(50)
        first, gap, *rest = line.got["B"]
        assert first == 0
        assert isinstance(gap, tuple)
        assert gap[0] == 1
        assert rest == list(range(gap[1] + 1, 151))

    def test_a_gap_is_told_down_the_line(self) -> None:
        line = Line("ABC", SMALL)
        line.open("BC")
        line.open("AB")
        line.publish()
        line.cut("AB")
        line.publish(100)
        line.open("AB")
        line.publish(50)
        assert line.got["C"] == line.got["B"]
        assert len([told for told in line.got["C"] if isinstance(told, tuple)]) == 1

    def test_what_another_channel_brings_is_no_gap(self) -> None:
        """B has even messages from A, and odd ones by way of C: that A's channel was opened
        anew does not mean that odd ones are lost."""
        line = Line("ABC")
        line.open("AC")
        line.open("AB", Modulo(2, 0))
        line.open("CB", Modulo(2, 1))
        line.publish(10)
        assert line.got["B"] == list(range(10))
        slow = line.nodes["C"]
        line.nodes["C"] = Forwarder(scope="P", node="C", life=9, copies_bytes_max=1)
        line.publish(10)  # C hears of these later
        for number in range(10, 20):
            moved = Packet.of(T, A, number, number, 0, (Entry("P", "A", "C"),), {}, (b"x" * 100,))
            slow.handle_frame(ord("A"), Carry(channel("AC"), moved), 0.0)
        line.nodes["C"] = slow
        line.cut("AB")
        line.open("AB", Modulo(2, 0))
        assert line.got["B"] == list(range(20))

    def test_a_message_that_drops_out_is_asked_for(self) -> None:
        """A filter that draws lots lets some through nowhere, for example."""
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        b.handle_event(TargetOpened(channel("AB")))
        b.handle_frame(1, OpenChannel(channel("AB")), 0.0)
        assert b.poll_answer() == (1, Have(channel("AB"), ()))
        b.handle_frame(1, Given(channel("AB"), (), is_answer=True), 0.0)
        for number in (0, *range(2, EARLY_ASK + 2)):
            b.handle_frame(1, Carry(channel("AB"), packet(number)), 0.0)
        assert b.poll_answer() == (1, Have(channel("AB"), ((A, 1),)))
        b.handle_frame(1, Given(channel("AB"), ((A, EARLY_ASK + 2),), is_answer=True), 0.0)
        told = []
        while (each := b.poll_delivery()) is not None:
            told.append(each)
        assert told[:2] == [packet(0), Gap(T, A, 1, 1)]
        assert len(told) == EARLY_ASK + 2

    def test_a_source_whose_word_is_old_is_asked_again(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        for number, ends in enumerate(("AB", "CB")):
            b.handle_event(TargetOpened(channel(ends)))
            b.handle_frame(number, OpenChannel(channel(ends)), 0.0)
            b.handle_frame(number, Begin(channel(ends), A, 0), 0.0)
        b.handle_frame(0, Carry(channel("AB"), packet(0)), 0.0)
        for number, ends in enumerate(("AB", "CB")):
            b.handle_frame(number, Given(channel(ends), ((A, 1),), is_answer=True), 0.0)
        assert b.poll_delivery() == packet(0)
        while b.poll_answer() is not None:
            pass
        b.handle_frame(0, Given(channel("AB"), ((A, 9),), is_answer=False), 0.0)
        assert b.poll_answer() == (1, Have(channel("CB"), ((A, 1),)))
        b.handle_frame(1, Given(channel("CB"), ((A, 1),), is_answer=True), 0.0)
        assert b.poll_delivery() is None, "C waits for them itself"
        assert b.poll_answer() is None
        b.handle_frame(1, Given(channel("CB"), ((A, 7),), is_answer=False), 0.0)
        assert b.poll_delivery() == Gap(T, A, 1, 6)

    def test_what_came_when_there_was_no_room_is_asked_for_again(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=3 * packet(0).size())
        b.handle_event(TargetOpened(channel("AB")))
        b.handle_frame(1, OpenChannel(channel("AB")), 0.0)
        for number in (0, 2, 3, 4, 5):
            b.handle_frame(1, Carry(channel("AB"), packet(number)), 0.0)
        while b.poll_answer() is not None:
            pass
        b.handle_frame(1, Given(channel("AB"), ((A, 6),), is_answer=True), 0.0)
        told = [b.poll_delivery() for _ in range(6)]
        assert told == [packet(0), Gap(T, A, 1, 1), packet(2), packet(3), packet(4), None]
        assert b.poll_answer() == (1, Have(channel("AB"), ((A, 5),)))
        b.handle_frame(1, Carry(channel("AB"), packet(5)), 0.0)
        b.handle_frame(1, Given(channel("AB"), ((A, 6),), is_answer=True), 0.0)
        assert [b.poll_delivery() for _ in range(2)] == [packet(5), None]

    def test_where_agents_recover_messages_no_source_can_say_that_they_are_gone(self) -> None:
        """Another channel may be on its way from one node to another, and somebody has them."""
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        post = Post(DomainId("P", 1), 1, "ring", ("B",), (), (T,), is_top=True)
        b.handle_event(AgentPosted(post))
        b.handle_event(TargetOpened(channel("AB")))
        b.handle_frame(1, OpenChannel(channel("AB")), 0.0)
        b.handle_frame(1, Begin(channel("AB"), A, 0), 0.0)
        b.handle_frame(1, Given(channel("AB"), ((A, 5),), is_answer=True), 0.0)
        assert b.poll_delivery() is None
        b.pass_over(T, A, 3)
        assert b.poll_delivery() == Gap(T, A, 0, 2)

    def test_a_source_that_ends_may_be_replaced_by_one_that_has_more(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        for number, ends in enumerate(("AB", "CB")):
            b.handle_event(TargetOpened(channel(ends)))
            b.handle_frame(number, OpenChannel(channel(ends)), 0.0)
            b.handle_frame(number, Begin(channel(ends), A, 0), 0.0)
        b.handle_frame(0, Given(channel("AB"), ((A, 5),), is_answer=True), 0.0)
        assert b.poll_delivery() is None, "C has not answered"
        b.handle_link_closed(1)
        assert b.poll_delivery() is None, "whoever takes over from C may have them"
        b.handle_event(TargetClosed(channel("CB")))
        assert b.poll_delivery() is None
        b.handle_frame(0, Given(channel("AB"), ((A, 5),), is_answer=False), 0.0)
        assert b.poll_delivery() == Gap(T, A, 0, 4)

    def test_a_channel_that_is_over_is_not_waited_for(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        for number, ends in enumerate(("AB", "CB")):
            b.handle_event(TargetOpened(channel(ends)))
            b.handle_frame(number, OpenChannel(channel(ends)), 0.0)
            b.handle_frame(number, Begin(channel(ends), A, 0), 0.0)
        b.handle_frame(0, Given(channel("AB"), ((A, 5),), is_answer=True), 0.0)
        while b.poll_answer() is not None:
            pass
        b.handle_event(TargetClosed(channel("CB")))
        assert b.poll_answer() == (1, CloseChannel(channel("CB")))
        assert b.poll_delivery() == Gap(T, A, 0, 4)

    def test_a_huge_mark_costs_nothing(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        b.handle_event(TargetOpened(channel("AB")))
        b.handle_frame(1, OpenChannel(channel("AB")), 0.0)
        b.handle_frame(1, Begin(channel("AB"), A, 0), 0.0)
        b.handle_frame(1, Given(channel("AB"), ((A, 1 << 62),), is_answer=True), 0.0)
        assert b.poll_delivery() == Gap(T, A, 0, (1 << 62) - 1)

    def test_nobody_tells_a_node_about_its_own_messages(self) -> None:
        line = Line("AB")
        line.open("AB")
        a = line.nodes["A"]
        back = Channel("P", ("B",), ("A",), T, "B")
        a.handle_event(TargetOpened(back))
        a.handle_frame(1, OpenChannel(back), 0.0)
        a.handle_frame(1, Begin(back, A, 0), 0.0)
        forged = Packet.of(T, A, 0, 0, 0, (Entry("P", "B", "A"),), {}, (b"forged",))
        a.handle_frame(1, Carry(back, forged), 0.0)
        a.handle_frame(1, Given(back, ((A, 1 << 62),), is_answer=True), 0.0)
        assert a.poll_delivery() is None
        a.poll_answer()
        line.publish(3)
        assert line.got["B"] == [0, 1, 2]
        assert [each.number for each in a.holdings.of_topic(T)[A].copies] == [0, 1, 2]

    def test_marks_count_only_from_the_link_that_has_the_channel(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        b.handle_event(TargetOpened(channel("AB")))
        b.handle_frame(1, OpenChannel(channel("AB")), 0.0)
        b.handle_frame(2, Begin(channel("AB"), A, 7), 0.0)
        b.handle_frame(2, Given(channel("AB"), ((A, 9),), is_answer=True), 0.0)
        assert b.counters["unexpected"] == 2
        assert not b.holdings.streams


class TestBeginnings:
    def test_the_first_to_arrive_does_not_decide_where_a_stream_begins(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        b.handle_event(TargetOpened(channel("AB")))
        for number in (1, 0, 2):
            b.handle_frame(1, Carry(channel("AB"), packet(number)), 0.0)
        assert [b.poll_delivery() for _ in range(3)] == [packet(0), packet(1), packet(2)]

    def test_of_two_sources_the_one_that_can_give_more_says_where_a_stream_begins(self) -> None:
        b = Forwarder(scope="P", node="B", life=1, copies_bytes_max=1 << 20)
        for link_number, (ends, first) in enumerate((("AB", 5), ("CB", 2))):
            b.handle_event(TargetOpened(channel(ends)))
            b.handle_frame(link_number, OpenChannel(channel(ends)), 0.0)
            b.handle_frame(link_number, Begin(channel(ends), A, first), 0.0)
        for number in (6, 3, 2):
            b.handle_frame(1, Carry(channel("CB"), packet(number)), 0.0)
        assert [b.poll_delivery() for _ in range(3)] == [packet(2), packet(3), None]

    def test_who_comes_late_begins_where_the_source_says(self) -> None:
        line = Line("ABC", SMALL)
        line.publish(100)
        line.open("BC")
        line.open("AB")
        assert line.got["B"] == list(range(100 - len(line.got["B"]), 100))
        assert 0 < len(line.got["B"]) < 100
        assert line.got["C"] == line.got["B"]

    def test_who_leaves_a_topic_forgets_it_and_goes_on_with_its_own_numbers(self) -> None:
        line = Line("AB")
        line.open("AB")
        line.publish(3)
        line.nodes["A"].handle_event(TopicLeft(T))
        assert not line.nodes["A"].holdings.streams
        line.publish(3)
        assert line.got["B"] == list(range(6))


class TestLinks:
    def test_an_answer_that_comes_after_its_link_was_lost_changes_nothing(self) -> None:
        a = Line("A").nodes["A"]
        a.handle_event(SourceOpened(channel("AB"), (ALL,), link("B")))
        a.publish(T, [b"x"], None, 0.0)
        a.handle_link_lost(link("B"))
        assert a.poll_transmit() is None, "what was queued for it is gone"
        a.handle_answer(link("B"), Have(channel("AB"), ()))
        a.publish(T, [b"x"], None, 0.0)
        assert a.poll_transmit() is None
        assert a.poll_lost() == channel("AB")
        assert a.poll_lost() is None

    def test_a_new_link_to_the_same_node_does_not_have_the_channels_of_the_old_one(self) -> None:
        a = Line("A").nodes["A"]
        other = Channel("P", ("A",), ("B",), "P/other", "A")
        a.handle_event(SourceOpened(channel("AB"), (ALL,), link("B")))
        a.handle_link_lost(link("B"))
        a.handle_event(SourceOpened(other, (ALL,), link("B")))
        a.handle_answer(link("B"), Have(channel("AB"), ()))
        a.handle_event(SourceClosed(other))
        a.publish(T, [b"x"], None, 0.0)
        a.handle_event(SourceClosed(channel("AB")))
        frames = []
        while (out := a.poll_transmit()) is not None:
            frames.append(out[1])
        assert frames == [CloseChannel(other)]

    def test_two_nodes_at_one_address_have_two_links(self) -> None:
        a = Line("A").nodes["A"]
        b, c = Link("tcp", "same", "B"), Link("tcp", "same", "C")
        for ends, where in (("AB", b), ("AC", c)):
            a.handle_event(SourceOpened(channel(ends), (ALL,), where))
            a.handle_answer(where, Have(channel(ends), ()))
        a.handle_link_lost(c)
        while a.poll_transmit() is not None:
            pass
        a.publish(T, [b"x"], None, 0.0)
        out = a.poll_transmit()
        assert out is not None
        assert out[0] == b

    def test_only_the_target_of_a_channel_closes_it(self) -> None:
        a = Line("A").nodes["A"]
        a.handle_event(SourceOpened(channel("AB"), (ALL,), link("B")))
        a.handle_answer(link("Z"), CloseChannel(channel("AB")))
        assert a.poll_lost() is None
        a.handle_answer(link("B"), CloseChannel(channel("AB")))
        assert a.poll_lost() == channel("AB")

    def test_a_message_longer_than_the_queue_goes_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(outlets, "QUEUE_BYTES_MAX", 1_000)
        line = Line("AB")
        line.open("AB")
        line.nodes["A"].publish(T, [b"x" * 5_000], None, 0.0)
        line.publish(3)
        assert line.got["B"] == [0, 1, 2, 3]

    def test_a_message_that_fits_no_frame_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batches, "PAYLOAD_BYTES_MAX", 1_000)
        a = Line("A").nodes["A"]
        with pytest.raises(MessageTooLargeError, match="1,001 bytes, 1,000 are allowed"):
            a.publish(T, [b"x" * 1_001], None, 0.0)
        with pytest.raises(MessageTooLargeError, match="attributes"):
            a.publish(T, [b""], dict.fromkeys(map(str, range(33)), ""), 0.0)
        with pytest.raises(MessageTooLargeError, match="characters"):
            a.publish(T, [b""], {"a": "x" * 256}, 0.0)
        assert a.publish(T, [b""], None, 0.0) == 0, "no number was used up"

    @pytest.mark.parametrize(
        "bad",
        [
            OpenChannel(Channel("P", (), ("B",), T, "A")),
            OpenChannel(Channel("P", ("A",), (), T, "A")),
            OpenChannel(Channel("P", ("A",) * 17, ("B",), T, "A")),
            OpenChannel(Channel("P" * 201, ("A",), ("B",), T, "A")),
            Carry(channel("AB"), Packet.of(T, A, (1 << 63) - 1, 0, 0, (), {}, (b"",))),
            Carry(
                channel("AB"), Packet.of(T, A, 0, 0, 0, (Entry("P", "A", "B"),) * 17, {}, (b"",))
            ),
            Carry(channel("AB"), Packet.of(T, A, 0, 0, 0, (), {"a": "x" * 256}, (b"",))),
            Carry(channel("AB"), Packet.of(T, A, 0, 0, 0, (), {}, (b"",) * 1025)),
            Carry(
                channel("AB"),
                Packet.of(T, A, 0, 0, 0, (), dict.fromkeys("x" * n for n in range(65)), (b"",)),
            ),
            Carry(channel("AB"), Packet.of(T, Sender("P", "x" * 201, 1), 0, 0, 0, (), {}, (b"",))),
        ],
    )
    def test_frames_that_no_node_sends_are_not_understood(self, bad: OpenChannel | Carry) -> None:
        assert parse_frame(encode(bad)) is None


def test_who_lacks_more_than_a_queue_holds_is_told_first_what_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would ask for the same again and again, and get the same as often."""
    one = Line("AB", copies_bytes_max=20_000)
    one.open("AB")
    one.publish(3)
    one.cut("AB")
    one.publish(100)
    size = one.nodes["A"].holdings.of_topic(T)[A].copies[0].size()
    monkeypatch.setattr(outlets, "QUEUE_BYTES_MAX", 8 * size)
    kept = one.nodes["A"].holdings.of_topic(T)[A].kept
    assert 103 - kept > 16, "several queues of copies, and more is gone"
    source, target = one.nodes["A"], one.nodes["B"]
    target.handle_event(TargetOpened(channel("AB")))
    source.handle_event(SourceOpened(channel("AB"), (ALL,), link("B")))
    for _ in range(400):
        if (out := source.poll_transmit()) is not None:
            target.handle_frame(ord("A"), out[1], 0.0)
        if (answer := target.poll_answer()) is not None:
            source.handle_answer(link("B"), answer[1])
    one.settle()
    assert one.got["B"] == [0, 1, 2, (3, kept - 1), *range(kept, 103)]
