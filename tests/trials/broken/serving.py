"""Mistakes of the membership service: numbers, news, and who is alive."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from quicksilver.membership.barrier import JoinBarrier
from quicksilver.membership.batch import GroupStep
from quicksilver.membership.health import FailureDetector
from quicksilver.membership.publication import Publisher
from quicksilver.membership.store import Commit, Image, MemoryStore
from quicksilver.membership.suspicion import Suspicions
from quicksilver.trials.faults import Crash, GmsCut, GmsRestart, Leave
from tests.trials.broken.breaking import Broken, all_of, patched, returning, scene


def _old_numbers() -> AbstractContextManager[None]:
    original = MemoryStore.commit

    def commit(self: MemoryStore, commit: Commit) -> None:
        before = self.load()
        original(self, commit)
        after = self._image
        if before is not None and after is not None and before.nodes:
            # The newest views are there, their numbers are not.
            self._image = Image(
                cluster=after.cluster,
                planner=after.planner,
                counters=after.counters,
                nodes=after.nodes,
                groups={g: before.groups.get(g, row) for g, row in after.groups.items()},
                placements=after.placements,
                regions=after.regions,
                reviews=after.reviews,
            )

    return patched(MemoryStore, "commit", commit)


def _never_excludes() -> AbstractContextManager[None]:
    return all_of(
        patched(FailureDetector, "deadline", returning(1e9)),
        patched(Suspicions, "next_timeout", returning(None)),
    )


def _keeps_news() -> AbstractContextManager[None]:
    original = Publisher._add_group

    def add_group(self: Publisher, parcels: Any, step: GroupStep, served: int) -> None:
        lowest = served & -served
        original(self, parcels, step, served & ~lowest if step.base else served)

    return patched(Publisher, "_add_group", add_group)


def _trusts_itself() -> AbstractContextManager[None]:
    return patched(FailureDetector, "_count", returning(None))


def _answers_at_once() -> AbstractContextManager[None]:
    def ask(self: JoinBarrier, nodes: int, trusted: int, batch: int, now: float) -> None:
        """Wait for nobody."""

    return patched(JoinBarrier, "ask", ask)


SERVING = (
    Broken(
        name="answers-at-once",
        what="The GMS tells a node that it is in before those who send have heard of it.",
        install=_answers_at_once,
        scene=scene(Leave(at=0.6, for_s=0.2, node=1, group="g0")),
        caught_by=("joins",),
        seeds=3,
    ),
    Broken(
        name="trusts-itself",
        what="The GMS blames the nodes when its own link is down.",
        install=_trusts_itself,
        scene=scene(GmsCut(at=0.5, for_s=4.0), seconds=5.0, failure_timeout_s=1.5),
        caught_by=("doubt",),
    ),
    Broken(
        name="old-numbers",
        what="After a restart the GMS gives view numbers again that it had given before.",
        install=_old_numbers,
        scene=scene(
            Leave(at=0.6, for_s=0.2, node=1, group="g0"),
            GmsRestart(at=1.0, for_s=0.2),
            # Back sooner, it would be a new node by then: two views came and went.
            Leave(at=1.5, for_s=1.5, node=2, group="g0"),
        ),
        caught_by=("views",),
    ),
    Broken(
        name="never-excludes",
        what="The GMS never counts a node as failed.",
        install=_never_excludes,
        scene=scene(Crash(at=1.0, node=2, restarts=False)),
        caught_by=("cleanup", "quiescence"),
    ),
    Broken(
        name="keeps-news",
        what="The GMS does not tell one node of changes to groups that it knows.",
        install=_keeps_news,
        scene=scene(Leave(at=1.0, for_s=0.5, node=2, group="g0")),
        caught_by=("convergence",),
    ),
)
