"""Every word and sign of the language, in one table: how it is written in Unicode and in ASCII.

The parser, the formatter and the grammar of editors are made from this table. Both spellings may be
mixed in a program, as the printed ones of chapter 5 do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["section", "control", "place", "modifier", "word", "operator", "sign"]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A token whose text is fixed."""

    token: str
    """What the grammar calls it."""
    ascii: str
    unicode: str
    group: Group
    others: tuple[str, ...] = ()
    """More spellings that are read; the formatter replaces them."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every spelling, without repetition."""
        return tuple(dict.fromkeys((self.ascii, self.unicode, *self.others)))


def _word(text: str, group: Group) -> Spelling:
    return Spelling(text.upper(), text, text, group)


SECTIONS = ("interface", "properties", "bindings", "rules", "conditions", "invariants")

SPELLINGS: tuple[Spelling, ...] = (
    _word("protocol", "section"),
    *(_word(name, "section") for name in SECTIONS),
    *(_word(text, "control") for text in ("on", "update", "foreach", "if", "then", "else")),
    *(_word(text, "control") for text in ("callback", "added", "removed", "assign")),
    *(_word(text, "control") for text in ("invariant", "eventually", "any")),
    *(_word(text, "place") for text in ("global", "local", "parent", "children", "self")),
    *(_word(text, "modifier") for text in ("mono", "all", "strict")),
    *(_word(text, "word") for text in ("true", "false", "first", "second", "select")),
    *(_word(text, "word") for text in ("min", "max", "top")),
    Spelling("FORALL", "forall", "∀", "control"),
    Spelling("UNION", "union", "∪", "operator"),
    Spelling("INTERSECTION", "intersection", "∩", "operator"),
    Spelling("DIFFERENCE", "\\", "\\", "operator", ("∖",)),
    Spelling("IN", "in", "∈", "operator"),
    Spelling("SUBSET", "subset", "⊆", "operator"),
    Spelling("AND", "&&", "∧", "operator"),
    Spelling("OR", "||", "∨", "operator"),
    Spelling("NOT", "!", "¬", "operator"),
    Spelling("IMPLIES", "=>", "⇒", "operator"),
    Spelling("EQUAL", "=", "=", "operator", ("==",)),
    Spelling("UNEQUAL", "!=", "≠", "operator"),
    Spelling("LESS_EQUAL", "<=", "≤", "operator"),
    Spelling("GREATER_EQUAL", ">=", "≥", "operator"),
    Spelling("LESS", "<", "<", "operator"),
    Spelling("GREATER", ">", ">", "operator"),
    Spelling("PLUS", "+", "+", "operator"),
    Spelling("MINUS", "-", "-", "operator", ("−",)),
    Spelling("TIMES", "*", "*", "operator", ("×",)),
    Spelling("DIVIDE", "/", "/", "operator"),
    Spelling("BAR", "|", "|", "operator"),
    Spelling("BECOMES", ":=", ":=", "operator"),
    Spelling("UNION_BECOMES", "union=", "∪=", "operator"),
    Spelling("INTERSECTION_BECOMES", "intersection=", "∩=", "operator"),
    Spelling("PLUS_BECOMES", "+=", "+=", "operator"),
    Spelling("MINUS_BECOMES", "-=", "-=", "operator"),
    Spelling("MAX_BECOMES", "max=", "max=", "operator"),
    Spelling("MIN_BECOMES", "min=", "min=", "operator"),
    Spelling("OR_BECOMES", "|=", "|=", "operator", ("∨=",)),
    Spelling("AND_BECOMES", "&=", "&=", "operator", ("∧=",)),
    Spelling("RANGE", "..", "..", "sign"),
    Spelling("SEMICOLON", ";", ";", "sign"),
    Spelling("COLON", ":", ":", "sign"),
    Spelling("COMMA", ",", ",", "sign"),
    Spelling("DOT", ".", ".", "sign"),
    Spelling("OPEN", "(", "(", "sign"),
    Spelling("CLOSE", ")", ")", "sign"),
    Spelling("BRACE_OPEN", "{", "{", "sign"),
    Spelling("BRACE_CLOSE", "}", "}", "sign"),
    Spelling("BRACKET_OPEN", "[", "[", "sign"),
    Spelling("BRACKET_CLOSE", "]", "]", "sign"),
)

BY_TOKEN = {spelling.token: spelling for spelling in SPELLINGS}
TOKEN_OF = {text: spelling.token for spelling in SPELLINGS for text in spelling.all}
"""The token of each spelling."""

KEYWORDS = frozenset(text for text in TOKEN_OF if text.isascii() and text.isalpha())
"""Words that cannot be names."""

SCALARS = ("int", "bool", "address", "intset")
CONTAINERS = {"set": 1, "pair": 2, "map": 2}
"""Types of types, and how many they take."""

NAME_PATTERN = r"[A-Za-z_][A-Za-z_0-9]*"
NUMBER_PATTERN = r"[0-9]+"
COMMENT_PATTERN = r"//[^\n]*|/\*(?s:.*?)\*/"
