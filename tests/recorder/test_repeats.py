"""What a recorder remembers of jobs' rows is bounded, whatever numbers they have."""

from __future__ import annotations

import pyarrow as pa

from quicksilver.recorder.envelope import Origin, pack_origin
from quicksilver.recorder.repeats import BATCH_RANGES_MAX, RANGES_MAX, Repeats


def origin(row: int, *, query: int = 1, batch: int = 0, partition: int = 0) -> Origin:
    return Origin(query.to_bytes(16, "little"), batch, partition, row)


def test_a_batch_full_of_gaps_is_remembered_by_its_newest_rows() -> None:
    """Rows that follow each other are one range; whoever leaves gaps must not fill the memory."""
    repeats = Repeats()
    count = 20 * BATCH_RANGES_MAX
    for number in range(count):
        assert repeats.is_new(origin(2 * number))
        assert repeats.range_count <= BATCH_RANGES_MAX
    newest = range(count - BATCH_RANGES_MAX // 4, count)
    assert not any(repeats.is_new(origin(2 * number)) for number in newest)
    assert repeats.is_new(origin(0)), "what was forgotten is taken rather than lost"
    assert not repeats.is_new(origin(0))


def test_no_number_of_batches_takes_more_than_the_budget() -> None:
    """Those heard of longest ago are forgotten; the one that is spoken of is not."""
    repeats = Repeats()
    gaps = BATCH_RANGES_MAX // 2
    queries = 3 * RANGES_MAX // gaps
    for query in range(queries):
        for number in range(gaps):
            assert repeats.is_new(origin(2 * number, query=query))
        assert repeats.range_count <= RANGES_MAX
        assert not repeats.is_new(origin(0, query=query))
    assert repeats.range_count == sum(len(flat) // 2 for *_, flat in repeats.state())
    assert repeats.is_new(origin(0, query=0))


def test_the_budget_holds_for_what_is_restored_too() -> None:
    """From the rows of a log, and from a memory file of a time without limits."""
    numbers = range(0, 6 * BATCH_RANGES_MAX, 2)
    from_log, from_memory = Repeats(), Repeats()
    packed = [pack_origin(origin(number)) for number in numbers]
    from_log.add_column(pa.array(packed, pa.binary(36)))
    flat = [part for number in numbers for part in (number, 1)]
    from_memory.restore([(origin(0).query, 0, 0, flat)])
    for repeats in (from_log, from_memory):
        assert repeats.range_count <= BATCH_RANGES_MAX
        assert not repeats.is_new(origin(numbers[-1]))
