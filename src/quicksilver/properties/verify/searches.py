"""Which searches make up a verification.

All kinds of faults at once make too many worlds. So several searches are made, each of which
allows for other faults; together they take seconds for a program of the size of those printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quicksilver.properties.plan import Plan
from quicksilver.properties.verify.explore import Explorer, Limits, Result
from quicksilver.properties.verify.world import Faults


@dataclass(frozen=True, slots=True)
class Search:
    """One search."""

    title: str
    limits: Limits


def searches(*, slots: int = 3, numbers: int = 1, worlds_max: int = 50_000) -> tuple[Search, ...]:
    """Return what to search, the quickest first."""

    def limits(faults: Faults, *, is_settled: bool) -> Limits:
        return Limits(
            slots=slots,
            faults=faults,
            numbers=numbers,
            is_settled=is_settled,
            worlds_max=worlds_max,
        )

    return (
        Search("from the beginning", limits(Faults(0, 0, 0, 0), is_settled=False)),
        Search("a loss", limits(Faults(0, 0, 1, 0), is_settled=True)),
        Search("a late round", limits(Faults(0, 0, 0, 1), is_settled=True)),
        Search("a crash, a join", limits(Faults(1, 1, 0, 0), is_settled=True)),
        Search("a loss, a late round", limits(Faults(0, 0, 1, 1), is_settled=True)),
        Search("a crash, a join, a loss", limits(Faults(1, 1, 1, 0), is_settled=True)),
        Search("a crash, a join at the beginning", limits(Faults(1, 1, 0, 0), is_settled=False)),
        Search("a crash, a join, a late round", limits(Faults(1, 1, 0, 1), is_settled=True)),
    )


def verify(plan: Plan, chosen: tuple[Search, ...] | None = None) -> Iterator[tuple[Search, Result]]:
    """Make the searches one by one, as far as the first that finds a broken claim."""
    for search in searches() if chosen is None else chosen:
        result = Explorer(plan, search.limits).run()
        yield search, result
        if result.counterexample is not None:
            return
