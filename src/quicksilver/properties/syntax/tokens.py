"""From text to tokens, comments and complaints about characters that mean nothing.

One regular expression is made from the table of spellings. Labels such as ``(R1)`` after a
statement become tokens of their own here, since a condition may begin with a parenthesis as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token

from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax.source import Span
from quicksilver.properties.syntax.spellings import (
    COMMENT_PATTERN,
    KEYWORDS,
    NAME_PATTERN,
    NUMBER_PATTERN,
    SPELLINGS,
    TOKEN_OF,
)

_SIGNS = sorted((text for text in TOKEN_OF if text not in KEYWORDS), key=len, reverse=True)
_TOKEN = re.compile(
    rf"(?P<space>\s+)|(?P<comment>{COMMENT_PATTERN})|(?P<open>/\*)"
    rf"|(?P<sign>{'|'.join(re.escape(text) for text in _SIGNS)})"
    rf"|(?P<name>{NAME_PATTERN})|(?P<number>{NUMBER_PATTERN})"
)
_GOES_ON = frozenset(
    one.token for one in SPELLINGS if one.group == "operator" and one.token not in {"NOT", "BAR"}
) | {"SEMICOLON", "DOT", "BRACKET_OPEN"}
"""What makes ``(P)`` the beginning of an expression, not a label."""
_GOES_ON_IN_LINE = frozenset(("MINUS", "LESS"))
"""They may begin an expression as well: they go on with one only in the line of ``(P)``."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a text consists of."""

    tokens: tuple[Token, ...]
    """Ends with one of type ``$END``."""
    comments: tuple[Token, ...]
    diagnostics: tuple[Diagnostic, ...]


def span_of(token: Token) -> Span:
    """Return where a token stands."""
    assert token.start_pos is not None
    assert token.end_pos is not None
    return Span(token.start_pos, token.end_pos)


def tokenize(text: str) -> Tokens:
    """Cut a text into tokens; characters that mean nothing are reported and left out."""
    tokens: list[Token] = []
    comments: list[Token] = []
    diagnostics: list[Diagnostic] = []
    at, match = 0, _TOKEN.match
    while at < len(text):
        found = match(text, at)
        if found is None:
            end = _skip_strange(text, at)
            diagnostics.append(_complain(text[at:end], Span(at, end)))
            at = end
            continue
        end, kind, value = found.end(), found.lastgroup, found.group()
        if kind == "name" or kind == "sign":
            tokens.append(Token(TOKEN_OF.get(value, "NAME"), value, at, end_pos=end))
        elif kind == "number":
            tokens.append(Token("NUMBER", value, at, end_pos=end))
        elif kind == "comment":
            comments.append(Token("COMMENT", value, at, end_pos=end))
        elif kind == "open":
            diagnostics.append(
                Diagnostic(
                    code="character",
                    span=Span(at, end),
                    text="this comment has no end",
                    suggestion="write */ after it",
                )
            )
            end = len(text)
        at = end
    tokens.append(Token("$END", "", len(text), end_pos=len(text)))
    return Tokens(tuple(_find_labels(text, tokens)), tuple(comments), tuple(diagnostics))


def _skip_strange(text: str, at: int) -> int:
    end = at + 1
    while end < len(text) and end - at < 20 and _TOKEN.match(text, end) is None:
        end += 1
    return end


def _complain(strange: str, span: Span) -> Diagnostic:
    quotes = strange[0] in "\"'"
    return Diagnostic(
        code="character",
        span=span,
        text=f"{strange!a} means nothing here",
        suggestion="there are no strings in this language" if quotes else "",
    )


def _find_labels(text: str, tokens: list[Token]) -> list[Token]:
    """Return the tokens with each ``( NAME )`` after a statement made into one token ``LABEL``."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        is_after = bool(found) and found[-1].type in {"SEMICOLON", "BRACE_CLOSE"}
        if token.type == "OPEN" and is_after and _is_label(text, tokens[at : at + 4]):
            name, close = tokens[at + 1], tokens[at + 2]
            found.append(Token("LABEL", str(name), token.start_pos, end_pos=close.end_pos))
            at += 3
        else:
            found.append(token)
            at += 1
    return found


def _is_label(text: str, tokens: list[Token]) -> bool:
    if [token.type for token in tokens[:3]] != ["OPEN", "NAME", "CLOSE"] or len(tokens) < 4:
        return False
    following = tokens[3]
    if following.type in _GOES_ON_IN_LINE:
        return "\n" in text[span_of(tokens[2]).end : span_of(following).start]
    return following.type not in _GOES_ON
