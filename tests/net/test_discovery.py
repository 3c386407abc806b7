"""Questions for a GMS and their answers, as bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.net.discovery import (
    QUESTION_BYTES,
    encode_answer,
    encode_question,
    parse_answer,
    parse_question,
)
from quicksilver.net.discovery_answers import ANSWERS_PER_S, Allowance, Responder

NONCE = b"12345678"


class Wire:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, tuple[str, int]]] = []

    def sendto(self, data: bytes, address: tuple[str, int]) -> None:
        self.sent.append((data, address))


def responder(host: str) -> tuple[Responder, Wire]:
    made, wire = Responder((host, 7401)), Wire()
    made._transport = wire  # type: ignore[assignment]
    return made, wire


def test_a_question_is_answered_to_whoever_asked() -> None:
    made, wire = responder("0.0.0.0")
    made.datagram_received(encode_question(NONCE), ("10.0.0.5", 5000))
    [(data, to)] = wire.sent
    assert to == ("10.0.0.5", 5000)
    assert parse_answer(data, NONCE, "10.0.0.1") == ("10.0.0.1", 7401)


def test_an_answer_is_never_longer_than_its_question() -> None:
    """Nobody can use a GMS to send more bytes than were sent to it."""
    answer = encode_answer(NONCE, "a" * 500, 65535)
    assert len(answer) <= len(encode_question(NONCE)) == QUESTION_BYTES


def test_a_gms_that_only_this_machine_reaches_answers_only_this_machine() -> None:
    made, wire = responder("127.0.0.1")
    made.datagram_received(encode_question(NONCE), ("10.0.0.5", 5000))
    assert wire.sent == []
    made.datagram_received(encode_question(NONCE), ("127.0.0.1", 5000))
    assert parse_answer(wire.sent[0][0], NONCE, "127.0.0.1") == ("127.0.0.1", 7401)


def test_answers_are_limited_in_number() -> None:
    allowance = Allowance(ANSWERS_PER_S)
    assert sum(allowance.take(100.0) for _ in range(1000)) == ANSWERS_PER_S
    assert sum(allowance.take(100.5) for _ in range(1000)) == ANSWERS_PER_S // 2


@given(st.binary(max_size=200))
def test_anything_else_is_ignored(data: bytes) -> None:
    if parse_question(data) is None:
        made, wire = responder("0.0.0.0")
        made.datagram_received(data, ("10.0.0.5", 5000))
        assert wire.sent == []
        assert made.ignored == 1
    assert parse_answer(data, NONCE, "10.0.0.1") is None or data[5:13] == NONCE


@given(st.binary(max_size=40))
def test_an_answer_whose_host_makes_no_sense_is_ignored(host: bytes) -> None:
    data = encode_answer(NONCE, "", 7401)[:-1] + bytes([len(host)]) + host
    found = parse_answer(data, NONCE, "10.0.0.1")
    if found is not None:
        assert found[0].replace(".", "").replace("-", "").isalnum()


def test_an_answer_to_another_question_is_ignored() -> None:
    assert parse_answer(encode_answer(b"87654321", "", 7401), NONCE, "10.0.0.1") is None
