"""Packets that come before the news they belong to: kept briefly, and not without limit."""

from __future__ import annotations

import tracemalloc

from quicksilver.multicast.receiving.early_packets import EarlyPackets

SOURCE = ("10.0.0.9", 7000)


def test_what_waits_is_taken_in_the_order_of_arrival() -> None:
    """A stream that is replayed keeps its order."""
    waiting = EarlyPackets(100_000, 2.0)
    for number in range(3):
        assert waiting.keep((1, 2, 3), b"%d" % number, SOURCE, 0.0)
    assert waiting.keep((1, 3, 3), b"other", SOURCE, 0.0)
    assert waiting.names() == [(1, 2, 3), (1, 3, 3)]
    assert [data for data, _ in waiting.take((1, 2, 3))] == [b"0", b"1", b"2"]
    assert waiting.take((1, 2, 3)) == []
    assert [data for data, _ in waiting.take((1, 3, 3))] == [b"other"]
    assert waiting.bytes == 0


def test_the_room_is_bounded_in_bytes() -> None:
    """Past the limit, packets are refused; taking some makes room again."""
    waiting = EarlyPackets(100_000, 2.0)
    assert waiting.keep((1, 1, 1), bytes(60_000), SOURCE, 0.0)
    assert not waiting.keep((1, 1, 2), bytes(60_000), SOURCE, 0.0)
    assert waiting.keep((1, 1, 2), bytes(30_000), SOURCE, 0.0)
    assert waiting.bytes <= 100_000
    waiting.take((1, 1, 1))
    assert waiting.keep((1, 1, 2), bytes(60_000), SOURCE, 0.0)


def test_what_never_becomes_known_is_forgotten() -> None:
    """Time alone empties the room; packets that keep coming do not extend it."""
    waiting = EarlyPackets(100_000, 2.0)
    waiting.keep((1, 1, 1), b"early", SOURCE, 0.0)
    waiting.keep((1, 1, 2), b"later", SOURCE, 1.0)
    waiting.keep((1, 1, 1), b"again", SOURCE, 1.5)
    assert waiting.next_timeout() == 2.0
    waiting.handle_timeout(2.0)
    assert waiting.names() == [(1, 1, 2)]
    assert waiting.next_timeout() == 3.0
    waiting.handle_timeout(3.0)
    assert waiting.bytes == 0
    assert waiting.next_timeout() is None


def test_memory_is_in_proportion_to_the_limit_even_for_tiny_packets() -> None:
    """36-byte packets of a different stream each must not cost many times their size."""
    limit = 200_000
    tracemalloc.start()
    waiting = EarlyPackets(limit, 2.0)
    number = 0
    while waiting.keep((number, 1, 1), number.to_bytes(36, "big"), SOURCE, 0.0):
        number += 1
        assert number <= limit
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used < 4 * limit
