"""What the START of a stream names: all that members may still have to deliver first."""

from __future__ import annotations

from types import SimpleNamespace

from quicksilver.core.pull import Sink
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.memory import Budget
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.outgoing import Outgoing
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import FLAG_SINGLE


class Bench:
    """The sending half of a node with streams made by hand."""

    def __init__(self) -> None:
        self.config = EngineConfig()
        self.counters = Counters()
        self.failed: set[int] = set()
        host = SimpleNamespace(
            node=1,
            config=self.config,
            counters=self.counters,
            tally=None,
            is_failed=self.failed.__contains__,
        )
        sink = Sink()
        self.outgoing = Outgoing(host, sink, sink)  # type: ignore[arg-type]  # no more is asked
        self.group = GroupSender("g", self.outgoing.idle_lane())

    def stream(self, region: int) -> SendStream:
        return SendStream(
            cluster=1,
            node=1,
            region=region,
            view=1,
            members=(1, 2, 3),
            destinations=(("239.0.0.1", 7400),),
            config=self.config,
            counters=self.counters,
            kept=Budget(1 << 20),
        )

    def move(self, *streams: SendStream) -> None:
        """Let the group's next messages go to other streams."""
        self.outgoing._precedence.put_after(streams, self.group.streams_before)
        self.group.streams_before = streams

    def opens(self, stream: SendStream) -> list[tuple[int, int]]:
        """Return regions and packets that a START names now."""
        named = self.outgoing._commitments.predecessors(stream)
        stream.after.clear()
        send(stream)
        return [(region, packets) for region, _, packets in named]


def send(stream: SendStream, count: int = 1) -> None:
    for _ in range(count):
        stream.commit(FLAG_SINGLE, [b"packet"], 1, 0.0)


def acknowledge(stream: SendStream) -> None:
    stream.handle_ack(stream.next_sequence, RangeSet(), 0)


def test_what_is_acknowledged_and_waits_for_an_older_stream_is_not_overtaken() -> None:
    """Members have all of the second stream, and may not deliver it before the first."""
    bench = Bench()
    first, second, third = (bench.stream(region) for region in (1, 2, 3))
    bench.move(first)
    send(first, 4)
    bench.move(second)
    assert bench.opens(second) == [(1, 4)]
    acknowledge(second)
    bench.move(third)
    assert bench.opens(third) == [(1, 4)]


def test_nothing_is_named_that_was_delivered_and_nothing_remembered() -> None:
    bench = Bench()
    first, second, third = (bench.stream(region) for region in (1, 2, 3))
    bench.move(first)
    send(first)
    bench.move(second)
    bench.opens(second)
    acknowledge(first)
    acknowledge(second)
    bench.move(third)
    assert bench.opens(third) == []
    assert not second.before
    assert not third.before


def test_the_last_piece_of_a_large_message_makes_new_streams_wait_for_all_of_it() -> None:
    """Its group has moved meanwhile, and other groups' packets took numbers between."""
    bench = Bench()
    old, new = bench.stream(1), bench.stream(2)
    bench.move(old)
    send(old, 2)
    bench.move(new)
    assert bench.opens(new) == [(1, 2)]
    send(old, 5)
    bench.outgoing._commitments.handle_fragmented(bench.group, (old,))
    assert list(new.after) == [old]
    assert bench.opens(new) == [(1, 7)]


def test_a_stream_given_up_is_named_as_long_as_its_members_live() -> None:
    """Whoever lacks some of it must hear of it."""
    bench = Bench()
    first, second, third = (bench.stream(region) for region in (1, 2, 3))
    bench.move(first)
    send(first, 3)
    first.close(0.0)
    bench.outgoing.streams.give_up(first)
    bench.move(second)
    assert bench.opens(second) == [(1, 3)]
    bench.failed.update((2, 3))
    bench.outgoing.streams.abandon_unheard()
    acknowledge(second)
    bench.move(third)
    assert bench.opens(third) == []
