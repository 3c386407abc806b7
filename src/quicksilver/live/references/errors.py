"""What can be wrong with a reference, as errors that hold data.

A place names where in a reference something is: always a path through its
parts, and for what was read from a file also line and column.
"""

from __future__ import annotations

import msgspec

from quicksilver.stdx.errors import QuicksilverError


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where in a reference something is."""

    path: str
    """Steps from the root such as ``composite/component[uplink]/external``."""

    line: int = 0
    """From 1; 0 if the reference was not read from text."""

    column: int = 0
    """From 1; 0 if the reference was not read from text."""

    source: str = ""
    """The file; empty if there is none."""

    def __str__(self) -> str:
        if not self.line:
            return f"{self.source}: {self.path}" if self.source else self.path
        return f"{self.source or '<reference>'}:{self.line}:{self.column}: {self.path}"


class LiveReferenceError(QuicksilverError):
    """Something about a reference keeps it from being used."""


class UnfitReferenceError(LiveReferenceError):
    """A part of a reference cannot exist: an empty name, a character XML cannot carry."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} {self.problem}"


class MalformedReferenceError(LiveReferenceError):
    """Text that is not a reference; says where and why."""

    def __init__(self, place: Place, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if str(self.place) else self.problem


class BadTypeTextError(LiveReferenceError):
    """Text that does not name a type."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"{shown!r} is no type: {self.problem} at character {self.position + 1}"


class DuplicateEntryError(LiveReferenceError):
    """A catalogue already knows this name or identifier as something else."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name)
        self.what = what
        self.name = name

    def __str__(self) -> str:
        return f"the catalogue already has another {self.what} {self.name!r}"
