"""What the parser expected, in words, and what the author probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quicksilver.properties.syntax.spellings import BY_TOKEN, KEYWORDS, SECTIONS

if TYPE_CHECKING:
    from lark import Token

_WHOLE = (
    ("an expression", {"NUMBER", "NAME", "OPEN", "SELF", "PARENT"}),
    ("a section (" + ", ".join(SECTIONS) + ")", {name.upper() for name in SECTIONS}),
    ("an aggregation operator (∩, ∪, min, max, +, ∧, ∨, top)", {"INTERSECTION", "UNION", "TOP"}),
    (
        "an assignment (:=, +=, -=, ∪=, ∩=, max=, min=)",
        {"BECOMES", "UNION_BECOMES", "INTERSECTION_BECOMES", "MINUS_BECOMES"},
    ),
    (
        "an assignment (:=, ∪=, ∩=, +=, max=, min=)",
        {"BECOMES", "UNION_BECOMES", "INTERSECTION_BECOMES"},
    ),
    ("a modifier (mono, all, strict)", {"MONO", "ALL", "STRICT"}),
)
_OPERATORS = frozenset(one for one, spelling in BY_TOKEN.items() if spelling.group == "operator")
_EXPRESSION = frozenset(
    (
        "NUMBER",
        "NAME",
        "OPEN",
        "SELF",
        "PARENT",
        "GLOBAL",
        "CHILDREN",
        "TRUE",
        "FALSE",
        "MIN",
        "MAX",
    )
) | {"IF", "NOT", "MINUS", "BAR", "LESS", "BRACE_OPEN"}


def describe_token(token: Token) -> str:
    """Return a token as it is called in messages."""
    if token.type == "$END":
        return "the end of the text"
    if token.type == "LABEL":
        return f"the label ({token})"
    return f"`{token if len(token) <= 40 else token[:37] + '...'}`"


def describe_expected(accepted: set[str]) -> str:
    """Return what could stand here, the likeliest first."""
    rest = set(accepted)
    said: list[str] = []
    for words, kinds in _WHOLE:
        if kinds <= rest:
            said.append(words)
            rest -= _EXPRESSION if words == "an expression" else kinds
            if words.startswith("an assignment"):
                rest -= {each for each in rest if each.endswith("BECOMES")}
            if words.startswith("an aggregation"):
                rest -= {"NAME", *_OPERATORS, "MIN", "MAX"}
    if {"PLUS", "AND"} <= rest:
        said.append("an operator")
        rest -= _OPERATORS | {"BRACKET_OPEN", "DOT"}
    if "NAME" in rest:
        said.append("a name")
        rest.discard("NAME")
    for kind in sorted(rest):
        if kind == "$END":
            said.insert(0, "the end of the text")
        elif kind == "LABEL":
            said.append("a label such as (R1)")
        elif kind in BY_TOKEN:
            spelling = BY_TOKEN[kind]
            words = f"`{spelling.unicode}`"
            said.insert(0, words) if spelling.group == "sign" else said.append(words)
    if len(said) > 1:
        return ", ".join(said[:-1]) + " or " + said[-1]
    return said[0] if said else "nothing more"


def find_hint(tokens: Sequence[Token], at: int, accepted: set[str]) -> str:
    """Return what the author probably meant, or nothing."""
    token = tokens[at]
    before = tokens[at - 1] if at else token
    if token.type == "PROTOCOL" and "$END" in accepted:
        return "a file holds one protocol"
    if token.type == "EQUAL" and "BECOMES" in accepted:
        return "assign with :="
    if token.type == "BECOMES" and "EQUAL" in accepted:
        return "write ="
    if str(token) in KEYWORDS and "NAME" in accepted:
        return f"{token} is a word of the language; choose another name"
    if before.type == "CHILDREN":
        return "say how values of members are put together, such as children(min).P"
    if "DOT" in accepted and before.type in {"PARENT", "GLOBAL", "LOCAL"}:
        return f"name a property of it, such as {before}.P"
    if (
        token.type in {"LESS", "GREATER", "LESS_EQUAL", "GREATER_EQUAL", "EQUAL"}
        and "AND" in accepted
    ):
        return "comparisons are joined with &&"
    return ""
