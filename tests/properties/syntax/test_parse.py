"""Programs become trees; whatever is wrong is told with its place, and all of it at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.parse import (
    DIAGNOSTICS_MAX,
    NESTING_MAX,
    PROGRAM_CHARS_MAX,
    Parsed,
    parse,
)
from quicksilver.properties.syntax.spellings import SPELLINGS
from tests.properties.printed import CODE_5_1, CODE_5_2
from tests.properties.texts import broken_programs, programs


def program_of(text: str) -> tree.Program:
    parsed = parse(text)
    assert [one.render(parsed.source) for one in parsed.diagnostics] == []
    assert parsed.program is not None
    return parsed.program


def expression(text: str) -> tree.Expression:
    return program_of(f"protocol P {{ conditions {{ {text}; }} }}").conditions[0].value


def complaints(text: str) -> list[str]:
    parsed = parse(text, "p.pl")
    return [one.render(parsed.source) for one in parsed.diagnostics]


class TestPrintedPrograms:
    def test_code_5_1(self) -> None:
        """Dissertation, Code 5.1 (line 5504)."""
        program = program_of(CODE_5_1)
        assert program.name.text == "Cleanup"
        assert [(one.is_callback, one.name.text) for one in program.events] == [
            (True, "Receive"),
            (False, "DoCleanup"),
        ]
        assert [str(one.label.text) for one in program.rules if one.label] == ["R1", "R2", "R3"]
        first, second, third = program.rules
        assert [one.name for one in first.modifiers] == ["mono", "all", "strict"]
        assert first.value == tree.Children(tree.Aggregator("INTERSECTION"), tree.Name("Stable"))
        assert (second.place, second.operator) == ("global", "BECOMES")
        assert third.operator == "UNION_BECOMES"
        assert third.value == tree.Reference(tree.Name("Cleanup"), tree.Name("parent"))
        on_update = program.bindings[1]
        assert isinstance(on_update, tree.OnUpdate)
        assert on_update.kind == "added"
        assert isinstance(on_update.action, tree.ForEach)

    def test_code_5_2(self) -> None:
        """Dissertation, Code 5.2 (line 5548)."""
        program = program_of(CODE_5_2)
        assert [(one.name.text, one.initial) for one in program.properties] == [
            ("Last", tree.Number(0)),
            ("Next", None),
        ]
        assert [one.place for one in program.rules] == [None, "global", None, "local"]
        assert [one.name for one in program.rules[2].modifiers] == ["mono"]
        assert program.conditions[0].value == tree.Binary(
            "LESS_EQUAL",
            tree.Reference(tree.Name("Last"), tree.Name("parent")),
            tree.Reference(tree.Name("Last")),
        )

    def test_the_halves_of_table_2(self) -> None:
        """Overview paper, Table 2 (line 757): ``Fwd(x)`` from ``<y, Cached(x) \\ Received(y)>``."""
        text = r"protocol P { rules { Fwd(x) ∪= <y, Cached(x) \ Received(y)>; } }"
        rule = program_of(text).rules[0]
        assert rule.half == tree.Name("x")
        assert rule.value == tree.Pair(
            tree.Reference(tree.Name("y")),
            tree.Binary(
                "DIFFERENCE",
                tree.Half(tree.Name("Cached"), tree.Name("x")),
                tree.Half(tree.Name("Received"), tree.Name("y")),
            ),
        )


class TestExpressions:
    @pytest.mark.parametrize(
        ("short", "clear"),
        [
            ("a + b * c", "a + (b * c)"),
            ("a - b - c", "(a - b) - c"),
            (r"a ∪ b ∩ c \ d", r"(a ∪ (b ∩ c)) \ d"),
            ("a < b + 1 && !c = d || e", "((a < (b + 1)) && (!(c = d))) || e"),
            ("a => b => c", "a => (b => c)"),
            ("-a * b", "(-a) * b"),
            ("M[k].first + 1", "((M[k]).first) + 1"),
            ("|A ∪ B| < 3", "(|(A ∪ B)|) < 3"),
            ("<a + 1, b> = c", "(<(a + 1), b>) = c"),
            ("if a then b else if c then d else e", "if a then b else (if c then d else e)"),
        ],
    )
    def test_what_binds_more(self, short: str, clear: str) -> None:
        assert expression(short) == expression(clear)

    def test_both_spellings_are_one_tree(self) -> None:
        unicode = expression("¬(A ∪ B ∩ C ⊆ D ∧ a ∈ E) ∨ b ≤ c ∧ d ≥ e ∧ f ≠ g ⇒ h")
        ascii_only = expression(
            "!(A union B intersection C subset D && a in E) || b <= c && d >= e && f != g => h"
        )
        assert unicode == ascii_only

    def test_spellings_stand_for_one_token_each(self) -> None:
        texts = [text for one in SPELLINGS for text in one.all]
        assert len(texts) == len(set(texts))
        assert all(one.ascii.isascii() for one in SPELLINGS)

    def test_a_label_is_told_from_a_condition_in_parentheses(self) -> None:
        text = "protocol P { conditions { A; (C1) (B); (C) && D; (E) } }"
        found = program_of(text).conditions
        assert [one.label and one.label.text for one in found] == ["C1", None, "E"]

    def test_spans_are_those_of_the_text(self) -> None:
        parsed = parse(CODE_5_1)
        assert parsed.program is not None
        rule = parsed.program.rules[1]
        assert CODE_5_1[rule.span.start : rule.span.end] == "global.Cleanup := Stable; (R2)"
        place = parsed.source.locate(rule.name.span.start)
        assert (place.line, place.column) == (24, 8)

    def test_the_comment_before_the_protocol_is_its_description(self) -> None:
        assert program_of("// One.\n/* Two\n * three. */\nprotocol P {} // no").doc == (
            "One.\nTwo\nthree."
        )


class TestErrors:
    def test_several_errors_are_told_at_once_and_the_rest_is_read(self) -> None:
        text = """\
