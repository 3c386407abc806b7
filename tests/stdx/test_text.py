"""Text of others is shown, and never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.text import printable


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        ("plain text", "plain text"),
        ("Zürich 東京 🐁", "Zürich 東京 🐁"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edcb", r"abc\u202edcb"),
        ("\ud800", r"\ud800"),
        ("x" * 400, "x" * 300 + "…"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(given_: str, shown: str) -> None:
    """Escape sequences, line breaks, marks of direction; all else stays as it is."""
    assert printable(given_) == shown


@given(st.text(st.characters(codec=None), max_size=400))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    """Whatever a peer sends."""
    assert printable(text).isprintable()
