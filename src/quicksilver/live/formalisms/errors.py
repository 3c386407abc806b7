"""What can be wrong with a constraint, as errors that hold data."""

from __future__ import annotations

from quicksilver.live.types.errors import LiveTypeError

_TEXT_SHOWN_MAX = 60


class FormalismError(LiveTypeError):
    """Something is wrong with a constraint or with the formalism it names."""


class UnknownFormalismError(FormalismError):
    """A constraint names a formalism that no library has registered."""

    def __init__(self, identifier: str, known: tuple[str, ...]) -> None:
        super().__init__(identifier, known)
        self.identifier = identifier
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        shown = self.identifier[:_TEXT_SHOWN_MAX]
        return f"no formalism is called {shown!r}: install the library that has it (known: {known})"


class FormalismLoadError(FormalismError):
    """An installed library announces a formalism but does not deliver it."""

    def __init__(self, identifier: str, source: str, problem: str) -> None:
        super().__init__(identifier, source, problem)
        self.identifier = identifier
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"formalism {self.identifier!r} cannot be loaded from {self.source}: {self.problem}"


class FormulaError(FormalismError):
    """A formula that its formalism cannot read. Columns count from 1."""

    def __init__(self, formalism: str, text: str, column: int, problem: str) -> None:
        super().__init__(formalism, text, column, problem)
        self.formalism = formalism
        self.text = text
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        shown = self.text
        if len(shown) > _TEXT_SHOWN_MAX:
            shown = shown[:_TEXT_SHOWN_MAX] + "…"
        return f"{self.formalism} formula {shown!r}, column {self.column}: {self.problem}"

    @property
    def marked(self) -> str:
        """Return the formula with a mark under the place, on two lines."""
        return f"{self.text}\n{' ' * (self.column - 1)}^"
