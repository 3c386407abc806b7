"""Answers that wait for their requesters, without a node around them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from quicksilver.multicast.reply_groups import WAITING_BYTES_MAX, ReplyGroup, ReplyGroups


class Lane:
    def __init__(self, room: int) -> None:
        self.room = room
        self.on_room: deque[Callable[[], None]] = deque()


class Sender:
    """How a reply group is sent to, with room for so many bytes."""

    def __init__(self, room: int = 1000) -> None:
        self.lane = Lane(room)
        self.sent: list[bytes] = []

    def take(self, size: int) -> None:
        """The requester takes bytes, and the lane says so."""
        self.lane.room += size
        for _ in range(len(self.lane.on_room)):
            self.lane.on_room.popleft()()


class Bench:
    """Reply groups, and what they asked for."""

    def __init__(self, count_max: int = 10) -> None:
        self.opened: list[ReplyGroup] = []
        self.closed: list[tuple[str, ...]] = []
        self.groups = ReplyGroups(self.opened.append, self.closed.append, self._send, count_max)

    def _send(self, sender: Any, payload: bytes) -> None:
        sender.sent.append(payload)
        sender.lane.room -= len(payload)

    def find(self, name: str) -> ReplyGroup:
        """Return the group that was opened last of a name."""
        return next(group for group in reversed(self.opened) if group.name == name)

    def ready(self, name: str, sender: Any) -> None:
        self.groups.handle_ready(self.find(name), sender)


def test_a_group_is_opened_once_and_gets_what_waited_for_it() -> None:
    bench, sender = Bench(), Sender()
    bench.groups.answer("a", b"1")
    bench.groups.answer("a", b"2")
    assert ([group.name for group in bench.opened], bench.closed) == (["a"], [])
    bench.ready("a", sender)
    bench.groups.answer("a", b"3")
    assert sender.sent == [b"1", b"2", b"3"]


def test_a_requester_that_takes_nothing_holds_up_no_other() -> None:
    bench, slow, quick = Bench(), Sender(room=-1), Sender()
    bench.groups.answer("slow", b"1")
    bench.groups.answer("quick", b"2")
    bench.ready("slow", slow)
    bench.ready("quick", quick)
    assert (slow.sent, quick.sent) == ([], [b"2"])
    slow.take(100)
    assert slow.sent == [b"1"]


def test_answers_stay_in_order_while_room_comes_and_goes() -> None:
    bench, sender = Bench(), Sender(room=0)
    payloads = [bytes([n]) * 10 for n in range(20)]
    for payload in payloads:
        bench.groups.answer("a", payload)
    bench.ready("a", sender)
    while len(sender.sent) < 20:
        sender.take(25)
    assert sender.sent == payloads


def test_whoever_answers_too_much_to_one_requester_is_told_when_there_is_room() -> None:
    bench, sender = Bench(), Sender(room=0)
    told: list[str] = []
    large = bytes(WAITING_BYTES_MAX)
    bench.groups.answer("a", large)
    assert not bench.groups.is_full("a")
    bench.groups.answer("a", b"x")
    assert bench.groups.is_full("a")
    bench.groups.call_with_room("a", lambda: told.append("a"))
    bench.groups.call_with_room("gone", lambda: told.append("gone"))
    assert told == ["gone"]
    bench.ready("a", sender)
    assert told == ["gone", "a"]
    assert not bench.groups.is_full("a")


def test_a_lane_that_was_exchanged_with_a_view_is_used() -> None:
    """Its requester came back as a new node, in another region."""
    bench, sender = Bench(), Sender(room=-1)
    bench.groups.answer("a", b"1")
    bench.ready("a", sender)
    assert sender.sent == []
    sender.lane = Lane(1000)
    bench.groups.handle_view(bench.find("a"))
    assert sender.sent == [b"1"]


def test_past_the_limit_the_group_goes_that_was_not_used_for_longest() -> None:
    """Rather one for which nothing waits."""
    bench = Bench(count_max=2)
    for name in ("waits", "idle"):
        bench.groups.answer(name, b"1")
    bench.ready("idle", Sender())
    bench.groups.answer("new", b"1")
    assert bench.closed == [("idle",)]
    bench.groups.answer("newer", b"1")
    assert bench.closed == [("idle",), ("waits",)]
    assert bench.groups.dropped == bench.groups.crowded_out == 1
    assert len(bench.groups) == 2


def test_a_group_that_is_gone_is_opened_again_and_nobody_waits_for_it() -> None:
    bench = Bench()
    told: list[str] = []
    bench.groups.answer("a", bytes(WAITING_BYTES_MAX + 1))
    bench.groups.call_with_room("a", lambda: told.append("a"))
    bench.groups.handle_gone(bench.find("a"))
    assert (told, bench.groups.dropped, bench.groups.crowded_out) == (["a"], 1, 0)
    bench.groups.answer("a", b"2")
    assert [group.name for group in bench.opened] == ["a", "a"]
    bench.groups.close_all()
    assert bench.closed == [("a",)]
    assert len(bench.groups) == 0


def test_late_news_of_a_group_that_was_given_up_are_none_of_the_next() -> None:
    """A closing takes effect after the group was opened again."""
    bench, before, sender = Bench(), Sender(), Sender()
    bench.groups.answer("a", b"1")
    first = bench.find("a")
    bench.groups.close_all()
    bench.groups.answer("a", b"2")
    bench.groups.handle_ready(first, before)  # type: ignore[arg-type]  # all that is used of it
    bench.groups.handle_view(first)
    bench.groups.handle_gone(first)
    assert (len(bench.groups), before.sent) == (1, [])
    bench.ready("a", sender)
    assert sender.sent == [b"2"]
    bench.groups.close_all()
    assert bench.closed == [("a",), ("a",)]


def test_a_group_that_is_not_opened_in_time_is_given_up_and_an_open_one_is_not() -> None:
    """Handlers wait for a requester that is slow, not for a GMS that is gone."""
    bench = Bench()
    told: list[str] = []
    for name in ("a", "b"):
        bench.groups.answer(name, bytes(WAITING_BYTES_MAX))
        bench.groups.answer(name, b"x")
    bench.ready("b", Sender(room=-1))
    for name in ("a", "b"):
        bench.groups.call_with_room(name, partial(told.append, name))
        bench.groups.close_unopened(name)
    assert (told, bench.closed, bench.groups.dropped) == (["a"], [("a",)], 2)
    assert len(bench.groups) == 1


def test_only_a_group_with_room_and_nothing_waiting_takes_answers_at_once() -> None:
    """Else a later answer would overtake an earlier one."""
    bench, sender = Bench(), Sender(room=5)
    assert bench.groups.find_open("a") is None
    bench.groups.answer("a", b"0123456789")
    assert bench.groups.find_open("a") is None, "it is not open yet"
    bench.ready("a", sender)
    assert bench.groups.find_open("a") is None, "there is no room"
    bench.groups.answer("a", b"x")
    sender.lane.room = 5
    assert bench.groups.find_open("a") is None, "an answer waits"
    sender.take(0)
    found = bench.groups.find_open("a")
    assert found is bench.find("a")
    assert bench.groups.is_current(found)
    bench.groups.close_all()
    bench.groups.answer("a", b"y")
    assert not bench.groups.is_current(found), "what is put there now goes nowhere"


def test_a_group_that_takes_answers_at_once_counts_as_used() -> None:
    bench = Bench(count_max=2)
    for name in ("a", "b"):
        bench.groups.answer(name, b"1")
        bench.ready(name, Sender())
    assert bench.groups.find_open("a") is not None
    bench.groups.answer("c", b"1")
    assert bench.closed == [("b",)]
