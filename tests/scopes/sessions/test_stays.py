"""Who comes back to a topic is not given again what it had when it left."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.sessions import stays
from quicksilver.scopes.sessions.stays import Stays

A, B = Sender("X", "A", 1), Sender("X", "B", 1)


def packet(first: int, stop: int, sender: Sender = A, topic: str = "X/t") -> Packet:
    messages = tuple(b"%d" % number for number in range(first, stop))
    return Packet.of(topic, sender, first, 0, 0, (), {}, messages)


def test_what_came_before_is_left_out() -> None:
    known = Stays()
    known.handle_left("X/t", {A: 5})
    assert known.lacking(packet(0, 3)) is None
    assert known.lacking(Gap("X/t", A, 3, 4)) is None
    assert known.lacking(packet(3, 8)) == packet(5, 8)
    assert known.lacking(packet(8, 9)) == packet(8, 9)


def test_a_gap_is_told_as_far_as_it_is_new() -> None:
    known = Stays()
    known.handle_left("X/t", {A: 5})
    assert known.lacking(Gap("X/t", A, 3, 7)) == Gap("X/t", A, 5, 7)


def test_each_stream_of_each_topic_has_its_own_mark() -> None:
    known = Stays()
    known.handle_left("X/t", {A: 5})
    for other in (packet(0, 3, B), packet(0, 3, A, "X/other")):
        assert known.lacking(other) == other


def test_a_second_stay_that_got_nothing_changes_nothing() -> None:
    known = Stays()
    known.handle_left("X/t", {A: 5})
    known.handle_left("X/t", {A: 2})
    assert known.lacking(packet(2, 5)) is None


def test_what_is_remembered_is_bounded() -> None:
    known = Stays()
    for number in range(stays.MARKS_MAX + 1):
        known.handle_left(f"X/{number}", {A: 1})
    assert known.lacking(packet(0, 1, A, "X/0")) == packet(0, 1, A, "X/0")
    assert known.lacking(packet(0, 1, A, "X/1")) is None
