"""Why a relation between types does not hold: a tree that ends at the exact places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

StepKind: TypeAlias = Literal[
    "endpoint",
    "incoming event",
    "outgoing event",
    "provided constraint",
    "required constraint",
    "field",
    "item",
    "key",
    "value",
    "alternative",
    "referenced object",
    "parameter",
    "whole",
]


class Step(msgspec.Struct, frozen=True):
    """One step into a type: what kind of part, and its name."""

    kind: StepKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


WHOLE = Step("whole")


class Diagnosis(msgspec.Struct, frozen=True):
    """What does not fit: at a place, for a reason, because of what is further inside.

    A node with causes has its reasons there; one without is an exact place.
    """

    step: Step
    reason: str = ""
    causes: tuple[Diagnosis, ...] = ()

    @property
    def places(self) -> Iterator[tuple[tuple[Step, ...], str]]:
        """Yield every exact place, as the steps to it, with its reason."""
        own = () if self.step == WHOLE else (self.step,)
        if not self.causes:
            yield own, self.reason
        for cause in self.causes:
            for steps, reason in cause.places:
                yield (*own, *steps), reason

    @property
    def line(self) -> str:
        """Return the first exact place and its reason, on one line."""
        places = list(self.places)
        steps, reason = places[0]
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        path = " > ".join(map(str, steps))
        return f"{path}: {reason}{more}" if path else f"{reason}{more}"

    @property
    def full(self) -> str:
        """Return the whole tree, a line for each node."""
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        inner = depth
        if self.step != WHOLE or self.reason:
            head = "" if self.step == WHOLE else str(self.step)
            colon = ": " if head and self.reason else ""
            yield f"{'  ' * depth}{head}{colon}{self.reason}"
            inner += 1
        for cause in self.causes:
            yield from cause._lines(inner)

    def __str__(self) -> str:
        return self.line


def inside(step: Step, cause: Diagnosis | None) -> Diagnosis | None:
    """Put a diagnosis one step further in; none stays none."""
    return None if cause is None else Diagnosis(step, "", (cause,))


def gather(*causes: Diagnosis | None, step: Step = WHOLE) -> Diagnosis | None:
    """Return one diagnosis of all that is wrong; None if nothing is."""
    found = tuple(one for one in causes if one is not None)
    if not found:
        return None
    return found[0] if len(found) == 1 and step == WHOLE else Diagnosis(step, "", found)
