"""Mistakes of the agents in their rings: tokens, requests, agreement."""

from __future__ import annotations

from contextlib import AbstractContextManager

from quicksilver.multicast.engine import Engine
from quicksilver.multicast.repair import loss_rounds, recovery, repairer, reports
from quicksilver.multicast.repair.loss_rounds import Gathered, LossRounds
from quicksilver.multicast.repair.repairer import Repairer
from quicksilver.multicast.repair.reports import Report
from quicksilver.multicast.repair.requests import RepairRequests
from quicksilver.recovery.rounds import Pace, RoundEnd
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.faults import Crash, Freeze
from quicksilver.wire.control import Record
from tests.trials.broken.breaking import (
    FROM_OUTSIDE,
    Broken,
    all_of,
    losses,
    patched,
    returning,
    scene,
)


def _no_naks() -> AbstractContextManager[None]:
    return all_of(
        patched(RepairRequests, "send_nak", returning(None)),
        patched(RepairRequests, "_tries_before_sender", returning(1 << 30)),
    )


def _never_begins_anew(mistake: AbstractContextManager[None]) -> AbstractContextManager[None]:
    """A member that finds that packets are gone begins anew, and is owed nothing more: what a
    mistake lost shows only where nobody does."""
    return all_of(
        mistake,
        patched(Engine, "_handle_gone", returning(None)),
        patched(Repairer, "_look_at_orphan", returning(None)),
    )


def _acks_too_much() -> AbstractContextManager[None]:
    original = Repairer.report

    def report(self: Repairer, sender: int) -> Report:
        found = original(self, sender)
        if found.low < found.high:
            found.low += 1
            found.safe = found.low
            found.missing = found.missing.difference(RangeSet([(0, found.low)]))
        return found

    return _never_begins_anew(patched(Repairer, "report", report))


def _silent_member() -> AbstractContextManager[None]:
    original = LossRounds._merge

    def merge(self: LossRounds, record: Record, previous: int, now: float) -> Record:
        if self._env.node == self._domain.members[-1]:
            return record
        return original(self, record, previous, now)

    return _never_begins_anew(patched(LossRounds, "_merge", merge))


def _no_aggregate() -> AbstractContextManager[None]:
    original = LossRounds.report

    def report(self: LossRounds, sender: int) -> Report:
        kept, self._aggregates = self._aggregates, {}
        try:
            return original(self, sender)
        finally:
            self._aggregates = kept

    return patched(LossRounds, "report", report)


def _counts_the_silent_in() -> AbstractContextManager[None]:
    original = LossRounds.close_round

    def close_round(self: LossRounds, content: Gathered, end: RoundEnd, now: float) -> Pace:
        return original(self, content, RoundEnd(end.last, (), end.seconds), now)

    return _never_begins_anew(patched(LossRounds, "close_round", close_round))


def _long_tokens() -> AbstractContextManager[None]:
    def trim_ranges(ranges: RangeSet, limit: int, most: int) -> tuple[tuple[int, ...], int]:
        return tuple(ranges.to_flat()), limit

    return all_of(
        patched(reports, "trim_ranges", trim_ranges),
        patched(loss_rounds, "trim_ranges", trim_ranges),
        patched(recovery, "trim_ranges", trim_ranges),
    )


def _never_quiet() -> AbstractContextManager[None]:
    return all_of(
        patched(loss_rounds, "QUIET_ROUNDS", 1 << 30), patched(repairer, "QUIET_ROUNDS", 1 << 30)
    )


def _quiet_too_early() -> AbstractContextManager[None]:
    original = Repairer.note_record

    def note_record(self: Repairer, record: Record, now: float) -> None:
        original(self, record, now)
        self.region.active.pop(record.sender, None)

    def active_senders(self: LossRounds) -> list[int]:
        return []

    return all_of(
        patched(Repairer, "note_record", note_record),
        patched(LossRounds, "active_senders", active_senders),
    )


def _no_pulls() -> AbstractContextManager[None]:
    return _never_begins_anew(
        all_of(
            patched(RepairRequests, "pull", returning(None)),
            patched(RepairRequests, "_living_keepers", returning([])),
            patched(Repairer, "push", returning(None)),
        )
    )


RECOVERING = (
    Broken(
        name="no-naks",
        what="What a whole partition lost is not asked of the sender.",
        install=_no_naks,
        scene=scene(*losses(1, 2, rate=0.4), nodes=3, **FROM_OUTSIDE),
        caught_by=("complete", "cleanup", "quiescence"),
    ),
    Broken(
        name="no-pulls",
        what="Members see what another lacks, and neither ask nor send.",
        install=_no_pulls,
        # As long as the sender lives, it helps: one member loses all until it is dead.
        scene=scene(
            *losses(1, rate=1.0, at=0.9), Crash(at=1.0, node=0, restarts=False), interval_s=0.01
        ),
        caught_by=("survivors",),
    ),
    Broken(
        name="acks-too-much",
        what="A node says that it has the first packet that it lacks.",
        install=_acks_too_much,
        scene=scene(*losses(1, 2, 3, rate=0.3)),
        caught_by=("complete",),
    ),
    Broken(
        name="silent-member",
        what="The last member of a ring passes tokens on without saying what it has.",
        install=_silent_member,
        scene=scene(*losses(3)),
        caught_by=("complete",),
    ),
    Broken(
        name="no-aggregate",
        what="The ring above is never shown what a partition agreed on.",
        install=_no_aggregate,
        scene=scene(nodes=6, partition_size=2),
        caught_by=("cleanup", "quiescence"),
    ),
    Broken(
        name="counts-the-silent-in",
        what="A round that passed over somebody agrees as if it had asked him.",
        install=_counts_the_silent_in,
        scene=scene(Freeze(at=0.6, for_s=1.2, node=2), *losses(2, rate=0.6), nodes=3),
        caught_by=("complete",),
    ),
    Broken(
        name="long-tokens",
        what="A token lists everything that is missing, however much that is.",
        install=_long_tokens,
        scene=scene(
            *losses(1, 2, rate=0.4),
            interval_s=0.01,
            burst=120,
            sizes=(400,),
            packet_bytes=576,
        ),
        caught_by=("tokens",),
    ),
    Broken(
        name="never-quiet",
        what="A sender's record never leaves the token.",
        install=_never_quiet,
        scene=scene(),
        caught_by=("quiescence",),
    ),
    Broken(
        name="quiet-too-early",
        what="A sender's record leaves the token before everything is stable.",
        install=_quiet_too_early,
        scene=scene(*losses(1, 2)),
        caught_by=("cleanup",),
    ),
)
