"""Packets are runs of messages that everybody may cut as they like: each message counts once."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.holdings import STABLE_SHARE, Holdings
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.routing import Entry
from quicksilver.stdx.ranges import RangeSet

T = "P/T"
A = Sender("P", "A", 1)


def run(first: int, stop: int, sender: Sender = A) -> Packet:
    """A packet whose messages say their numbers."""
    messages = tuple(b"%d" % number for number in range(first, stop))
    return Packet.of(T, sender, first, 7, 0, (Entry("P", "A", "B"),), {}, messages)


def numbers(packets: list[Packet]) -> list[int]:
    """The numbers of messages, which must be what the messages themselves say."""
    found = []
    for packet in packets:
        assert [int(message) for message in packet.split()] == list(
            range(packet.number, packet.stop)
        )
        found += range(packet.number, packet.stop)
    return found


class TestRuns:
    def test_runs_that_overlap_are_trimmed_on_arrival(self) -> None:
        holdings = Holdings(1 << 20)
        assert numbers(holdings.take(run(0, 5)).ready) == [0, 1, 2, 3, 4]
        taken = holdings.take(run(3, 8))
        assert numbers(taken.ready) == [5, 6, 7]
        assert numbers(taken.fresh) == [5, 6, 7], "only what is new goes on to others"
        assert holdings.take(run(1, 8)) == ([], [])

    def test_a_run_that_bridges_early_ones_is_cut_around_them(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.take(run(0, 1))
        holdings.take(run(3, 5))
        holdings.take(run(7, 8))
        (stream,) = holdings.streams.values()
        assert stream.missing(10) == RangeSet([(1, 3), (5, 7), (8, 10)])
        assert (stream.early_count, stream.high) == (3, 8)
        taken = holdings.take(run(0, 10))
        assert numbers(taken.fresh) == [1, 2, 5, 6, 8, 9]
        assert numbers(taken.ready) == list(range(1, 10))
        assert (stream.early_count, holdings.early_bytes) == (0, 0)

    def test_pieces_are_judged_by_filters_as_the_whole_was(self) -> None:
        assert run(0, 5).cut(2, 4).serial == run(0, 5).serial

    def test_a_gap_in_front_of_an_early_run_is_told(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.take(run(0, 2))
        holdings.take(run(5, 9))
        assert holdings.pass_over(T, A, 7) == [Gap(T, A, 2, 4), run(5, 9)]
        assert holdings.streams[T, A].kept == 5  # type: ignore[index]  # a name is a pair


class TestCopies:
    def test_what_is_asked_for_is_given_as_far_as_it_is_here(self) -> None:
        holdings = Holdings(1 << 20)
        for first in (0, 10, 20, 40):
            holdings.take(run(first, first + 10))
        asked = RangeSet([(3, 5), (8, 12), (28, 45), (60, 70)])
        given = holdings.copies(T, A, asked, 1 << 20)
        assert numbers(given) == [3, 4, 8, 9, 10, 11, 28, 29, 40, 41, 42, 43, 44]
        assert holdings.copies(T, Sender("P", "Z", 1), asked, 1 << 20) == []

    def test_no_more_is_given_than_fits(self) -> None:
        holdings = Holdings(1 << 20)
        for first in (0, 10, 20):
            holdings.take(run(first, first + 10))
        two = run(0, 10).size() + run(10, 20).size()
        assert numbers(holdings.copies(T, A, RangeSet([(0, 30)]), two)) == list(range(20))

    def test_of_what_does_not_fit_the_first_message_is_given(self) -> None:
        """Else a long message could never be repaired."""
        holdings = Holdings(1 << 20)
        holdings.take(run(0, 10))
        assert numbers(holdings.copies(T, A, RangeSet([(4, 10)]), 1)) == [4]

    def test_what_is_not_for_this_node_is_skipped_if_nothing_was_delivered(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.begin(T, A, 3)
        for first, stop in ((5, 8), (10, 20), (25, 30)):
            assert not holdings.take(run(first, stop)).ready
        assert numbers(holdings.skip(T, A, 12)) == list(range(12, 20))
        stream = holdings.find(T, A)
        assert stream is not None
        assert (stream.kept, stream.low, stream.high) == (12, 20, 30)
        kept = run(12, 20).size() + run(25, 30).size()
        assert (holdings.bytes, holdings.early_bytes) == (kept, run(25, 30).size())
        assert holdings.skip(T, A, 40) == [], "it has begun"
        assert numbers(holdings.take(run(20, 25)).ready) == list(range(20, 30))

    def test_a_stream_that_was_said_to_begin_somewhere_begins_no_earlier(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.begin(T, A, 20)
        assert holdings.skip(T, A, 20) == []
        assert holdings.begin(T, A, 10).low == 20

    def test_copies_that_everybody_has_go_first(self) -> None:
        room = 10 * run(10, 20).size()
        holdings = Holdings(room)
        other = Sender("P", "B", 1)
        for first in range(10, 60, 10):
            holdings.begin(T, A, 10)
            holdings.take(run(first, first + 10))
        for first in range(10, 60, 10):
            holdings.begin(T, other, 10)
            holdings.take(run(first, first + 10, other))
        holdings.handle_stable(T, other, 35)
        old, new = holdings.of_topic(T)[A], holdings.of_topic(T)[other]
        for first in (60, 70):
            holdings.take(run(first, first + 10))
        assert (old.kept, new.kept) == (10, 30), "A's are older, and nobody else may have them"
        holdings.take(run(80, 90))
        assert (old.kept, new.kept) == (20, 30), "past the stable ones the oldest go"
        assert holdings.bytes <= room

    def test_who_comes_late_gets_what_is_not_everywhere(self) -> None:
        holdings = Holdings(1 << 20)
        holdings.take(run(0, 10))
        holdings.take(run(10, 20))
        holdings.handle_stable(T, A, 13)
        assert numbers(list(holdings.since(T, {}))) == list(range(13, 20))
        assert numbers(list(holdings.since(T, {A: 5}))) == list(range(5, 20))
        holdings.handle_stable(T, A, 99)
        assert holdings.of_topic(T)[A].beginning() == 20


# Against a slow and obvious model


def test_own_messages_go_last() -> None:
    """Nobody else may have them; those of others their senders have."""
    own = Sender("P", "B", 1)
    holdings = Holdings(10 * run(0, 1).size(), own)
    holdings.take(run(0, 1, own))
    for number in range(30):
        holdings.take(run(number, number + 1))
    assert holdings.copies(T, own, RangeSet([(0, 1)]), 1000) != []
    holdings.handle_stable(T, own, 1)
    holdings.take(run(30, 31))
    assert holdings.copies(T, own, RangeSet([(0, 1)]), 1000) == [], "now everybody has it"


class Model:
    """Keeps every message by its number."""

    def __init__(self) -> None:
        self.here: set[int] = set()
        self.low = 0

    def take(self, packet: Packet) -> list[int]:
        self.here |= set(range(packet.number, packet.stop))
        ready = []
        while self.low in self.here:
            ready.append(self.low)
            self.low += 1
        return ready


def test_of_what_everybody_has_little_is_kept() -> None:
    """A part of the budget, the newest; what somebody may lack has all of it."""
    size = run(100, 101).size()
    holdings = Holdings(40 * size * STABLE_SHARE)
    holdings.begin(T, A, 100)
    for number in range(100, 200):
        holdings.take(run(number, number + 1))
    stream = holdings.of_topic(T)[A]
    holdings.handle_stable(T, A, 130)
    assert stream.kept == 100, "there is room for 40"
    holdings.handle_stable(T, A, 190)
    assert stream.kept == 150
    assert holdings.bytes == 50 * size
    for number in range(200, 330):
        holdings.take(run(number, number + 1))
    assert stream.kept == 170, "for what somebody may lack there is more"
    assert holdings.bytes == holdings.bytes_max


spans = st.tuples(st.integers(0, 60), st.integers(1, 12)).map(lambda s: (s[0], s[0] + s[1]))


@given(st.lists(spans, max_size=40))
def test_any_cuts_in_any_order_are_the_same_messages(arriving: list[tuple[int, int]]) -> None:
    holdings, model = Holdings(1 << 20), Model()
    fresh: list[int] = []
    for first, stop in arriving:
        before = set(model.here)
        taken = holdings.take(run(first, stop))
        assert numbers(taken.ready) == model.take(run(first, stop))
        assert numbers(taken.fresh) == sorted(set(range(first, stop)) - before)
        fresh += numbers(taken.fresh)
        stream = holdings.of_topic(T)[A]
        lacking = {n for a, b in stream.missing(80) for n in range(a, b)}
        assert lacking == set(range(model.low, 80)) - model.here
        everything = holdings.copies(T, A, RangeSet([(0, 80)]), 1 << 20)
        assert numbers(everything) == sorted(model.here)
    assert len(fresh) == len(set(fresh))


def test_of_its_own_stream_nothing_is_missing_to_a_node_that_comes_back() -> None:
    """Others may still be agreeing on it, and nobody can give it what it made itself."""
    holdings = Holdings(1 << 20, A)
    holdings.begin(T, A, 0)
    holdings.take(run(0, 5))
    holdings.forget_topic(T)
    assert not holdings.streams
    assert holdings.begin(T, A, 3).low == 5
    other = Sender("P", "B", 1)
    holdings.begin(T, other, 0)
    holdings.take(run(0, 5, other))
    holdings.forget_topic(T)
    assert holdings.begin(T, other, 3).low == 3


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(400, 4_000), st.booleans())
def test_within_any_budget_all_is_delivered_once_in_order(
    seed: int, budget: int, is_stable: bool
) -> None:
    """Random cuts, losses, repeats and reordering; what is refused comes again."""
    rng, holdings = Random(seed), Holdings(budget)
    got: list[int] = []
    for _ in range(2_000):
        if len(got) == 100:
            break
        # Peers give what is missing, from a little before to a good deal after.
        at = max(0, len(got) + rng.randint(-10, 15))
        if rng.random() < 0.3:
            at = len(got)
        if at < 100:
            taken = holdings.take(run(at, min(100, at + rng.randint(1, 8))))
            got += numbers(taken.ready)
        if is_stable and rng.random() < 0.2:
            holdings.handle_stable(T, A, rng.randint(0, len(got)))
        assert 0 <= holdings.early_bytes <= holdings.bytes <= budget
        assert 0 <= holdings._stable_bytes <= budget // STABLE_SHARE
        stream = holdings.of_topic(T).get(A)
        if stream is not None:
            kept = numbers(list(stream.copies))
            assert kept == list(range(stream.kept, stream.low))
    assert got == list(range(100))
    holdings.forget_topic(T)
    assert (holdings.bytes, holdings.early_bytes, holdings.streams) == (0, 0, {})
    assert holdings._stable_bytes == 0
