"""Scopes that do what QSM does, broken on purpose: regions and nested domains with one mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from quicksilver.scopes.dissemination.holdings import Holdings
from quicksilver.scopes.management import domains, nesting
from quicksilver.scopes.management.domains import Domains
from quicksilver.scopes.management.nesting import Group
from quicksilver.scopes.posts import Seat
from quicksilver.scopes.sessions.stays import Stays
from quicksilver.trials.as_scopes.trial import draw
from quicksilver.trials.draw import Membership
from quicksilver.trials.faults import Crash, Leave, Partition
from tests.trials.broken.breaking import Scene, losses, patched, scene


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake, as somebody might make it."""

    name: str
    what: str
    install: Callable[[], AbstractContextManager[None]]
    scene: Scene
    caught_by: tuple[str, ...]
    """Checks that find it, each within so many seeds from 1 on."""
    seeds: int = 1


def _drop_a_group() -> AbstractContextManager[None]:
    def divide(seats: Sequence[Seat], most: int) -> list[Seat | Group]:
        found = nesting.divide(seats, most)
        return found[:-1] if any(isinstance(each, Group) for each in found) else found

    return patched(domains, "divide", divide)


def _leaders_stay() -> AbstractContextManager[None]:
    original = Domains._seat

    def seat(
        self: Domains, domain: Any, seats: Any, topics: Any, changed: Any, *, is_top: bool
    ) -> None:
        before = domain.seats, domain.topics, domain.is_top
        had = domain.id in changed
        original(self, domain, seats, topics, changed, is_top=is_top)
        if before == (domain.seats, domain.topics, domain.is_top) and not had:
            changed.pop(domain.id, None)

    return patched(Domains, "_seat", seat)


def _own_begins_anew() -> AbstractContextManager[None]:
    original = Holdings.begin

    def begin(self: Holdings, *rest: Any) -> Any:
        self._own_lows.clear()
        return original(self, *rest)

    return patched(Holdings, "begin", begin)


def _again() -> AbstractContextManager[None]:
    return patched(Stays, "lacking", lambda self, item: item)


def _many(*faults: Any, nodes: int = 12, **changes: Any) -> Scene:
    """Nodes in partitions of two or three, and partitions of those."""
    return scene(*faults, nodes=nodes, partition_size=2, **changes)


TWO_REGIONS: dict[str, Any] = {
    "memberships": (
        Membership(group="g0", members=tuple(range(12))),
        Membership(group="g1", members=tuple(range(6))),
    )
}

MISTAKES = (
    Mistake(
        name="a-group-is-dropped",
        what="Of the groups that a domain is divided into the last one has no seat.",
        install=_drop_a_group,
        scene=_many(*losses(*range(12)), **TWO_REGIONS),
        caught_by=("flushed", "stability"),
    ),
    Mistake(
        name="leaders-stay",
        what="The agent of a partition is not handed on when another member leads it.",
        install=_leaders_stay,
        scene=_many(*(Crash(at=0.5 + n / 10, node=n, restarts=False) for n in range(5)), nodes=14),
        caught_by=("flushed", "quiescence"),
    ),
    Mistake(
        name="own-stream-begins-anew",
        what="A node that comes back to a topic asks others for what it sent itself.",
        install=_own_begins_anew,
        scene=lambda _: draw(7),
        caught_by=("flushed", "quiescence"),
    ),
    Mistake(
        name="delivered-again",
        what="A node that comes back to a topic gets what it had when it left.",
        install=_again,
        scene=_many(
            Partition(at=0.5, for_s=1.4, island=(3,), all_reach_gms=True),
            Leave(at=0.8, for_s=0.6, node=1, group="g0"),
            Leave(at=1.0, for_s=0.5, node=2, group="g0"),
        ),
        caught_by=("duplicates",),
        seeds=3,
    ),
)
