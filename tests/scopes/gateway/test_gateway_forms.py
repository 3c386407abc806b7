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
    open_envelopes,
)
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages

ALICE = Sender("campus/lan1", "alice:1", 17)


def packet(*messages: bytes, number: int = 5, session: int = 0, **attributes: str) -> Packet:
    return Packet.of("campus/news", ALICE, number, 0, session, (), attributes, messages)


def opened(payloads: list[bytes]) -> tuple[Messages, list[Envelope]]:
    messages, envelopes, bad = open_envelopes(Messages(NodeId(1), 0, payloads, GroupId(2), 0), 2)
    assert bad == 0
    return messages, envelopes


def incoming(of: Packet, after: int | None = None) -> list[tuple[Envelope, bytes]]:
    payloads, count = encode_incoming(of, after)
    messages, envelopes = opened(payloads)
    assert count == len(messages)
    return list(zip(envelopes, messages.payloads, strict=True))


def test_a_message_comes_with_the_name_and_number_of_its_sender() -> None:
    (one, a), (two, b) = incoming(packet(b"a", b"b"))
    assert (a, b) == (b"a", b"b")
    assert one is two, "one envelope for a run, with the number of the first"
    assert (one.kind, one.number) == (Kind.CARRIED, 5)
    assert one.headers == {CARRIED_SENDER: "campus/lan1:17:alice:1"}
    assert parse_sender(one.headers[CARRIED_SENDER]) == ALICE


def test_runs_are_no_longer_than_packets_of_the_network_and_numbered_on() -> None:
    """A long message goes alone; which run a message is in makes no difference to anybody."""
    messages = [b"a" * 40, b"b" * 40, b"c" * 500, b"d" * 40, b"", b"e" * 40]
    payloads, count = encode_incoming(packet(*messages), None, 90, 200)
    assert count == len(messages)
    assert [len(payload) > 200 for payload in payloads] == [False, True, False]
    found, envelopes = opened(payloads)
    assert found.payloads == messages
    assert found.sequences == list(range(90, 96))
    assert [each.number for each in envelopes] == [5, 5, 7, 8, 8, 8]


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
