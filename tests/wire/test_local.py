"""What passes between applications and the controller of their machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.wire import local

payloads = st.lists(st.binary(max_size=40), min_size=1, max_size=20)
equal_payloads = st.integers(0, 30).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=20)
)


@given(
    st.one_of(payloads, equal_payloads),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**40),
)
def test_messages_come_out_as_they_went_in(
    payloads: list[bytes], is_numbered: bool, is_enveloped: bool, origin: int, first: int
) -> None:
    """Whatever their lengths and numbers."""
    numbers = tuple(first + 3 * place for place in range(len(payloads))) if is_numbered else ()
    body = local.encode_batch(
        7, origin, 9, 11, 0 if numbers else first, numbers, payloads, is_enveloped=is_enveloped
    )
    found = local.parse_batch(memoryview(body))
    assert found == (7, origin, 9, 11, 0 if numbers else first, numbers, payloads, is_enveloped)


@given(st.one_of(payloads, equal_payloads), st.integers(0, 1000), st.booleans())
def test_what_applications_send_comes_out_as_it_went_in(
    payloads: list[bytes], group: int, is_enveloped: bool
) -> None:
    """The other way."""
    body = local.encode_sent(group, payloads, is_enveloped=is_enveloped)
    assert local.parse_sent(memoryview(body)) == (group, payloads, is_enveloped)


@given(
    st.binary(max_size=200),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), max_size=6),
)
def test_bytes_that_lie_are_refused(garbage: bytes, scribbles: list[tuple[int, int]]) -> None:
    """A parser returns messages that are in the bytes, or raises ValueError; nothing else."""
    body = bytearray(local.encode_batch(1, 2, 3, 4, 5, (), [b"one", b"three", b""]))
    for at, value in scribbles:
        body[at % len(body)] = value
    for data in (garbage, bytes(body)):
        for parse in (local.parse_batch, local.parse_sent):
            try:
                found = parse(memoryview(data))
            except ValueError:
                continue
            assert sum(map(len, found.payloads if parse is local.parse_batch else found[1])) <= len(
                data
            )


def test_a_short_record_does_not_declare_billions_of_messages() -> None:
    """Empty messages take no bytes: their number is limited for itself."""
    body = bytearray(local.encode_sent(1, [b""], is_enveloped=False))
    body[4:8] = b"\xff\xff\xff\x7f"
    with pytest.raises(ValueError, match="number of messages"):
        local.parse_sent(memoryview(bytes(body)))


@given(st.binary(max_size=100))
def test_frames_that_lie_are_nothing(data: bytes) -> None:
    """Whoever gets None ends the connection."""
    local.parse_application(data)
    local.parse_controller(data)


def test_a_request_with_too_many_names_is_nothing() -> None:
    """Every table has a limit."""
    names = tuple(map(str, range(local.NAMES_MAX + 1)))
    frame = local.encode(local.Subscribe(request=1, join=names))
    assert local.parse_application(frame) is None
    frame = local.encode(local.Subscribe(request=1, join=names[1:]))
    assert local.parse_application(frame) is not None
