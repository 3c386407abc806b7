"""Repairs and control packets are wishes until the socket asks for them."""

from __future__ import annotations

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import Sink
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.feeds import (
    BURST_BYTES,
    INTENTS_MAX,
    JOBS_MAX,
    REPAIR_RANGES_MAX,
    ControlFeed,
    RepairFeed,
)
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import FLAG_SINGLE, KIND_REPAIR, POSITION, encode_single
from tests.kit.packets import data_packet

A = ("10.0.0.1", 7000)
B = ("10.0.0.2", 7000)


def copies(*sequences: int, size: int = 100) -> dict[int, bytes]:
    return {
        s: data_packet(FLAG_SINGLE, encode_single(1, s, [size], [bytes(size)]), sequence=s)
        for s in sequences
    }


def numbers(transmit: Transmit | None) -> list[int]:
    assert transmit is not None
    return [POSITION.unpack_from(packet, 20)[0] for packet in transmit.packets]


class TestControlFeed:
    """Wishes to send one control packet each."""

    def test_a_packet_is_made_when_it_is_polled(self) -> None:
        """ "Information created just in time for transmission is fresher" (4.2.2)."""
        feed = ControlFeed(Sink())
        state = ["stale"]
        feed.add(lambda now: Transmit(A, [state[0].encode()]))
        state[0] = "fresh"
        made = feed.poll(0.0)
        assert made is not None
        assert made.packets == [b"fresh"]
        assert feed.poll(0.0) is None

    def test_a_wish_that_is_no_longer_needed_is_passed_over(self) -> None:
        """At the time of transmission it often turns out to be needless (Figure 4.16)."""
        feed = ControlFeed(Sink())
        feed.add(lambda now: None)
        feed.add(lambda now: Transmit(A, [b"needed"]))
        made = feed.poll(0.0)
        assert made is not None
        assert made.packets == [b"needed"]

    def test_wishes_are_bounded(self) -> None:
        """Every one of them is repeated by a later token, so the newest may go."""
        feed = ControlFeed(Sink())
        for number in range(INTENTS_MAX + 5):
            feed.add(lambda now, number=number: Transmit(A, [b"%d" % number]))  # type: ignore[misc]
        left = 0
        while feed.poll(0.0) is not None:
            left += 1
        assert left == INTENTS_MAX


class TestRepairFeed:
    """Copies on their way to nodes that lack them."""

    def test_copies_leave_as_repairs_in_order(self) -> None:
        """The packet is the one that was lost, marked so that it is handled sooner."""
        counters = Counters()
        feed = RepairFeed(Sink(), counters, EngineConfig())
        feed.add(A, b"key", copies(*range(5)), RangeSet([(1, 4)]))
        transmit = feed.poll(0.0)
        assert numbers(transmit) == [1, 2, 3]
        assert transmit is not None
        assert transmit.destination == A
        assert all(packet[1] == KIND_REPAIR for packet in transmit.packets)
        assert counters.repairs_sent == 3
        assert feed.poll(0.0) is None

    def test_asking_twice_is_sending_once(self) -> None:
        """Requests for the same packets join; recovery must not amplify."""
        feed = RepairFeed(Sink(), Counters(), EngineConfig())
        held = copies(*range(5))
        feed.add(A, b"key", held, RangeSet([(1, 3)]))
        feed.add(A, b"key", held, RangeSet([(2, 4)]))
        assert numbers(feed.poll(0.0)) == [1, 2, 3]
        assert feed.poll(0.0) is None

    def test_what_was_forgotten_meanwhile_is_not_sent(self) -> None:
        """A packet that became stable before its turn is gone, and no longer wanted."""
        feed = RepairFeed(Sink(), Counters(), EngineConfig())
        held = copies(*range(6))
        feed.add(A, b"key", held, RangeSet([(0, 6)]))
        for sequence in (0, 2, 5):
            del held[sequence]
        assert numbers(feed.poll(0.0)) == [1, 3, 4]
        assert feed.poll(0.0) is None

    def test_a_long_repair_takes_turns_with_others(self) -> None:
        """One node's long burst does not keep another waiting."""
        feed = RepairFeed(Sink(), Counters(), EngineConfig())
        many = copies(*range(300), size=1000)
        feed.add(A, b"key", many, RangeSet([(0, 300)]))
        feed.add(B, b"key", many, RangeSet([(7, 8)]))
        first = feed.poll(0.0)
        assert first is not None
        assert sum(map(len, first.packets)) < BURST_BYTES + 2000
        assert numbers(feed.poll(0.0)) == [7]
        rest = []
        while (more := feed.poll(0.0)) is not None:
            rest += numbers(more)
        assert numbers(first) + rest == list(range(300))

    def test_a_huge_range_is_not_walked(self) -> None:
        """A request for 2**62 packets is answered with the few that are held."""
        feed = RepairFeed(Sink(), Counters(), EngineConfig())
        feed.add(A, b"key", copies(3, 1 << 40), RangeSet([(0, 1 << 62)]))
        assert numbers(feed.poll(0.0)) == [3, 1 << 40]
        assert feed.poll(0.0) is None

    def test_waiting_repairs_are_bounded(self) -> None:
        """In jobs and in ranges a job; what is dropped is asked for again."""
        feed = RepairFeed(Sink(), Counters(), EngineConfig())
        held = copies(*range(0, 6 * REPAIR_RANGES_MAX, 2), size=0)
        scattered = RangeSet((s, s + 1) for s in range(0, 6 * REPAIR_RANGES_MAX, 2))
        feed.add(A, b"key", held, scattered)
        sent = 0
        while (more := feed.poll(0.0)) is not None:
            sent += len(more.packets)
        assert sent <= REPAIR_RANGES_MAX
        for number in range(JOBS_MAX + 5):
            feed.add(A, b"%d" % number, held, RangeSet([(0, 1)]))
        left = 0
        while feed.poll(0.0) is not None:
            left += 1
        assert left == JOBS_MAX