protocol P {
  properties {
    int A = 0
    int := 3;
    intset C;
  }
  rules {
    A = 3;
    A := children(min.A;
    local.A := 2; (R3)
  }
"""
        found = complaints(text)
        assert [one.split(": ")[0] for one in found] == [
            "p.pl:3:13", "p.pl:4:9", "p.pl:8:7", "p.pl:9:22", "p.pl:11:3",
        ]  # fmt: skip
        assert found[0] == "p.pl:3:13: error: ; is missing after `0`; write ; here"
        assert found[2].endswith("; assign with :=")
        program = parse(text).program
        assert program is not None
        assert [one.name.text for one in program.properties] == ["A", "C"]
        assert [one.label.text for one in program.rules if one.label] == ["R3"]

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("", "1:1: error: the end of the text cannot stand here; expected `protocol`"),
            ("protocol P {} protocol Q {}", "a file holds one protocol"),
            ("protocol P { rules { all := 1; } }", "all is a word of the language"),
            ("protocol P { rules { A := B < C < D; } }", "comparisons are joined with &&"),
            ('protocol P { rules { A := "b"; } }', "there are no strings in this language"),
            ("protocol P { /* rules }", "this comment has no end; write */ after it"),
            ("protocol P { conditions { A := B; } }", "write ="),
            ("protocol P { rules { A := children.B; } }", "such as children(min).P"),
            ("protocol { rules { A := ; } }", "expected a name"),
            ("protocol { rules { A := ; } }", "1:25: error: `;` cannot stand here"),
        ],
    )
    def test_the_likely_mistakes(self, text: str, complaint: str) -> None:
        assert any(complaint in one for one in complaints(text)), complaints(text)


class TestBounds:
    def test_a_long_text_is_refused_unread(self) -> None:
        found = parse(" " * (PROGRAM_CHARS_MAX + 1))
        assert found.program is None
        assert [one.code for one in found.diagnostics] == ["size"]

    @pytest.mark.parametrize("opening", ["(", "!", "-", "|", "{", "<", "if ", "1+", "a["])
    def test_deep_nesting_is_told_not_followed(self, opening: str) -> None:
        text = "protocol P { rules { A := " + opening * 3000 + "1; } }"
        assert parse(text).diagnostics

    def test_the_deepest_nesting_that_is_read(self) -> None:
        def nested(depth: int) -> str:
            return "protocol P { rules { A := " + "-" * depth + "1; } }"

        assert not parse(nested(NESTING_MAX - 5)).diagnostics
        assert [one.code for one in parse(nested(NESTING_MAX + 5)).diagnostics] == ["nesting"]

    def test_errors_are_counted(self) -> None:
        text = "protocol P { rules { " + "A = B;\n" * 500 + "} }"
        assert len(parse(text).diagnostics) == DIAGNOSTICS_MAX

    def test_a_program_of_many_statements(self) -> None:
        text = "protocol P { rules { " + "A := B;\n" * 3000 + "} }"
        assert len(program_of(text).rules) == 3000


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(programs())
def test_generated_programs_are_read(text: str) -> None:
    program_of(text)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(broken_programs | st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    """No exception, and an answer of which every place lies in the text."""
    parsed: Parsed = parse(text)
    assert parsed.program is not None or parsed.diagnostics
    for one in parsed.diagnostics:
        assert 0 <= one.span.start <= one.span.end <= len(text)
        assert "\n" not in one.render(parsed.source)
