"""Numbers and forms of what local nodes send, as every gateway sees them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.batches import PAYLOAD_BYTES_MAX
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.gateway.forms import ENVELOPED, PLAIN, VOID
from quicksilver.scopes.gateway.outflow import HOLE_MAX, Outflow, Run
from quicksilver.wire.envelope import Envelope, Kind, encode_enveloped

T = "campus/news"
ALICE = Sender("campus/lan1", "alice", 17)


@pytest.fixture
def outflow() -> Outflow:
    return Outflow(Counter())


def shape(runs: list[Run]) -> list[tuple[int, int, str, bool]]:
    """Return from which number to which each run goes, its form, and whether it is new."""
    return [
        (r.number, r.number + len(r.messages), r.attributes.get("quicksilver", ""), r.is_new)
        for r in runs
    ]


def test_a_gateway_that_comes_later_begins_with_what_it_hears_first(outflow: Outflow) -> None:
    assert outflow.take(T, ALICE, range(7, 9), [b"a", b"b"]) == [
        Run(T, ALICE, 7, PLAIN, [b"a", b"b"], is_new=True)
    ]
    assert shape(outflow.take(T, ALICE, range(9, 10), [b"c"])) == [(9, 10, "", False)]


def test_messages_with_headers_keep_them_and_their_place(outflow: Outflow) -> None:
    outflow.take(T, ALICE, [0], [b"a"])
    tone = Envelope(b"key", {"tone": "low"})
    (run,) = outflow.take(T, ALICE, [1, 2], [b"b", b"c"], [tone, tone])
    assert (run.attributes, run.number) == (ENVELOPED, 1)
    assert run.messages == [encode_enveloped(tone, b"b"), encode_enveloped(tone, b"c")]


@pytest.mark.parametrize("kind", [Kind.REQUEST, Kind.ANSWER, Kind.RETAINED, Kind.CARRIED])
def test_what_means_nothing_elsewhere_is_void(outflow: Outflow, kind: Kind) -> None:
    """Whoever heard a value that was sent again for newcomers says the same as who did not."""
    outflow.take(T, ALICE, [0], [b"a"])
    envelopes = [Envelope(), Envelope(None, {}, kind), Envelope()]
    runs = outflow.take(T, ALICE, [1, 2, 3], [b"b", b"c", b"d"], envelopes)
    assert shape(runs) == [
        (1, 2, "envelope", False),
        (2, 3, "void", False),
        (3, 4, "envelope", False),
    ]


def test_numbers_that_were_not_heard_are_void(outflow: Outflow) -> None:
    """A value that was sent again for newcomers is not delivered to those who had it."""
    outflow.take(T, ALICE, [0], [b"a"])
    runs = outflow.take(T, ALICE, [3, 4, 6], [b"d", b"e", b"g"])
    assert shape(runs) == [
        (1, 3, "void", False), (3, 5, "", False), (5, 6, "void", False), (6, 7, "", False),
    ]  # fmt: skip


def test_too_many_of_them_were_missed_and_others_may_have_them(outflow: Outflow) -> None:
    outflow.take(T, ALICE, [0], [b"a"])
    runs = outflow.take(T, ALICE, [HOLE_MAX + 2], [b"d"])
    assert shape(runs) == [(HOLE_MAX + 2, HOLE_MAX + 3, "", True)]


def test_what_is_too_long_for_other_networks_is_void() -> None:
    counters: Counter[str] = Counter()
    outflow = Outflow(counters)
    runs = outflow.take(T, ALICE, range(2), [bytes(PAYLOAD_BYTES_MAX), b"b"])
    assert shape(runs) == [(0, 1, "void", True), (1, 2, "", False)]
    assert counters["local_too_long"] == 1


def test_a_sender_that_begins_at_zero_again_is_not_believed() -> None:
    counters: Counter[str] = Counter()
    outflow = Outflow(counters)
    outflow.take(T, ALICE, range(5), [b"x"] * 5)
    assert outflow.take(T, ALICE, range(2), [b"y"] * 2) == []
    assert counters["local_again"] == 2
    assert shape(outflow.take(T, ALICE, [5], [b"z"])) == [(5, 6, "", False)]


def test_a_topic_that_ended_begins_anew(outflow: Outflow) -> None:
    outflow.take(T, ALICE, range(5), [b"x"] * 5)
    outflow.forget(T)
    assert shape(outflow.take(T, ALICE, [9], [b"z"])) == [(9, 10, "", True)]


@given(st.lists(st.integers(0, 40), min_size=1, unique=True).map(sorted), st.data())
def test_runs_have_every_number_once(numbers: list[int], data: st.DataObject) -> None:
    """However packets were cut, and whatever is missing between."""
    outflow = Outflow(Counter())
    heard: list[Run] = []
    rest = numbers
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        part, rest = rest[:count], rest[count:]
        payloads = [str(number).encode() for number in part]
        kinds = [data.draw(st.sampled_from([Kind.MESSAGE, Kind.REQUEST])) for _ in part]
        envelopes = [Envelope(None, {}, kind) for kind in kinds]
        has_envelopes = data.draw(st.booleans())
        heard += outflow.take(T, ALICE, part, payloads, envelopes if has_envelopes else None)
    got = [n for run in heard for n in range(run.number, run.number + len(run.messages))]
    assert got == list(range(numbers[0], numbers[-1] + 1))
    for run in heard:
        if run.attributes == PLAIN:
            assert list(run.messages) == [
                str(run.number + at).encode() for at in range(len(run.messages))
            ]
        if run.attributes == VOID:
            assert set(run.messages) == {b""}
