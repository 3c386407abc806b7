"""From text to a tree, with every error that can be told apart.

The grammar is read by lark (LALR). After an error the parser either puts in what is missing (``;``,
``)``, ``}`` at the end of a line) or drops the statement: it goes back to where the statement
began and goes on after its end. Size, nesting and the number of errors are bounded, so that any
text is answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, UnexpectedToken
from lark.lexer import Lexer

from quicksilver.properties.diagnostics import Diagnostic, sort_by_place
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.build import Builder
from quicksilver.properties.syntax.expected import describe_expected, describe_token, find_hint
from quicksilver.properties.syntax.source import Source, Span
from quicksilver.properties.syntax.spellings import SECTIONS, SPELLINGS
from quicksilver.properties.syntax.tokens import Tokens, span_of, tokenize

PROGRAM_CHARS_MAX = 200_000
NESTING_MAX = 60
DIAGNOSTICS_MAX = 50

_SECTION_TOKENS = frozenset(name.upper() for name in SECTIONS)
_INSERTED = (("SEMICOLON", ";"), ("CLOSE", ")"), ("BRACE_CLOSE", "}"))


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was understood of a text."""

    source: Source
    program: tree.Program | None
    """What could be read; statements with errors are missing. None if nothing could."""
    tokens: Tokens
    diagnostics: tuple[Diagnostic, ...]


def parse(text: str, name: str = "<program>") -> Parsed:
    """Parse a program; never raises, whatever the text is."""
    if len(text) > PROGRAM_CHARS_MAX:
        source = Source(text[:PROGRAM_CHARS_MAX], name)
        found = Diagnostic(
            code="size",
            span=Span(0, 1),
            text=f"the program has {len(text):,} characters, over {PROGRAM_CHARS_MAX:,}",
        )
        return Parsed(source, None, tokenize(""), (found,))
    source, tokens = Source(text, name), tokenize(text)
    run = _Run(source, tokens)
    program = run.read()
    diagnostics = (*tokens.diagnostics, *run.diagnostics)
    if program is not None:
        deep = _find_too_deep(program)
        if deep is not None:
            diagnostics, program = (*diagnostics, deep), None
    if program is not None:
        program = tree.Program(
            program.name,
            program.parameters,
            program.sections,
            doc=_find_doc(text, tokens, program.span.start),
            span=program.span,
        )
    return Parsed(source, program, tokens, sort_by_place(diagnostics)[:DIAGNOSTICS_MAX])


class _NoLexer(Lexer):
    """Tokens are made by ``tokens``; lark wants to be given a lexer all the same."""

    def __init__(self, conf: object) -> None:
        del conf

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Token]:
        del lexer_state, parser_state
        return iter(())


@cache
def _make_lark() -> Lark:
    grammar = files("quicksilver.properties.syntax").joinpath("grammar.lark").read_text("utf-8")
    names = " ".join((*(one.token for one in SPELLINGS), "NAME", "NUMBER", "LABEL"))
    return Lark(
        f"%declare {names}\n{grammar}",
        parser="lalr",
        lexer=_NoLexer,
        start="program",
        transformer=Builder(),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )


