"""What a sender does about members that do not keep up, without a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.memory import Budget
from quicksilver.multicast.sending.behind import (
    LEAST,
    Behind,
    Drop,
    Keep,
    Patience,
    Wait,
    parse_behind,
)
from quicksilver.multicast.sending.overtaking import AGAIN_S, HELD_UP_S, HoldUp
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.unconfirmed import numbers_in
from quicksilver.stdx.ranges import RangeSet

CHOICES = {
    "wait": Wait(),
    "keep": Keep(),
    "keep:64MB": Keep(64_000_000),
    "keep+slow": Keep(slow=True),
    " KEEP:1GiB+slow ": Keep(1 << 30, slow=True),
    "drop": Drop(),
}


@pytest.mark.parametrize("text", CHOICES)
def test_choices_can_be_written(text: str) -> None:
    assert parse_behind(text) == CHOICES[text]


@pytest.mark.parametrize(
    "text", ["", "blok", "wait:3", "drop+slow", "keep:", "keep+", "keep:+slow", "keep:x", "keep+s"]
)
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"behind|size|unit"):
        parse_behind(text)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=str)
def test_what_is_shown_can_be_read_back(choice: Behind) -> None:
    assert parse_behind(str(choice)) == choice


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Keep(-1)


def test_a_text_is_no_choice_of_a_nodes_settings() -> None:
    """Groups may be given one; there it would only be noticed by the core, and end it."""
    with pytest.raises(ValueError, match="behind is 'wait': it must be"):
        EngineConfig(behind="wait")  # type: ignore[arg-type]


class TestSharing:
    """Groups that share a stream get what the strictest of them asks for."""

    def joined(self, *choices: Behind) -> Patience:
        found = LEAST
        for choice in choices:
            found = found.joined(Patience.of(choice))
        return found

    def test_one_that_waits_makes_all_wait(self) -> None:
        found = self.joined(Drop(), Keep(5, slow=True), Wait())
        assert found.waits_for_silent
        assert found.waits_for_slow

    def test_the_largest_budget_counts(self) -> None:
        assert self.joined(Drop(), Keep(5), Keep(7)).keep_bytes_max == 7
        assert self.joined(Keep(5), Keep()).keep_bytes_max is None

    def test_slow_members_are_left_behind_only_if_nobody_minds(self) -> None:
        assert not self.joined(Drop(), Keep(slow=True)).waits_for_slow
        assert self.joined(Drop(), Keep()).waits_for_slow


def stream_with(*choices: Behind, packets: int = 10) -> SendStream:
    """Return a stream of packets of 1,000 bytes and more, carrying groups with such choices."""
    stream = SendStream(
        cluster=1,
        node=1,
        region=1,
        view=1,
        members=(1, 2, 3),
        destinations=(("239.1.1.1", 7400),),
        config=EngineConfig(),
        counters=Counters(),
        kept=Budget(EngineConfig().keep_bytes_max),
    )
    for choice in choices:
        stream.carry(choice)
    for _ in range(packets):
        stream.commit(0, [bytes(1000)], 1, 0.0)
    return stream


class TestAcknowledgements:
    """Member 3 is silent and has two packets; all others have eight of ten."""

    def acknowledge(self, stream: SendStream) -> None:
        stream.handle_ack(8, RangeSet(), 8, safe=2, laggard=3)

    def test_keep_frees_the_window_and_keeps_the_packets(self) -> None:
        stream = stream_with(Keep())
        self.acknowledge(stream)
        assert stream.packets.window_count() == 2
        assert sorted(stream.packets) == list(range(2, 10))

    def test_wait_frees_only_what_everybody_has(self) -> None:
        stream = stream_with(Keep(), Wait())
        self.acknowledge(stream)
        assert stream.packets.window_count() == 8
        assert stream.packets.aside_bytes == 0

    def test_a_budget_keeps_the_newest(self) -> None:
        stream = stream_with(Keep(3000))
        self.acknowledge(stream)
        assert sorted(stream.packets) == [6, 7, 8, 9]

    def test_drop_keeps_nothing_that_others_have(self) -> None:
        stream = stream_with(Drop())
        self.acknowledge(stream)
        assert sorted(stream.packets) == [8, 9]
        assert stream.gone_among(RangeSet([(0, 10)])) == RangeSet([(0, 8)])


class TestHoldUp:
    """Whoever alone keeps a window full for long is overtaken."""

    def test_the_same_member_for_long_is(self) -> None:
        hold_up = HoldUp()
        told = [hold_up.handle_ack(4, n * 0.01) for n in range(int(HELD_UP_S * 100) + 2)]
        assert told.count(4) == 1
        assert told.index(4) >= HELD_UP_S * 100 - 1

    def test_it_is_told_again_while_it_goes_on(self) -> None:
        hold_up = HoldUp()
        told = [hold_up.handle_ack(4, n * 0.001) for n in range(1000)]
        assert 2 <= told.count(4) <= (1.0 - HELD_UP_S) / AGAIN_S + 1

    def test_members_in_turn_are_not(self) -> None:
        """Every window is full because of somebody; only always the same one is slow."""
        hold_up = HoldUp()
        assert not any(hold_up.handle_ack(4 + n % 3, n * 0.05) for n in range(100))

    def test_a_pause_begins_anew(self) -> None:
        hold_up = HoldUp()
        assert not any(hold_up.handle_ack(4 if n % 10 else 0, n * 0.01) for n in range(200))

    def test_who_was_told_counts_although_another_was_told_since(self) -> None:
        """Where one is slow with tokens, the leader of its ring is taken for slow as well now and
        then; rounds still take long because of the first, which is no reason to be paced."""
        hold_up = HoldUp()
        for n in range(40):
            hold_up.handle_ack(8 if n < 20 else 5, n * 0.01)
        assert hold_up.overtaken == {5, 8}


def test_what_was_dropped_is_not_forgotten_until_all_have_it() -> None:
    """Should the sender be counted out, the messages are told as unconfirmed."""
    stream = stream_with(Drop(), packets=0)
    stream.commit_run(5, 0, 1, [bytes(1000)] * 10, 1, 0.0)
    stream.handle_ack(8, RangeSet(), 8, safe=2, laggard=3)
    assert numbers_in([stream]) == {5: RangeSet([(2, 10)])}
    stream.handle_ack(9, RangeSet(), 9, safe=7, laggard=3)
    assert numbers_in([stream]) == {5: RangeSet([(2, 10)])}, "exact enough while some are lacking"
    stream.handle_ack(10, RangeSet(), 10)
    assert numbers_in([stream]) == {}


class BadDisk:
    """A disk with room for some packets, which can or cannot be read again."""

    def __init__(self, places: int = 1000) -> None:
        self.packets: dict[int, bytes] = {}
        self.places = places
        self.is_readable = True
        self._next = 0

    def write(self, packet: bytes, done: Callable[[int | None], None]) -> None:
        if len(self.packets) >= self.places:
            done(None)
            return
        self._next += 1
        self.packets[self._next] = packet
        done(self._next)

    def read(self, place: int) -> bytes | None:
        return self.packets[place] if self.is_readable else None

    def free(self, place: int) -> None:
        del self.packets[place]


class TestOnDisk:
    """Member 3 has two packets of thirty; a few fit into memory, the others are on disk."""

    def stream_on(self, disk: BadDisk) -> SendStream:
        config = EngineConfig(keep_bytes_max=16_000)
        stream = SendStream(
            cluster=1,
            node=1,
            region=1,
            view=1,
            members=(1, 2, 3),
            destinations=(("239.1.1.1", 7400),),
            config=config,
            counters=Counters(),
            kept=Budget(config.keep_bytes_max),
            disk=disk,
        )
        stream.carry(Keep())
        stream.commit_run(5, 0, 1, [bytes(1000)] * 30, 1, 0.0)
        return stream

    def test_what_cannot_be_read_again_is_gone_and_told(self) -> None:
        disk = BadDisk()
        stream = self.stream_on(disk)
        stream.handle_ack(30, RangeSet(), 30, safe=2, laggard=3)
        assert len(disk.packets) > 20
        lacking = RangeSet([(2, 30)])
        disk.is_readable = False
        assert stream.admit(lacking, 1.0) == lacking
        assert stream.packets.get(2) is None
        assert stream.resend(RangeSet([(2, 5)]), 1.0) == 2
        assert list(stream.gone_among(RangeSet([(2, 5)]))) == [(2, 3)]
        assert numbers_in([stream]) == {5: RangeSet([(2, 30)])}, "nothing is forgotten"

    def test_to_know_what_is_on_disk_takes_memory_of_the_same_budget(self) -> None:
        """However large the disk is; past the budget the oldest are gone, and told."""
        disk = BadDisk()
        stream = self.stream_on(disk)
        budget = stream.packets._budget
        for start in range(30, 330, 30):
            stream.commit_run(5, start, 1, [bytes(1000)] * 30, 1, 0.0)
            stream.handle_ack(start + 30, RangeSet(), start + 30, safe=2, laggard=3)
            assert budget.used == stream.packets.aside_bytes + stream.packets.entry_bytes
            assert budget.used <= budget.limit
        assert len(disk.packets) == len(stream.packets._on_disk) > 40
        assert stream.gone_among(RangeSet([(2, 330)])).first() == 2
        assert stream.packets.dropped[5].first() == 2
        stream.handle_ack(330, RangeSet(), 330)
        assert (budget.used, disk.packets) == (0, {})

    def test_who_is_late_is_given_a_share_whatever_the_disk_does(self) -> None:
        disk = BadDisk()
        stream = self.stream_on(disk)
        stream.handle_ack(30, RangeSet(), 30, safe=2, laggard=3)
        stream.waiting[object()] = None  # type: ignore[index]  # messages wait to be sent
        disk.is_readable = False
        assert stream.admit(RangeSet([(2, 30)]), 1.0).count() == 28

    def test_the_newest_packet_can_be_repeated_though_the_disk_was_full_for_a_while(self) -> None:
        disk = BadDisk(places=0)
        stream = self.stream_on(disk)
        stream.handle_ack(28, RangeSet(), 28, safe=2, laggard=3)
        disk.places = 1000
        for low in (29, 30, 30, 30):
            stream.handle_ack(low, RangeSet(), low, safe=2, laggard=3)
        for safe in range(2, 30):
            stream.handle_ack(30, RangeSet(), 30, safe=safe, laggard=3)
            assert stream.probe(1.0)
            assert stream.poll(1.0) is not None
            disk.is_readable = False
        stream.handle_ack(30, RangeSet(), 30)
        assert not stream.packets
        assert disk.packets == {}


def test_as_long_as_somebody_lacks_a_packet_there_is_one_to_ask_with() -> None:
    """Else a flush would take an empty stream for one that all have acknowledged."""
    stream = stream_with(Drop())
    stream.handle_ack(8, RangeSet([(8, 9)]), 10, safe=8, laggard=3)
    stream.handle_ack(10, RangeSet(), 10, safe=9, laggard=3)
    assert stream.safe == 9
    assert stream.packets, "member 3 lacks packet 9"
