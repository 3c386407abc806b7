"""Mistakes of the session and of the turn: what lies around the engine on every node."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from quicksilver.core.turn import Turn
from quicksilver.membership.directory import GroupView
from quicksilver.multicast import joins
from quicksilver.multicast.events import GroupViewChanged
from quicksilver.multicast.joins import Joins
from quicksilver.multicast.routes import Joined, Told
from quicksilver.multicast.session import Session
from quicksilver.trials.draw import Membership
from quicksilver.trials.faults import Freeze, Join
from quicksilver.wire.packets import Messages
from tests.trials.broken.breaking import Broken, all_of, losses, patched, returning, scene

Changes = list[GroupViewChanged]

_TWO_GROUPS: dict[str, Any] = {
    "memberships": (
        Membership(group="g0", members=(0, 1, 2, 3)),
        Membership(group="g1", members=(2, 3)),
    )
}


_COMES_AND_GOES = scene(
    *losses(1, 2, rate=0.4, at=0.5),
    Join(at=0.8, for_s=0.5, node=1, group="g1"),
    planner="auto",
    interval_s=0.01,
    **_TWO_GROUPS,
)


# The session


def _takes_everything() -> AbstractContextManager[None]:
    original = Session._deliver

    def deliver(self: Session, messages: Messages) -> None:
        joined = self._joins.by_name
        for group in messages.groups or (messages.group,):
            if group is not None and joined and group not in self._routes:
                self._routes[group] = next(iter(joined.values()))
        original(self, messages)

    return patched(Session, "_deliver", deliver)


def _no_filter() -> AbstractContextManager[None]:
    original = Joins._route

    def route(self: Joins, joined: Joined, group: int, lost_batch: int) -> bool:
        is_routed = original(self, joined, group, lost_batch)
        joined.since = self.newest_batch = 0
        return is_routed

    return patched(Joins, "_route", route)


def _stays_routed() -> AbstractContextManager[None]:
    original = Joined._combine

    def combine(self: Joined) -> None:
        if self.is_wanted:
            original(self)

    return all_of(patched(Joins, "_unroute", returning(None)), patched(Joined, "_combine", combine))


def _tells_twice() -> AbstractContextManager[None]:
    original = joins._tell

    def tell(view: GroupView, told: Told, changes: Changes, *, is_member: bool) -> Told:
        original(view, told, changes, is_member=is_member)
        return told

    return patched(joins, "_tell", tell)


def _tells_first_only() -> AbstractContextManager[None]:
    original = joins._tell

    def tell(view: GroupView, told: Told, changes: Changes, *, is_member: bool) -> Told:
        return told if told[1] else original(view, told, changes, is_member=is_member)

    return patched(joins, "_tell", tell)


def _joins_late() -> AbstractContextManager[None]:
    original = Joins._route

    def route(self: Joins, joined: Joined, group: int, lost_batch: int) -> bool:
        is_new = joined.group != group
        is_routed = original(self, joined, group, lost_batch)
        if is_new:
            joined.since += 1
        return is_routed

    return patched(Joins, "_route", route)


# The turn


def _forgets_alarms() -> AbstractContextManager[None]:
    original = Turn.run

    def run(self: Turn) -> None:
        original(self)
        if self.count % 50 == 0:
            self._timeout = None

    return patched(Turn, "run", run)


def _always_drained() -> AbstractContextManager[None]:
    original = Turn._receive

    def receive(self: Turn, clock: Callable[[], float]) -> bool:
        self._session.handle_drained(clock())
        return original(self, clock)

    return patched(Turn, "_receive", receive)


DRIVING = (
    Broken(
        name="takes-everything",
        what="A node delivers whatever its region carries, joined or not.",
        install=_takes_everything,
        scene=scene(planner="auto", **_TWO_GROUPS),
        caught_by=("members-only", "views-told"),
    ),
    Broken(
        name="no-filter",
        what="Whoever joins a group is given what was committed before it came.",
        install=_no_filter,
        scene=_COMES_AND_GOES,
        caught_by=("members-only",),
    ),
    Broken(
        name="joins-late",
        what="Whoever joins a group is not given what was committed in the batch it came in.",
        install=_joins_late,
        scene=_COMES_AND_GOES,
        caught_by=("complete",),
    ),
    Broken(
        name="stays-routed",
        what="A group that was left goes on to deliver.",
        install=_stays_routed,
        scene=_COMES_AND_GOES,
        caught_by=("views-told",),
    ),
    Broken(
        name="tells-twice",
        what="A view is told whenever it is mentioned, not only when it is new.",
        install=_tells_twice,
        scene=_COMES_AND_GOES,
        caught_by=("views-told",),
    ),
    Broken(
        name="tells-first-only",
        what="The first view of a group is told, and no other.",
        install=_tells_first_only,
        scene=_COMES_AND_GOES,
        caught_by=("views-told",),
    ),
    Broken(
        name="forgets-alarms",
        what="Now and then a turn ends without a plan for the next alarm.",
        install=_forgets_alarms,
        scene=scene(),
        caught_by=("convergence",),
    ),
    Broken(
        name="always-drained",
        what="A turn says that the sockets are drained before it has read them.",
        install=_always_drained,
        scene=scene(
            Freeze(at=0.6, for_s=0.5, node=2),
            interval_s=0.005,
            burst=20,
            sizes=(900,),
            is_modelled=True,
        ),
        caught_by=("proof",),
    ),
)
