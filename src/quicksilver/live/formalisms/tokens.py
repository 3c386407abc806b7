"""Formula text as tokens with columns, and a cursor over them that all parsers share."""

from __future__ import annotations

import re
from typing import Literal, NoReturn, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import FormulaError

TokenKind: TypeAlias = Literal["word", "number", "text", "sign", "end"]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<word>[^\W\d]\w*)
      | (?P<number>-?\d+(?:\.\d+)?)
      | "(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"
      | (?P<sign><->|->|=>|&&|\|\||==|!=|<=|>=|[-!&|()<>=.,:%;])
    )""",
    re.VERBOSE,
)
_KINDS: dict[str, TokenKind] = {
    "word": "word",
    "number": "number",
    "text": "text",
    "sign": "sign",
}
_NUMBER_CHARS_MAX = 30


class Token(msgspec.Struct, frozen=True):
    """A piece of a formula; the column counts from 1."""

    kind: TokenKind
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def split_tokens(formalism: str, text: str) -> list[Token]:
    """Cut a formula into tokens, the last of them an end, or raise FormulaError."""
    tokens: list[Token] = []
    place, length = 0, len(text.rstrip())
    while place < length:
        match = _TOKEN.match(text, place)
        if match is None:
            column = place + len(text[place:]) - len(text[place:].lstrip()) + 1
            raise FormulaError(formalism, text, column, f"unexpected {text[column - 1]!a}")
        assert match.lastgroup is not None
        kind = _KINDS[match.lastgroup]
        content = match[kind]
        column = match.start(kind) + 1 - (kind == "text")
        if kind == "number" and len(content) > _NUMBER_CHARS_MAX:
            raise FormulaError(formalism, text, column, "a number of too many digits")
        if kind == "text":
            content = re.sub(r"\\(.)", r"\1", content)
        tokens.append(Token(kind, content, column))
        place = match.end()
    tokens.append(Token("end", "", length + 1))
    return tokens


class Cursor:
    """Reads tokens from left to right; words are matched without regard to case."""

    def __init__(self, formalism: str, text: str) -> None:
        self.formalism = formalism
        self.text = text
        self._tokens = split_tokens(formalism, text)
        self._next = 0

    @property
    def token(self) -> Token:
        """Return the token to read next."""
        return self._tokens[self._next]

    def peek(self, ahead: int = 1) -> Token:
        """Return a token further on; the end if there is none."""
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Read a token."""
        token = self.token
        if token.kind != "end":
            self._next += 1
        return token

    def is_at(self, *texts: str) -> bool:
        """Say whether the next token is one of these words or signs."""
        token = self.token
        return token.kind in {"word", "sign"} and token.text.lower() in texts

    def accept(self, *texts: str) -> Token | None:
        """Read the next token if it is one of these words or signs."""
        return self.take() if self.is_at(*texts) else None

    def expect(self, *texts: str) -> Token:
        """Read one of these words or signs, or fail at this column."""
        if not self.is_at(*texts):
            self.fail(f"expected {' or '.join(map(repr, texts))}, found {self.token}")
        return self.take()

    def expect_kind(self, kind: TokenKind, what: str) -> Token:
        """Read a token of a kind, or fail at this column."""
        if self.token.kind != kind:
            self.fail(f"expected {what}, found {self.token}")
        return self.take()

    def expect_end(self) -> None:
        """Fail unless everything has been read."""
        if self.token.kind != "end":
            self.fail(f"expected the end, found {self.token}")

    def fail(self, problem: str, token: Token | None = None) -> NoReturn:
        """Raise FormulaError at a token, by default the next."""
        column = (token or self.token).column
        raise FormulaError(self.formalism, self.text, column, problem)
