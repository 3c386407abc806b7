"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.units import (
    format_bytes,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1000", 1000),
        ("1k", 1000),
        ("64MiB", 64 << 20),
        ("1.5 KiB", 1536),
        (" 2 gb ", 2 * 10**9),
        ("0", 0),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes_are_read(text: str, count: int) -> None:
    """Decimal and binary units, spaces, case, and integers beyond a float."""
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", 0.02), ("1.5s", 1.5), ("3", 3.0), ("2min", 120.0), ("5µs", 5e-6)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    """Units from nanoseconds to days; none means seconds."""
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "MiB", "-1k", "1e9", "12 parsecs", "1.2.3", "nan"])
def test_what_is_no_quantity_is_refused_with_the_text(text: str) -> None:
    """One line that quotes the input and says what would be accepted."""
    for parse in (parse_bytes, parse_seconds):
        with pytest.raises(ValueError, match=r"such as|unknown unit") as caught:
            parse(text)
        assert repr(text)[1:-1] in str(caught.value)
        assert "\n" not in str(caught.value)


def test_fractions_of_a_byte_are_refused() -> None:
    """Rounding silently would hide a mistake of a thousand."""
    with pytest.raises(ValueError, match="whole number"):
        parse_bytes("0.5")


def test_endless_input_is_not_quoted_in_full() -> None:
    """The message of an error stays one readable line."""
    with pytest.raises(ValueError, match=r"\.\.\.") as caught:
        parse_bytes("9" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (format_bytes(64 << 20), "64 MiB"),
        (format_bytes(1536), "1.5 KiB"),
        (format_bytes(0), "0 B"),
        (format_bytes((1 << 20) - 1), "1 MiB"),
        (format_bytes(-2048), "-2 KiB"),
        (format_rate(1.3e6), "1.3 MB/s"),
        (format_rate(930e3, "msg"), "930 kmsg/s"),
        (format_rate(999_999), "1 MB/s"),
        (format_seconds(0.02), "20 ms"),
        (format_seconds(1.5), "1.5 s"),
        (format_seconds(125), "2 min 5 s"),
        (format_seconds(3 * 3600 + 60), "3 h 1 min"),
        (format_seconds(3e-6), "3 µs"),
        (format_seconds(59.97), "1 min"),
        (format_seconds(0), "0 s"),
    ],
)
def test_quantities_are_written_short(made: str, text: str) -> None:
    """Three significant digits, the unit that keeps the number small."""
    assert made == text


@given(st.integers(0, 2**60))
def test_a_written_size_reads_back_to_about_itself(count: int) -> None:
    """Writing and reading agree on what a unit is."""
    try:
        back = parse_bytes(format_bytes(count))
    except ValueError:
        return  # "1.21 KiB" is not a whole number of bytes
    assert back == pytest.approx(count, rel=0.01)


@given(st.floats(1e-9, 59))
def test_a_written_time_reads_back_to_about_itself(seconds: float) -> None:
    """Writing and reading agree on what a unit is."""
    assert parse_seconds(format_seconds(seconds)) == pytest.approx(seconds, rel=0.01)