class _Run:
    """One text being read."""

    def __init__(self, source: Source, tokens: Tokens) -> None:
        self._source = source
        self._tokens = tokens.tokens
        self.diagnostics: list[Diagnostic] = []
        self._parser = _make_lark().parse_interactive("")
        self._braces = 0
        self._anchor: tuple[Any, int, int] | None = None
        """Where to go back to: the parser, the braces that were open, the token that came next."""

    def read(self) -> tree.Program | None:
        tokens, at = self._tokens, 0
        state = self._parser.parser_state
        program: tree.Program | None = None
        while at < len(tokens):
            token = tokens[at]
            if self._is_boundary(at):
                self._anchor = (self._parser.copy(deepcopy_values=False), self._braces, at)
            try:
                found = state.feed_token(token, token.type == "$END")
            except UnexpectedToken:
                after = self._recover(at)
                if after is None or len(self.diagnostics) >= DIAGNOSTICS_MAX:
                    return None
                at = after
                state = self._parser.parser_state
                continue
            if token.type == "BRACE_OPEN":
                self._braces += 1
            elif token.type == "BRACE_CLOSE":
                self._braces -= 1
            elif token.type == "$END":
                program = found
            at += 1
        return program

    def _is_boundary(self, at: int) -> bool:
        if at == 0:
            return False
        before, kind = self._tokens[at - 1].type, self._tokens[at].type
        if self._braces == 2:
            return (
                before in {"SEMICOLON", "LABEL", "BRACE_OPEN"} or kind == "ON"
            ) and kind not in {"ELSE", "LABEL"}
        return self._braces == 1 and before in {"BRACE_OPEN", "BRACE_CLOSE"}

    def _recover(self, at: int) -> int | None:
        """Report what is wrong with a token; returns the token to go on with, None to give up."""
        token = self._tokens[at]
        if at > 0 and self._insert(at):
            return at
        accepted = self._parser.accepts()
        hint = find_hint(self._tokens, at, accepted)
        self.diagnostics.append(
            Diagnostic(
                code="syntax",
                span=span_of(token),
                text=f"{describe_token(token)} cannot stand here",
                why=f"expected {describe_expected(accepted)}",
                suggestion=hint,
            )
        )
        if self._anchor is None:
            return self._begin_anyway(at)
        kept, braces, began = self._anchor
        self._anchor = None
        after = self._find_end(at, began, braces)
        if after <= at and after == began:
            after += 1
        self._parser, self._braces = kept, braces
        if after >= len(self._tokens):
            return None
        self._anchor = (kept.copy(deepcopy_values=False), braces, after)
        return after

    def _insert(self, at: int) -> bool:
        """Put in one sign that ends something, if it is missing at the end of a line."""
        token, before = self._tokens[at], self._tokens[at - 1]
        end = span_of(before).end
        is_new_line = "\n" in self._source.text[end : span_of(token).start] or token.type == "$END"
        closes = token.type in {"BRACE_CLOSE", "SEMICOLON", "BECOMES", "COLON"}
        if not is_new_line and not closes:
            return False
        for kind, text in _INSERTED:
            if kind == "SEMICOLON" and before.type == "SEMICOLON":
                continue
            attempt = self._parser.copy(deepcopy_values=False)
            put = Token(kind, text, end, end_pos=end)
            try:
                attempt.parser_state.feed_token(put)
                following = attempt.copy(deepcopy_values=False)
                following.parser_state.feed_token(token, token.type == "$END")
            except UnexpectedToken:
                if not (token.type == "$END" and kind == "BRACE_CLOSE" and self._braces > 1):
                    continue
                if put.type not in self._parser.accepts():
                    continue
            self._parser = attempt
            self._braces -= kind == "BRACE_CLOSE"
            if kind == "SEMICOLON" and self._braces == 2:
                self._anchor = (attempt.copy(deepcopy_values=False), self._braces, at)
            elif self._braces == 0:
                self._anchor = None
            self.diagnostics.append(
                Diagnostic(
                    code="syntax",
                    span=Span(max(end - 1, 0), end),
                    text=f"{text} is missing after {describe_token(before)}",
                    suggestion=f"write {text} here",
                )
            )
            return True
        return False

    def _find_end(self, at: int, began: int, braces: int) -> int:
        """Return the token after the statement (or the section) that a wrong token is part of."""
        tokens = self._tokens
        depth = 0
        for each in range(began, at):
            depth += (tokens[each].type == "BRACE_OPEN") - (tokens[each].type == "BRACE_CLOSE")
        while at < len(tokens):
            kind = tokens[at].type
            following = tokens[at + 1].type if at + 1 < len(tokens) else ""
            if kind == "$END" or (
                kind in _SECTION_TOKENS and following == "BRACE_OPEN" and at > began
            ):
                return at
            if kind == "BRACE_CLOSE":
                if depth <= 0:
                    return at
                depth -= 1
            elif kind == "BRACE_OPEN":
                depth += 1
            elif braces == 2 and depth <= 0:
                if kind == "ON" and at > began:
                    return at
                if kind == "SEMICOLON":
                    return at + 2 if following == "LABEL" else at + 1
            at += 1
        return at

    def _begin_anyway(self, at: int) -> int | None:
        """After an error before the first brace, go on as if the head were right."""
        tokens = self._tokens
        brace = next(
            (each for each in range(at, len(tokens)) if tokens[each].type == "BRACE_OPEN"), -1
        )
        if self._braces > 0 or brace < 0:
            return None
        place = span_of(tokens[0]).start
        self._parser = _make_lark().parse_interactive("")
        for kind, text in (("PROTOCOL", "protocol"), ("NAME", "_")):
            self._parser.parser_state.feed_token(Token(kind, text, place, end_pos=place))
        return brace


def _find_too_deep(program: tree.Program) -> Diagnostic | None:
    waiting: list[tuple[tree.Node, int]] = [(program, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > NESTING_MAX:
            return Diagnostic(
                code="nesting",
                span=node.span,
                text=f"this is nested more than {NESTING_MAX} deep",
                suggestion="give a part of it a property of its own",
            )
        waiting.extend((each, depth + 1) for each in node.children())
    return None


def _find_doc(text: str, tokens: Tokens, start: int) -> str:
    """Return the comments directly before the protocol, without their signs."""
    lines: list[str] = []
    for comment in tokens.comments:
        span = span_of(comment)
        if span.end <= start:
            inside = comment[2:-2] if comment.startswith("/*") else comment[2:]
            for line in inside.splitlines() or [""]:
                lines.append(line.strip().removeprefix("*").strip())  # noqa: PERF401
    return "\n".join(lines).strip()
