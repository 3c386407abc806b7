"""What can be wrong with a type, as errors that hold data."""

from __future__ import annotations

_SHOWN_MAX = 80


class LiveTypeError(Exception):
    """Something is wrong with a distributed type or with its use."""


class TypeParseError(LiveTypeError):
    """Bytes that are not a type: malformed, too large, too deep or inconsistent."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        place = f" at {self.path}" if self.path else ""
        return f"not a type{place}: {self.problem}"
