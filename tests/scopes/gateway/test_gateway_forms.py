"""Messages of a network in packets, and packets as messages of another network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.forms import (
    ENVELOPED,
    SESSION,
    VOID,
    encode_incoming,
    name_sender,
    open_messages,
    parse_sender,
)
from quicksilver.wire.envelope import (
    CARRIED_AFTER,
    CARRIED_SENDER,
    Envelope,
    Kind,
    encode_enveloped,
    parse_enveloped,
)

ALICE = Sender("campus/lan1", "alice:1", 17)


def packet(*messages: bytes, number: int = 5, session: int = 0, **attributes: str) -> Packet:
    return Packet("campus/news", ALICE, number, 0, session, (), attributes, messages)


def incoming(of: Packet, after: int | None = None) -> list[tuple[Envelope, bytes]]:
    found = [parse_enveloped(payload) for payload in encode_incoming(of, after)]
    assert None not in found
    return [each for each in found if each is not None]


def test_a_message_comes_with_the_name_and_number_of_its_sender() -> None:
    (one, a), (two, b) = incoming(packet(b"a", b"b"))
    assert (a, b) == (b"a", b"b")
    assert [(each.kind, each.number) for each in (one, two)] == [
        (Kind.CARRIED, 5),
        (Kind.CARRIED, 6),
    ]
    assert one.headers == {CARRIED_SENDER: "campus/lan1:17:alice:1"}
    assert parse_sender(one.headers[CARRIED_SENDER]) == ALICE


def test_keys_and_headers_arrive_as_they_were_sent() -> None:
    inner = Envelope(b"key", {"tone": "low", "raw": b"\0"})
    whole = packet(encode_enveloped(inner, b"body"), **ENVELOPED)
    ((envelope, body),) = incoming(whole)
    assert body == b"body"
    assert envelope.key == b"key"
    assert envelope.headers == {**inner.headers, CARRIED_SENDER: name_sender(ALICE)}


def test_headers_that_leave_no_room_for_the_sender_are_left_out() -> None:
    """The message is worth more than its headers."""
    full = Envelope(None, {str(n): "x" for n in range(64)})
    ((envelope, body),) = incoming(packet(encode_enveloped(full, b"body"), **ENVELOPED))
    assert body == b"body"
    assert envelope.headers == {CARRIED_SENDER: name_sender(ALICE)}


def test_void_messages_and_bytes_that_lie_are_left_out() -> None:
    assert incoming(packet(b"", b"", **VOID)) == []
    assert incoming(packet(b"no envelope", **ENVELOPED)) == []


def test_the_first_message_after_a_gap_says_where_it_begins() -> None:
    (one, _), (two, _) = incoming(packet(b"a", b"b", session=3), after=2)
    assert one.headers[CARRIED_AFTER] == "2"
    assert CARRIED_AFTER not in two.headers
    assert one.headers[SESSION] == two.headers[SESSION] == "3"


def test_what_programs_outside_of_networks_with_a_gms_see() -> None:
    assert open_messages(packet(b"a")) == [(5, Envelope(), b"a")]
    assert open_messages(packet(b"", **VOID)) == [None]
    inner = encode_enveloped(Envelope(b"k"), b"b")
    assert open_messages(packet(inner, **ENVELOPED)) == [(5, Envelope(b"k"), b"b")]


@given(st.text(max_size=60))
def test_any_header_names_a_sender_or_none(text: str) -> None:
    sender = parse_sender(text)
    if sender is not None:
        assert parse_sender(name_sender(sender)) == sender
