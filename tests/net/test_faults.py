"""Faults on purpose: rates, order, determinism, and the way they are written."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.net.faults import (
    FaultError,
    FaultInjector,
    FaultPlan,
    FreezeSchedule,
    parse_faults,
    split_segments,
)

SOURCE = ("127.0.0.1", 5)

rates = st.sampled_from([0.0, 0.02, 0.3, 0.9])
plans = st.builds(
    FaultPlan,
    drop_rate=rates,
    burst_rate=rates,
    burst_length=st.floats(1, 20),
    duplicate_rate=rates,
    reorder_rate=rates,
    reorder_span=st.integers(1, 5),
    delay_s=st.sampled_from([0.0, 0.005]),
    jitter_s=st.sampled_from([0.0, 0.003]),
    seed=st.integers(0, 2**64 - 1),
)


def drive(plan: FaultPlan, batches: list[int], step_s: float = 0.001) -> list[list[int]]:
    """Feed numbered items in batches, one each step; then let all that is held go."""
    injector: FaultInjector[int] = FaultInjector(plan, "test")
    now, number, out = 100.0, 0, []
    for size in batches:
        out.append(injector.filter(list(range(number, number + size)), now))
        number += size
        now += step_s
    while (due := injector.next_release()) is not None:
        now = max(now, due)
        out.append(injector.filter([], now))
    return out


@given(plans, st.lists(st.integers(0, 20), max_size=20))
def test_the_same_seed_does_the_same_damage(plan: FaultPlan, batches: list[int]) -> None:
    """A failure found under faults must be replayable."""
    assert drive(plan, batches) == drive(plan, batches)


@given(plans, st.lists(st.integers(0, 20), max_size=20))
def test_items_are_lost_or_repeated_but_never_invented(plan: FaultPlan, batches: list[int]) -> None:
    """At most two of each leave; without loss and duplicates, exactly one."""
    out = [item for batch in drive(plan, batches) for item in batch]
    total = sum(batches)
    assert all(0 <= item < total for item in out)
    assert all(out.count(item) <= 2 for item in set(out))
    if not (plan.drop_rate or plan.burst_rate or plan.duplicate_rate):
        assert sorted(out) == list(range(total))


@given(st.integers(1, 6), st.integers(0, 1000))
def test_reordering_moves_an_item_back_by_its_span_at_most(span: int, seed: int) -> None:
    """A reordered datagram is late by a few places, not lost in time."""
    plan = FaultPlan(reorder_rate=0.2, reorder_span=span, seed=seed)
    out = [item for batch in drive(plan, [50] * 4) for item in batch]
    for place, item in enumerate(out[:-20]):
        # Others may be late at the same time; each passes at most once.
        assert place - item <= span + sum(1 for other in out[:place] if other > item)


def test_reordering_happens_and_ends_by_itself() -> None:
    """The last datagram of all must not wait for ever to be overtaken."""
    plan = FaultPlan(reorder_rate=0.1, reorder_span=3, seed=3)
    out = [item for batch in drive(plan, [300]) for item in batch]
    assert sorted(out) == list(range(300))
    assert out != list(range(300))


def test_independent_loss_meets_its_rate() -> None:
    """Within four standard deviations of 2 % over 50,000."""
    out = drive(FaultPlan(drop_rate=0.02, seed=11), [50_000])[0]
    assert abs((50_000 - len(out)) - 1000) < 4 * (50_000 * 0.02 * 0.98) ** 0.5


def test_bursts_meet_their_rate_and_their_mean_length() -> None:
    """``loss=2%,burst=10``: 2 % lost over the long run, ten in a row on average."""
    total = 400_000
    kept = set(drive(parse_faults("loss=2%,burst=10,seed=5"), [total])[0])
    bursts = [
        sum(1 for _ in run) for lost, run in groupby(range(total), lambda i: i not in kept) if lost
    ]
    assert 0.016 < sum(bursts) / total < 0.024
    assert 9.0 < sum(bursts) / len(bursts) < 11.0


def test_delay_holds_every_datagram_for_its_time() -> None:
    """Nothing leaves early, and ``next_release`` says when it may."""
    injector: FaultInjector[str] = FaultInjector(FaultPlan(delay_s=0.005))
    assert injector.next_release() is None
    assert injector.filter(["a"], 1.0) == []
    assert injector.filter(["b"], 1.002) == []
    assert injector.next_release() == pytest.approx(1.005)
    assert injector.filter([], 1.0051) == ["a"]
    assert injector.filter([], 1.0071) == ["b"]
    assert injector.next_release() is None


def test_spared_items_pass_untouched() -> None:
    """``kinds=data`` must let tokens live."""
    injector: FaultInjector[int] = FaultInjector(FaultPlan(drop_rate=1.0), "", lambda i: i % 2 == 0)
    assert injector.filter(list(range(6)), 0.0) == [0, 2, 4]
    assert injector.dropped == 3


def test_streams_of_one_plan_are_independent() -> None:
    """Traffic on one socket must not change what happens on another."""
    plan = FaultPlan(drop_rate=0.5, seed=1)
    first: FaultInjector[int] = FaultInjector(plan, "a")
    second: FaultInjector[int] = FaultInjector(plan, "b")
    assert first.filter(list(range(64)), 0.0) != second.filter(list(range(64)), 0.0)


@given(st.binary(max_size=200), st.integers(1, 50))
def test_split_segments_keeps_every_byte(data: bytes, size: int) -> None:
    """Faults act on datagrams, so a coalesced buffer is cut first."""
    parts = split_segments([(data, size, SOURCE), (b"whole", 0, SOURCE)])
    assert parts[-1] == (b"whole", 0, SOURCE)
    assert b"".join(part for part, _, _ in parts[:-1]) == data
    assert all(len(part) == size for part, _, _ in parts[:-2])
    assert all(0 < len(part) <= size and not segment for part, segment, _ in parts[:-1])


def test_freezes_come_once_a_period_and_end() -> None:
    """``sleep=0.5s/5s``: the first after five seconds, half a second long."""
    schedule = FreezeSchedule(parse_faults("sleep=0.5s/5s"), 100.0)
    assert schedule.freeze_until(100.0) is None
    assert schedule.freeze_until(104.9) is None
    assert schedule.freeze_until(105.1) == pytest.approx(105.5)
    assert schedule.freeze_until(105.6) is None
    assert schedule.freeze_until(110.0) == pytest.approx(110.5)
    never = FreezeSchedule(FaultPlan(drop_rate=0.1), 0.0)
    assert never.freeze_until(1e6) is None


def test_a_plan_is_read_from_one_line() -> None:
    """The line in the documentation, part by part."""
    line = "loss=1%,burst=10,dup=0.1%,reorder=1%/4,delay=5ms/1ms,sleep=0.5s/5s,seed=7"
    assert parse_faults(line) == FaultPlan(
        burst_rate=0.01,
        burst_length=10,
        duplicate_rate=0.001,
        reorder_rate=0.01,
        reorder_span=4,
        delay_s=0.005,
        jitter_s=0.001,
        freeze_s=0.5,
        freeze_period_s=5.0,
        seed=7,
    )
    assert parse_faults("loss=0.25, kinds=data, direction=both") == FaultPlan(
        drop_rate=0.25, kinds="data", direction="both"
    )
    assert parse_faults("loss=1%,burst=4,drop=2%") == FaultPlan(
        drop_rate=0.02, burst_rate=0.01, burst_length=4
    )
    assert not parse_faults("").touches_datagrams


@pytest.mark.parametrize(
    "line",
    [
        "loss",
        "loss=",
        "loss=x",
        "loss=nan",
        "loss=120%",
        "loss=1%,loss=2%",
        "loss=1%,drop=2%",
        "burst=10",
        "loss=1%,burst=0.5",
        "loss=100%,burst=3",
        "dup=-1%",
        "reorder=1%/0",
        "delay=5 parsecs",
        "sleep=1s",
        "sleep=5s/1s",
        "seed=1.5",
        "loss=1%/2%",
        "direction=up",
        "kinds=tokens",
        "gremlins=3",
    ],
)
def test_a_bad_plan_is_refused_in_one_line(line: str) -> None:
    """It names the part that is wrong and shows how to write it."""
    with pytest.raises(FaultError) as caught:
        parse_faults(line)
    assert "\n" not in str(caught.value)
    assert "loss=1%" in str(caught.value)
