"""Why a program cannot be compiled."""

from __future__ import annotations

from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax.source import Source
from quicksilver.stdx.errors import QuicksilverError


class UnsoundProgramError(QuicksilverError):
    """The program has errors; ``diagnostics`` holds them all."""

    def __init__(self, source: Source, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(source, diagnostics)
        self.source = source
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        errors = [found for found in self.diagnostics if found.severity == "error"]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        return f"{errors[0].render(self.source)}{more}"


class ArgumentError(QuicksilverError):
    """A parameter of the program was given a value that it cannot have, or none."""

    def __init__(self, program: str, parameter: str, problem: str) -> None:
        super().__init__(program, parameter, problem)
        self.program = program
        self.parameter = parameter
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.program}: parameter {self.parameter} {self.problem}"
