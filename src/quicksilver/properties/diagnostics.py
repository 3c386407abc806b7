"""What is wrong with a program: each finding has a place, a reason and a suggestion.

The parser and the rules of ``check`` collect findings and raise nothing, so that one run tells all
of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from quicksilver.properties.syntax.source import Source, Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about a program."""

    code: str
    """The name of the rule that found it, such as ``undefined``."""
    span: Span
    text: str
    """What is wrong, in one line."""
    why: str = ""
    """Why it is wrong, where the text does not say."""
    suggestion: str = ""
    """What to write instead, or what to do."""
    severity: Severity = "error"

    def render(self, source: Source) -> str:
        """Return one line with the place, as editors understand it."""
        place = source.locate(self.span.start)
        said = [self.text]
        if self.why:
            said.append(self.why)
        if self.suggestion:
            said.append(self.suggestion)
        return f"{source.name}:{place.line}:{place.column}: {self.severity}: {'; '.join(said)}"


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    """Return whether any finding is an error; a program with warnings alone can run."""
    return any(found.severity == "error" for found in diagnostics)


def sort_by_place(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return each finding once, in the order of the text."""
    return tuple(
        sorted(
            set(diagnostics),
            key=lambda found: (found.span.start, found.span.end, found.code, found.text),
        )
    )
