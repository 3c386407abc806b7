"""Places in the text of a program."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A piece of a text: characters from ``start`` up to ``end``, which does not belong to it."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end

    def to(self, last: Span) -> Span:
        """Return the piece from the beginning of this one to the end of another."""
        return Span(self.start, last.end)


NOWHERE = Span(0, 0)
"""Of what no text stands for."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and a column, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a program, and what its place is called in messages."""

    text: str
    name: str = "<program>"
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        object.__setattr__(self, "_starts", starts)

    def locate(self, offset: int) -> Place:
        """Return the line and column of a character."""
        line = bisect_right(self._starts, offset)
        return Place(line, offset - self._starts[line - 1] + 1)

    def offset(self, place: Place) -> int:
        """Return the number of the character at a place; other places are moved into the text."""
        line = min(max(place.line, 1), len(self._starts))
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return min(start + max(place.column - 1, 0), end)
