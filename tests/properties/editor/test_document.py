"""What an editor is told about a program."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.properties import library
from quicksilver.properties.editor.document import Document
from quicksilver.properties.editor.words import WORDS
from quicksilver.properties.syntax.spellings import CONTAINERS, KEYWORDS, SCALARS
from tests.properties.texts import broken_programs

CLEANUP = library.text_of("cleanup")


def at(text: str, marked: str) -> int:
    """Return the place that a ``^`` marks in a piece of a text."""
    before, _, after = marked.partition("^")
    found = text.index(before + after)
    return found + len(before)


def test_every_word_is_explained() -> None:
    assert set(WORDS) == KEYWORDS | {*SCALARS, *CONTAINERS}


class TestDefinition:
    def test_of_a_property(self) -> None:
        found = Document(CLEANUP).declaration_at(at(CLEANUP, "parent.^Stable ⊆"))
        assert found is not None
        assert found.sort == "property"
        assert CLEANUP[found.span.start - 7 : found.span.end] == "intset Stable"

    def test_of_events_both_ways(self) -> None:
        document = Document(CLEANUP)
        callback = document.declaration_at(at(CLEANUP, "on ^Receive"))
        request = document.declaration_at(at(CLEANUP, ") Do^Cleanup(m);"))
        assert callback is not None
        assert request is not None
        assert (callback.sort, callback.span.start) == ("callback", CLEANUP.index("Receive(int"))
        assert (request.sort, request.span.start) == ("request", CLEANUP.index("DoCleanup(int"))

    def test_of_variables_where_they_are_bound(self) -> None:
        text = """protocol P { interface { callback Get(int m); Put(int m); }
        properties { intset m2; }
        bindings { on Get(m) : { foreach (k in m2) Put(k); Put(m); } } }"""
        document = Document(text)
        inner = document.declaration_at(at(text, "Put(^k)"))
        outer = document.declaration_at(at(text, "; Put(^m)"))
        assert inner is not None
        assert outer is not None
        assert inner.span.start == text.index("(k in") + 1
        assert outer.span.start == text.index("on Get(m)") + 7

    def test_of_nothing(self) -> None:
        assert Document("protocol P { rules { A := B; } }").declaration_at(21) is None
        assert Document("").declaration_at(0) is None


class TestHover:
    def test_a_property_says_its_type_and_its_rules(self) -> None:
        found = Document(CLEANUP).hover(at(CLEANUP, "global.^Cleanup"))
        assert found is not None
        assert found[1] == "intset Cleanup: a property; assigned by R2, R3"

    def test_a_modifier_says_what_it_promises(self) -> None:
        found = Document(CLEANUP).hover(at(CLEANUP, "[^mono"))
        assert found is not None
        assert found[1] == WORDS["mono"]

    def test_signs_by_their_words(self) -> None:
        found = Document(CLEANUP).hover(at(CLEANUP, "parent.Stable ^⊆"))
        assert found is not None
        assert found[1].startswith("⊆: ")


class TestCompletion:
    def proposals(self, marked: str) -> list[str]:
        text = marked.replace("^", "")
        return [one.text for one in Document(text).complete(marked.index("^"))]

    HEAD = "protocol P(int n = 1) { properties { int Last; intset Seen; } "

    def test_properties_after_a_dot(self) -> None:
        assert self.proposals(self.HEAD + "rules { Last := parent.^") == [
            "Last", "Seen", "first", "second",
        ]  # fmt: skip
        assert "Last" in self.proposals(self.HEAD + "rules { Last := parent.La^; } }")

    def test_modifiers_after_a_bracket(self) -> None:
        assert self.proposals(self.HEAD + "rules { Last := [^")[:3] == ["mono", "all", "strict"]

    def test_types_in_properties_and_sections_outside(self) -> None:
        assert "intset" in self.proposals("protocol P { properties { ^ } }")
        assert "rules" in self.proposals("protocol P { properties { int A; } ^ }")
        assert self.proposals("^") == ["protocol"]

    def test_events_in_bindings(self) -> None:
        text = "protocol P { interface { callback Get(int m); Put(); } bindings { on ^ } }"
        assert {"Get", "Put", "update"} <= set(self.proposals(text))

    def test_parameters_in_expressions(self) -> None:
        assert "n" in self.proposals(self.HEAD + "rules { Last := Last + ^; } }")


@settings(deadline=None, max_examples=40)
@given(broken_programs, st.integers(0, 500))
def test_any_place_of_any_text_is_answered(text: str, offset: int) -> None:
    document = Document(text)
    document.hover(offset)
    document.complete(offset)
    document.declaration_at(offset)
