"""Who sent what the node echoes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.controller.local_group import Origins

runs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=8)


@given(runs, st.lists(st.integers(1, 7), max_size=40))
def test_echoes_belong_to_whoever_sent_them(runs: list[tuple[int, int]], cuts: list[int]) -> None:
    """Echoes come in the order of sending, cut into packets in any way."""
    origins = Origins()
    sent: list[tuple[int, bytes]] = []
    for application, count in runs:
        payloads = [f"message {len(sent) + place}".encode() for place in range(count)]
        origins.add(application, payloads, is_enveloped=False)
        sent += [(application, payload) for payload in payloads]
    at = 0
    while at < len(sent):
        size = cuts.pop() if cuts else len(sent)
        echoed = sent[at : at + size]
        found = origins.take([payload for _, payload in echoed], is_enveloped=False)
        told = [application for application, start, end in found for _ in range(start, end)]
        assert told == [application for application, _ in echoed]
        at += size


def test_messages_that_are_never_echoed_are_passed_over() -> None:
    """A node that begins anew does not echo what it gives up."""
    origins = Origins()
    origins.add(1, [b"given up", b"also"], is_enveloped=False)
    origins.add(2, [b"lost", b"echoed"], is_enveloped=False)
    assert origins.take([b"echoed"], is_enveloped=False) == [(2, 0, 1)]
    origins.add(3, [b"next"], is_enveloped=False)
    assert origins.take([b"next"], is_enveloped=False) == [(3, 0, 1)]


def test_an_echo_of_nobody_changes_nothing() -> None:
    """A message that was queued before the first application joined is told to all of them."""
    origins = Origins()
    origins.add(1, [b"mine"], is_enveloped=False)
    assert origins.take([b"before"], is_enveloped=False) == [(0, 0, 1)]
    assert origins.take([b"mine"], is_enveloped=False) == [(1, 0, 1)]


def test_envelopes_are_taken_off_before_the_echo() -> None:
    """What was sent begins with the envelope, and ends as what comes back."""
    origins = Origins()
    origins.add(4, [b"\x02\x00headbody"], is_enveloped=True)
    origins.add(5, [b"body"], is_enveloped=False)
    assert origins.take([b"body"], is_enveloped=True) == [(4, 0, 1)]
    assert origins.take([b"body"], is_enveloped=False) == [(5, 0, 1)]
