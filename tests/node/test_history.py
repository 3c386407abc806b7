"""Late joiners: history and live merged, against a model of what was sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.node.history import Catchup, HistoryState
from quicksilver.node.messages import Batch
from quicksilver.stdx.ranges import RangeSet

CLUSTER = 7


def run_of(sender: int, first: int, past: int) -> Batch:
    payloads = [b"%d" % number for number in range(first, past)]
    return Batch("g", sender, 1, payloads, first, None, CLUSTER)


class Log:
    """A history that grows: runs of senders in the order of their recording."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def record(self, sender: int, first: int, past: int) -> None:
        self.rows += [(sender, number) for number in range(first, past)]

    def state(self) -> HistoryState:
        coverage: dict[tuple[int, int], RangeSet] = {}
        for sender, number in self.rows:
            coverage.setdefault((CLUSTER, sender), RangeSet()).add(number, number + 1)
        return HistoryState(len(self.rows), coverage)

    def read(self, offset: int, count: int) -> tuple[list[Batch], int]:
        some = self.rows[offset : offset + count]
        return [run_of(sender, number, number + 1) for sender, number in some], offset + len(some)


class Joiner:
    """Drives a catch-up as the shells do, one step at a time."""

    def __init__(self, log: Log, **limits: float) -> None:
        self.log = log
        self.now = 0.0
        self.catchup = Catchup(0.0, **limits)  # type: ignore[arg-type]
        self.got: dict[int, list[int]] = {}

    def live(self, sender: int, first: int, past: int) -> None:
        self.catchup.handle_live(run_of(sender, first, past), self.now)

    def step(self, count: int = 3) -> None:
        self.now += 0.3
        catchup = self.catchup
        if catchup.offset < catchup.past:
            catchup.handle_rows(*self.log.read(catchup.offset, count))
        elif not catchup.is_caught_up:
            catchup.handle_state(self.log.state(), self.now)
        else:
            return
        if catchup.offset >= catchup.past:
            catchup.handle_end(self.now)

    def drain(self) -> None:
        while (batch := self.catchup.poll_batch()) is not None:
            for message in batch:
                assert message.payload == b"%d" % message.sequence
                self.got.setdefault(message.sender, []).append(message.sequence)

    def finish(self) -> None:
        for _ in range(500):
            self.step()
            self.drain()
            if self.catchup.is_caught_up:
                return
        raise AssertionError("it never catches up")


@st.composite
def meetings(draw: st.DrawFn) -> tuple[dict[int, tuple[int, int]], list[int], bool, int]:
    senders = draw(
        st.dictionaries(
            st.integers(1, 3), st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1
        )
    )
    chunks = draw(st.lists(st.integers(0, 40), min_size=30, max_size=30))
    return senders, chunks, draw(st.booleans()), draw(st.sampled_from([200, 1 << 20]))


@given(meeting=meetings())
def test_history_and_live_are_one_stream_per_sender(
    meeting: tuple[dict[int, tuple[int, int]], list[int], bool, int],
) -> None:
    """Whatever the interleaving, gaps that were filled late, and however little may be held."""
    senders, chunks, fills_late, held_bytes_max = meeting
    log = Log()
    for sender, (before, _) in senders.items():
        middle = before // 2
        if fills_late and held_bytes_max > 1000:
            log.record(sender, middle, before)
            log.record(sender, 0, middle)
        else:
            log.record(sender, 0, before)
    joiner = Joiner(log, held_bytes_max=held_bytes_max, wait_s=1e9)
    sent = {sender: before for sender, (before, _) in senders.items()}
    recorded = dict(sent)
    for chunk in chunks:
        sender = sorted(senders)[chunk % len(senders)]
        end = sum(senders[sender])
        match chunk % 4:
            case 0:
                past = min(end, sent[sender] + 1 + chunk // 8)
                if past > sent[sender]:
                    joiner.live(sender, sent[sender], past)
                    sent[sender] = past
            case 1:
                log.record(sender, recorded[sender], sent[sender])
                recorded[sender] = sent[sender]
            case 2:
                joiner.step()
            case _:
                joiner.drain()
    for sender in senders:
        log.record(sender, recorded[sender], sent[sender])
    joiner.finish()
    assert joiner.got == {sender: list(range(past)) for sender, past in sent.items() if past}
    assert joiner.catchup.missing == 0


def test_what_history_lacks_is_counted_after_a_while() -> None:
    """A recorder that was down cannot tell; the joiner goes on, and says how much is missing."""
    log = Log()
    log.record(1, 0, 10)
    joiner = Joiner(log, wait_s=2.0)
    joiner.live(1, 15, 20)
    joiner.finish()
    assert joiner.got == {1: [*range(10), *range(15, 20)]}
    assert joiner.catchup.missing == 5


def test_a_hole_in_history_is_counted_and_does_not_wait() -> None:
    """Between two recordings nobody listened."""
    log = Log()
    log.record(1, 3, 5)
    log.record(1, 9, 12)
    joiner = Joiner(log)
    joiner.finish()
    assert joiner.got == {1: [3, 4, 9, 10, 11]}
    assert joiner.catchup.missing == 4


def test_a_new_sender_waits_for_nothing() -> None:
    """Its first message says that there is nothing before it."""
    joiner = Joiner(Log(), settle_s=1e9)
    joiner.step()
    joiner.live(5, 0, 3)
    joiner.drain()
    assert joiner.got == {5: [0, 1, 2]}


def test_nothing_live_comes_before_history() -> None:
    """Also not from a sender that history does not know."""
    log = Log()
    log.record(1, 0, 9)
    joiner = Joiner(log)
    joiner.live(5, 0, 3)
    joiner.drain()
    assert joiner.got == {}
    joiner.finish()
    assert list(joiner.got) == [1, 5]


def test_live_flows_while_history_is_read_again_for_another_sender() -> None:
    """One sender's gap is not another's delay."""
    log = Log()
    log.record(1, 0, 3)
    log.record(2, 0, 3)
    joiner = Joiner(log, wait_s=1e9)
    for _ in range(12):
        joiner.step()
    joiner.live(1, 5, 6)
    joiner.live(2, 3, 4)
    joiner.drain()
    assert joiner.got == {1: [0, 1, 2], 2: [0, 1, 2, 3]}
    log.record(1, 3, 6)
    joiner.finish()
    assert joiner.got[1] == [0, 1, 2, 3, 4, 5]
