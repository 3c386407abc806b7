"""All rules of the checker over one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quicksilver.properties.check import (
    aggregation,
    conflicts,
    constants,
    duplicates,
    guards,
    halves,
    modifiers,
    monotonicity,
    places,
    unused,
)
from quicksilver.properties.check.context import Context
from quicksilver.properties.check.symbols import declare
from quicksilver.properties.check.typing import Typing
from quicksilver.properties.diagnostics import Diagnostic, has_errors, sort_by_place
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.parse import DIAGNOSTICS_MAX, Parsed, parse

Rule = Callable[[Context], Iterator[Diagnostic]]

FORM: tuple[Rule, ...] = (
    duplicates.check,
    places.check,
    halves.check,
    constants.check,
    modifiers.check,
    aggregation.check,
)
"""What can be told of each statement by itself."""
MEANING: tuple[Rule, ...] = (conflicts.check, monotonicity.check, guards.check, unused.check)
"""What can be told of the program as a whole, once its statements are right."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A program and all that is wrong with it."""

    parsed: Parsed
    context: Context | None
    """What was found out about the program; None if nothing could be read."""
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_sound(self) -> bool:
        """Whether it can be compiled: there are no errors, though perhaps warnings."""
        return self.context is not None and not has_errors(self.diagnostics)


def check(text: str, name: str = "<program>") -> Checked:
    """Read and check a program; never raises, whatever the text is."""
    return check_parsed(parse(text, name))


def check_parsed(parsed: Parsed) -> Checked:
    """Check what was read; what could not be read is left out."""
    program = parsed.program
    if program is None:
        return Checked(parsed, None, parsed.diagnostics)
    symbols = declare(program)
    typing = Typing(program, symbols)
    context = Context(program, symbols, typing)
    found = [*symbols.diagnostics, *typing.diagnostics]
    if any(_may_hide_declarations(one, program) for one in parsed.diagnostics):
        found = [one for one in found if one.code != "undefined"]
    found += parsed.diagnostics
    for rule in FORM:
        found += rule(context)
    if not has_errors(found):
        for rule in MEANING:
            found += rule(context)
    return Checked(parsed, context, sort_by_place(found)[:DIAGNOSTICS_MAX])


def _may_hide_declarations(found: Diagnostic, program: tree.Program) -> bool:
    """Return whether what could not be read may have declared something."""
    for section in program.sections:
        if section.span.start <= found.span.start <= section.span.end:
            return section.name in {"interface", "properties"}
    return True
