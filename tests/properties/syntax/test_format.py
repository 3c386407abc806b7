"""The formatter changes the layout and the spelling, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from quicksilver.properties.syntax.format import format_program
from quicksilver.properties.syntax.parse import Parsed, parse
from tests.properties.printed import CODE_5_1
from tests.properties.texts import commented_programs, programs


def read(text: str) -> Parsed:
    parsed = parse(text)
    assert parsed.diagnostics == ()
    return parsed


def strip(comment: str) -> str:
    return "\n".join(line.rstrip() for line in comment.splitlines())


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(programs() | commented_programs())
def test_a_formatted_program_says_the_same(text: str) -> None:
    """A formatter that changes what a program means would be worse than none."""
    before = parse(text)
    if before.diagnostics:  # a comment has swallowed a part of the program
        return
    for ascii_only in (False, True):
        formatted = format_program(before, ascii_only=ascii_only)
        after = read(formatted)
        assert after.program == before.program
        assert [*map(strip, after.tokens.comments)] == [*map(strip, before.tokens.comments)]
        assert format_program(after, ascii_only=ascii_only) == formatted


def test_the_printed_program_in_its_layout() -> None:
    lines = format_program(read(CODE_5_1)).splitlines()
    assert lines[:5] == [
        "protocol Cleanup {",
        "  interface {",
        "    callback Receive(int m);",
        "    DoCleanup(int m);",
        "  }",
    ]
    assert "    Stable := [mono, all, strict] children(∩).Stable; (R1)" in lines


def test_ascii_spellings_are_ascii() -> None:
    """For terminals and keyboards without the signs of the papers."""
    formatted = format_program(read(CODE_5_1), ascii_only=True)
    assert formatted.isascii()
    assert "Cleanup union= parent.Cleanup; (R3)" in formatted
    assert "children(intersection).Stable" in formatted


def test_comments_stay_where_they_were() -> None:
    text = """\
// What this is.
protocol P { // brief
  rules {
    // before
    A := B; // after
    C := // within
      D; (R1) /* labelled */


    // last
  }
}
"""
    formatted = format_program(read(text))
    assert (
        formatted
        == """\
// What this is.
protocol P { // brief
  rules {
    // before
    A := B;  // after
    C := // within
      D; (R1)  /* labelled */

    // last
  }
}
""".replace("{ // brief", "{  // brief")
    )


def test_blank_lines_are_kept_but_not_multiplied() -> None:
    text = "protocol P { rules { A := B;\n\n\n\nC := D;\nE := F; } conditions {A;} }"
    assert (
        format_program(read(text))
        == """\
protocol P {
  rules {
    A := B;

    C := D;
    E := F;
  }

  conditions {
    A;
  }
}
"""
    )
