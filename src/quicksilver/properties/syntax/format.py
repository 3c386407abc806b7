"""A program in its one layout: two spaces a level, one statement a line.

Tokens are written out again in their order, so comments and parentheses stay; the tree tells what
a brace, an angle bracket or a minus means where it stands.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from quicksilver.properties.diagnostics import has_errors
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.parse import Parsed
from quicksilver.properties.syntax.spellings import BY_TOKEN
from quicksilver.properties.syntax.tokens import span_of

if TYPE_CHECKING:
    from lark import Token

INDENT = "  "
_NO_SPACE_AFTER = frozenset(("OPEN", "BRACKET_OPEN", "DOT", "RANGE", "NOT"))
_NO_SPACE_BEFORE = frozenset(
    ("CLOSE", "BRACKET_CLOSE", "DOT", "RANGE", "COMMA", "SEMICOLON", "$END")
)
_MAY_BEGIN_LINE = frozenset(("ELSE", "AND", "OR", "IMPLIES"))
"""Tokens before which the line break of the author is kept."""
_CALLED = frozenset(("NAME", "CHILDREN", "PARENT", "MIN", "MAX", "TOP", "LABEL"))


def format_program(parsed: Parsed, *, ascii_only: bool = False) -> str:
    """Return the text of a program without syntax errors in its layout."""
    assert parsed.program is not None
    assert not has_errors(parsed.diagnostics)
    return _Layout(parsed, parsed.program, ascii_only=ascii_only).write()


class _Layout:
    """A program being written."""

    def __init__(self, parsed: Parsed, program: tree.Program, *, ascii_only: bool) -> None:
        self._text = parsed.source.text
        self._ascii_only = ascii_only
        self._items = sorted(
            (*parsed.tokens.tokens, *parsed.tokens.comments), key=lambda token: span_of(token).start
        )
        self._opening: set[int] = set()
        """Where braces of blocks open; all other braces are those of sets."""
        self._closing: set[int] = set()
        self._tight_after: set[int] = set()
        """Where tokens stand after which there is no space."""
        self._tight_before: set[int] = set()
        self._plain_in: set[int] = set()
        """Where the word `in` belongs to `foreach`: it is a word in either spelling."""
        self._lines: list[str] = []
        self._line = ""
        self._level = 0
        self._is_within = False
        """Whether the line goes on with a statement that a comment has cut."""
        tokens = [token for token in parsed.tokens.tokens if token.type != "$END"]
        self._after = {span_of(one).start: other for one, other in pairwise(tokens)}
        self._learn(program)

    def write(self) -> str:
        before: Token | None = None
        end = 0
        for at, item in enumerate(self._items):
            gap = self._text[end : span_of(item).start]
            if item.type == "COMMENT":
                self._write_comment(item, gap)
            elif item.type != "$END":
                following = next((i for i in self._items[at + 1 :] if i.type != "COMMENT"), None)
                assert following is not None
                self._write_token(before, item, following, gap)
                before = item
            end = span_of(item).end
        self._end_line()
        return "\n".join(self._lines).strip("\n") + "\n"

    def _learn(self, program: tree.Program) -> None:
        for node in program.walk():
            start, last = node.span.start, node.span.end - 1
            match node:
                case tree.Program() | tree.Section():
                    brace = next(
                        span_of(token).start
                        for token in self._items
                        if token.type == "BRACE_OPEN" and span_of(token).start > start
                    )
                    self._opening.add(brace)
                    self._closing.add(last)
                case tree.Block():
                    self._opening.add(start)
                    self._closing.add(last)
                case tree.SetOf() | tree.Pair() | tree.Unary(operator="SIZE"):
                    self._tight_after.add(start)
                    self._tight_before.add(last)
                case tree.ForEach(variable):
                    self._plain_in.add(span_of(self._after[variable.span.start]).start)
                case tree.Unary(operator="MINUS"):
                    self._tight_after.add(start)
                case tree.TypeName(arguments=arguments) if arguments:
                    angle = span_of(self._after[start]).start
                    self._tight_after.add(angle)
                    self._tight_before.update((angle, last))
                case _:
                    pass

    def _write_comment(self, comment: Token, gap: str) -> None:
        text = comment.rstrip()
        if "\n" in gap or not (self._line or self._lines):
            was_within = bool(self._line) or self._is_within
            self._end_line()
            self._keep_blank(self._part_sections(gap))
            self._lines.append(INDENT * (self._level + was_within) + text)
            self._is_within = was_within
            return
        if self._line:
            self._line += f" {text}"
        else:
            self._lines[-1] += f"  {text}"
        if text.startswith("//") and self._line:
            self._end_line()
            self._is_within = True

    def _write_token(self, before: Token | None, token: Token, following: Token, gap: str) -> None:
        start = span_of(token).start
        text = self._spell(token)
        if start in self._closing:
            self._end_line()
            self._level -= 1
            self._is_within = False
            if before is not None and span_of(before).start in self._opening and self._is_empty:
                self._lines[-1] += text
            else:
                self._put(None, token, text, "")
            if following.type in {"LABEL", "ELSE"}:
                return self._reopen()
            self._end_line()
            return None
        if self._line and token.type in _MAY_BEGIN_LINE and "\n" in gap and not self._is_block_else:
            self._end_line()
            self._is_within = True
        if not self._line and not self._is_within:
            self._keep_blank(self._part_sections(gap))
        self._put(before, token, text, gap)
        if start in self._opening:
            self._end_line()
            self._level += 1
            self._is_within = False
        elif token.type == "LABEL" or (token.type == "SEMICOLON" and following.type != "LABEL"):
            self._end_line()
            self._is_within = False
        return None

    @property
    def _is_empty(self) -> bool:
        return bool(self._lines) and self._lines[-1].endswith("{")

    @property
    def _is_block_else(self) -> bool:
        return self._line.endswith("}") and self._line.strip() == "}"

    def _reopen(self) -> None:
        if not self._line:
            self._line = self._lines.pop()
        self._is_within = True

    def _put(self, before: Token | None, token: Token, text: str, gap: str) -> None:
        if not self._line:
            self._line = INDENT * (self._level + self._is_within) + text
        elif before is not None and self._is_tight(before, token) and not self._line.endswith("*/"):
            self._line += text
        else:
            self._line += f" {text}"

    def _is_tight(self, before: Token, token: Token) -> bool:
        if before.type == token.type == "BAR":
            return False  # together they are another operator
        if span_of(before).start in self._tight_after or span_of(token).start in self._tight_before:
            return True
        if before.type in _NO_SPACE_AFTER or token.type in _NO_SPACE_BEFORE:
            return True
        if token.type == "OPEN":
            return before.type in _CALLED
        if token.type == "BRACKET_OPEN":
            return self._after[span_of(token).start].type not in {"MONO", "ALL", "STRICT"} and (
                before.type not in {"OR_BECOMES", "BECOMES"}
            )
        return False

    def _spell(self, token: Token) -> str:
        if token.type == "LABEL":
            return f"({token})"
        spelling = BY_TOKEN.get(token.type)
        if spelling is None:
            return str(token)
        is_ascii = self._ascii_only or span_of(token).start in self._plain_in
        return spelling.ascii if is_ascii else spelling.unicode

    def _part_sections(self, gap: str) -> str:
        """Return a gap that has a blank line if it follows a section."""
        is_after = self._level == 1 and self._lines and self._lines[-1].startswith(INDENT + "}")
        return "\n\n" if is_after else gap

    def _keep_blank(self, gap: str) -> None:
        starts_block = bool(self._lines) and self._lines[-1].endswith("{")
        if gap.count("\n") > 1 and self._lines and self._lines[-1] and not starts_block:
            self._lines.append("")

    def _end_line(self) -> None:
        if self._line:
            self._lines.append(self._line.rstrip())
            self._line = ""
