"""What QSM puts into the rounds of a domain: who has which packets of which sender.

A token has one record for each active sender, whatever the number of groups or nodes
(dissertation 4.2.1 C). It gathers what everyone has, what someone lacks, and what has not
reached those who keep it. In the domains at the bottom, the partitions, neighbours also
compare what they have, and push or pull the difference.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from quicksilver.multicast.environment import Environment
from quicksilver.multicast.repair.repairer import QUIET_ROUNDS, Repairer
from quicksilver.multicast.repair.reports import (
    NOT_WAITED_FOR,
    Report,
    Reporter,
    add_ranges,
    earlier_cut,
    parse_ranges,
    trim_ranges,
)
from quicksilver.multicast.repair.requests import LOOKED_UP_MAX
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.rounds import Pace, RoundEnd, Rounds
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import Record

RECORDS_SENT_MAX = 64
"""Senders in one token; with more, they take turns."""


@dataclass(slots=True)
class Gathered:
    """What a token carries."""

    records: tuple[Record, ...]
    buffer_bytes: int
    """The smallest share of a receive buffer that a stream may fill at a visited node."""
    drops: int
    """Datagrams that visited nodes' kernels dropped since they last said so."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """A round of the whole region is complete."""

    reports: dict[int, Report]
    """What the region says of each sender's stream in the round."""
    stable: dict[int, int]
    """Up to where the round's records called each stream stable."""
    gathered: Gathered
    senders: int
    """How many streams are active in the region."""
    seconds: float


OnAgreed = Callable[[Agreed, float], None]


def _limit_of(report: Report) -> int:
    """Return up to where what a domain lacks is known; whoever is not waited for sets no limit."""
    return NOT_WAITED_FOR if report.low == NOT_WAITED_FOR else report.missing_limit


class LossRounds(Rounds[Gathered]):
    """The rounds of one domain, as one node takes part in them."""

    def __init__(
        self,
        environment: Environment,
        domain: Domain,
        repairer: Repairer,
        on_agreed: OnAgreed | None,
    ) -> None:
        """``on_agreed`` is told of every round; given where the domain is the region."""
        self._env = environment
        self._domain = domain
        self._repairer = repairer
        self._on_agreed = on_agreed
        self._most = environment.config.ranges_told_max
        self._aggregates: dict[int, Report] = {}
        """The domain's state after the last complete round, shown to the one above."""
        self._quiet: dict[int, int] = {}
        """For each sender in the token: rounds since anything happened."""
        self._last_told = -1
        """The last sender in the newest token: with many, the next begins after it."""

    @property
    def _lower(self) -> Reporter:
        """What reports to this domain for this node: the node itself, or the domain below."""
        return self._repairer if self.below is None else cast("LossRounds", self.below)

    # What the domain above sees

    def active_senders(self) -> list[int]:
        """Return the senders whose streams are not quiet here."""
        return [sender for sender, rounds in self._quiet.items() if rounds < QUIET_ROUNDS]

    def report(self, sender: int) -> Report:
        """Return what the domain agreed on last."""
        found = self._aggregates.get(sender)
        if found is None:
            found = self._repairer.report_quiet(sender)
        if found.low < self._repairer.state.of(sender).agreed:
            # Its leader was away, and the region went on without it: this is an old story.
            laggard = found.laggard or found.slowest
            return msgspec.structs.replace(found, low=NOT_WAITED_FOR, laggard=laggard)
        return found

    def count_ranges(self) -> int:
        """Return how many ranges the last reports consist of; a set has RANGES_MAX at most."""
        reports = self._aggregates.values()
        return sum(r.missing.range_count() + r.unkept.range_count() for r in reports)

    # Rounds

    def _all_senders(self) -> list[int]:
        return sorted({*self._lower.active_senders(), *self.active_senders()})

    def has_news(self) -> bool:
        return bool(self._lower.active_senders()) or bool(self.active_senders())

    def open_round(self, now: float) -> Gathered:
        senders = self._all_senders()
        if len(senders) > RECORDS_SENT_MAX:
            # In turn: whoever was left out comes before those who were told.
            at = bisect_right(senders, self._last_told)
            senders = (senders[at:] + senders[:at])[:RECORDS_SENT_MAX]
            self._last_told = senders[-1]
            senders.sort()
        for sender in senders:
            self._quiet.setdefault(sender, 0)
        records = tuple(self._new_record(sender) for sender in senders)
        return Gathered(records, self._env.receive_share(), self._repairer.take_drops())

    def _new_record(self, sender: int) -> Record:
        report = self._lower.report(sender)
        missing, missing_limit = trim_ranges(report.missing, _limit_of(report), self._most)
        unkept, unkept_limit = trim_ranges(report.unkept, report.unkept_limit, self._most)
        state = self._repairer.state.of(sender)
        region_unkept, region_unkept_limit = trim_ranges(
            state.kept.lacking, state.kept.limit, self._most
        )
        return Record(
            sender=sender,
            high=report.high,
            low=report.low,
            slowest=report.slowest,
            safe=report.safe,
            laggard=report.laggard,
            front=report.front,
            missing=missing,
            missing_limit=missing_limit,
            wanted=(),
            previous=(),
            previous_limit=0,
            unasked=(),
            unkept=unkept,
            unkept_limit=unkept_limit,
            stable=state.stable,
            agreed=state.agreed,
            region_unkept=region_unkept,
            region_unkept_limit=region_unkept_limit,
            cut=state.cut,
        )

    def visit(self, content: Gathered, previous: int, now: float) -> Gathered:
        records = [self._merge(record, previous, now) for record in self._honest(content)]
        present = {record.sender for record in records}
        for sender in sorted(self._lower.active_senders()):
            if sender not in present and len(records) < RECORDS_SENT_MAX:
                records.append(self._insert(sender))
        return Gathered(
            tuple(records),
            min(content.buffer_bytes, self._env.receive_share()),
            content.drops + self._repairer.take_drops(),
        )

    def _honest(self, content: Gathered) -> list[Record]:
        """Return the records that an honest node may have written.

        A liar could fill tables with senders that do not exist, or make the
        token longer at every node.
        """
        known: dict[int, Record] = {}
        for record in content.records:
            sender = record.sender
            is_new = sender not in known and len(known) < RECORDS_SENT_MAX
            if is_new and self._repairer.accepts(sender):
                known[sender] = record
        self._env.counters.rejected += len(content.records) - len(known)
        return list(known.values())

    def _insert(self, sender: int) -> Record:
        """Bring a sender back whose record had left the token.

        The nodes passed already have not spoken, so nothing is agreed yet.
        """
        record = self._new_record(sender)
        record.low = record.safe = 0
        record.missing_limit = 0
        record.unkept_limit = 0
        return record

    def _merge(self, record: Record, previous: int, now: float) -> Record:
        """Fold this domain's report into a record on its way."""
        self._repairer.note_record(record, now)
        sender = record.sender
        state = self._repairer.state.of(sender)
        record.stable = max(record.stable, state.stable)
        record.agreed = max(record.agreed, state.agreed)
        record.cut = earlier_cut(record.cut, state.cut)
        report = self._lower.report(sender)
        record.high = max(record.high, report.high)
        if report.low < record.low:
            record.low = report.low
            record.slowest = report.slowest
        if report.laggard and (not record.laggard or report.safe < record.safe):
            record.laggard = report.laggard
        record.safe = min(record.safe, report.safe)
        record.front = max(record.front, report.front)
        record.missing, record.missing_limit = add_ranges(
            record.missing, record.missing_limit, report.missing, _limit_of(report), self._most
        )
        record.unkept, record.unkept_limit = add_ranges(
            record.unkept, record.unkept_limit, report.unkept, report.unkept_limit, self._most
        )
        self._compare(record, previous, report, now)
        return record

    def _compare(self, record: Record, previous: int, report: Report, now: float) -> None:
        """Compare with the member before; between domains there is nothing to compare."""

    def handle_deposed(self) -> None:
        self._quiet.clear()
        self._aggregates.clear()

    # The end of a round

    def close_round(self, content: Gathered, end: RoundEnd, now: float) -> Pace:
        records = self._honest(content)
        for node in end.skipped:
            self._env.on_passed_over(node, now)
        is_troubled = False
        for record in records:
            self._note_last(record, end, now)
            self._aggregate(record, end)
            is_troubled = is_troubled or bool(record.missing)
        self._trace(records, end, now)
        self._handle_gathered(records, end, now)
        if self._on_agreed is not None:
            agreed = Agreed(
                {record.sender: self._aggregates[record.sender] for record in records},
                {record.sender: record.stable for record in records},
                content,
                len(self._all_senders()),
                end.seconds,
            )
            self._on_agreed(agreed, now)
        self._forget_quiet()
        if not self.has_news():
            return Pace.QUIET
        return Pace.TROUBLED if is_troubled else Pace.STEADY

    def _note_last(self, record: Record, end: RoundEnd, now: float) -> None:
        """The leader takes what the complete record says: the token does not visit it again."""
        self._repairer.note_record(record, now)

    def _handle_gathered(self, records: list[Record], end: RoundEnd, now: float) -> None:
        """Act on what the domain as a whole lacks."""

    def _aggregate(self, record: Record, end: RoundEnd) -> None:
        sender = record.sender
        low, safe, laggard = record.low, record.safe, record.laggard
        limit = record.missing_limit
        before = self._aggregates.get(sender)
        stable = self._repairer.state.of(sender).stable
        if end.skipped:
            # Nobody waits for those passed over; they may lack anything past their last word.
            held = max(stable, before.safe) if before is not None else stable
            if not laggard or held < safe:
                laggard = end.skipped[0]
            safe = min(safe, held)
        self._aggregates[sender] = Report(
            high=record.high,
            low=low,
            slowest=record.slowest,
            safe=safe,
            laggard=laggard,
            front=record.front,
            missing=parse_ranges(record.missing),
            missing_limit=limit if low == NOT_WAITED_FOR else max(limit, low),
            unkept=parse_ranges(record.unkept),
            unkept_limit=record.unkept_limit,
        )
        is_settled = min(safe, stable) >= record.high
        if is_settled and before is not None and before.high == record.high:
            self._quiet[sender] = self._quiet.get(sender, 0) + 1
        else:
            self._quiet[sender] = 0

    def _forget_quiet(self) -> None:
        """Leave a sender out of the next tokens when nothing new of it came, here or below."""
        below = set(self._lower.active_senders())
        for sender in [s for s, rounds in self._quiet.items() if rounds >= QUIET_ROUNDS]:
            if sender in below:
                self._quiet[sender] = QUIET_ROUNDS - 1
            else:
                del self._quiet[sender]
                self._aggregates.pop(sender, None)
                self._handle_left_out(sender)

    def _handle_left_out(self, sender: int) -> None:
        """A sender has left the token: forget what was noted for its rounds."""

    def _trace(self, records: list[Record], end: RoundEnd, now: float) -> None:
        env, region = self._env, self._repairer.region
        if env.tracer is not None:
            lost = sum(sum(record.missing[1::2]) for record in records)
            level = self._domain.name[0]
            env.tracer(
                trace.RoundCompleted(
                    now,
                    env.node,
                    region.id,
                    region.number,
                    level,
                    end.seconds,
                    len(records),
                    lost,
                )
            )


class PartitionRounds(LossRounds):
    """Rounds of the nodes of one partition, who keep copies and repair each other.

    A record also says what nobody visited holds, and what the member before lacks.
    """

    def __init__(
        self,
        environment: Environment,
        domain: Domain,
        repairer: Repairer,
        on_agreed: OnAgreed | None,
    ) -> None:
        super().__init__(environment, domain, repairer, on_agreed)
        self._unasked: dict[int, RangeSet] = {}
        """What the leader could not ask its neighbour for when the last round ended."""

    def _new_record(self, sender: int) -> Record:
        record = super()._new_record(sender)
        report = self._lower.report(sender)
        lacking = lacking_here = report.missing
        known = self._aggregates.get(sender)
        if known is not None:
            lacking = lacking.union(known.missing)
        if lacking:
            record.wanted = self._not_held(sender, lacking)
        record.previous, record.previous_limit = trim_ranges(
            lacking_here, report.missing_limit, self._most
        )
        left = self._unasked.pop(sender, None)
        if left and len(self._domain.members) > 1:
            still = left.intersection(report.missing)
            record.unasked, _ = trim_ranges(still, report.high, self._most)
        return record

    def _not_held(self, sender: int, ranges: RangeSet) -> tuple[int, ...]:
        """Return what of some packets this node has no copies of."""
        some = ranges.head(self._most)
        if some.count() > LOOKED_UP_MAX:
            some = some.clamped(0, some.values(LOOKED_UP_MAX)[-1] + 1)
        lacked = some.difference(self._repairer.held_here(sender, some))
        # A node that keeps every other packet cuts one range into many.
        return tuple(lacked.head(self._most).to_flat())

    def _compare(self, record: Record, previous: int, report: Report, now: float) -> None:
        """Push to and pull from the member before; leave word for the next one.

        What this node can pull from the member before it does not leave for the
        next one to push: nobody gets a packet twice.
        """
        sender = record.sender
        lost = self._repairer.unasked_here(sender, now)
        asked = self._exchange(record, previous, lost, now)
        wanted = parse_ranges(record.wanted)
        if wanted:
            record.wanted = self._not_held(sender, wanted)
        record.previous, record.previous_limit = trim_ranges(
            report.missing, report.missing_limit, self._most
        )
        record.unasked, _ = trim_ranges(lost.difference(asked), report.high, self._most)

    def _exchange(self, record: Record, previous: int, lost: RangeSet, now: float) -> RangeSet:
        """Send the member before what it lacks, ask it for what is lost; return the latter."""
        repairer = self._repairer
        sender = record.sender
        unasked = parse_ranges(record.unasked)
        if unasked:
            repairer.push(previous, sender, unasked, now)
        if not lost:
            return RangeSet()
        asked = lost.clamped(0, record.previous_limit).difference(parse_ranges(record.previous))
        asked = repairer.kept_by(previous, sender, asked)
        if asked:
            repairer.pull(previous, sender, asked, now)
        return asked

    def _note_last(self, record: Record, end: RoundEnd, now: float) -> None:
        """The leader also compares with the last member of the round, its neighbour."""
        super()._note_last(record, end, now)
        if end.last != self._env.node:
            lost = self._repairer.unasked_here(record.sender, now)
            asked = self._exchange(record, end.last, lost, now)
            if lost:
                self._unasked[record.sender] = lost.difference(asked)

    def _handle_gathered(self, records: list[Record], end: RoundEnd, now: float) -> None:
        for record in records:
            if record.wanted:
                self._handle_wanted(record, end, now)
            else:
                self._repairer.state.forget_votes(record.sender)

    def _handle_wanted(self, record: Record, end: RoundEnd, now: float) -> None:
        """Nobody in this partition holds these packets: ask the sender, or give up."""
        repairer = self._repairer
        sender = record.sender
        wanted = parse_ranges(record.wanted)
        if not wanted or sender == self._env.node:
            return
        if repairer.region.is_alone:
            wanted = wanted.intersection(repairer.missing_here(sender))
        wanted = repairer.requests.ours_to_ask_for(wanted)
        if not wanted:
            return
        if not self._env.is_failed(sender):
            repairer.requests.ask_sender(sender, wanted, now)
        elif wanted.first() < repairer.state.of(sender).agreed:
            # Others have delivered it: whoever lacks it has to begin again (``Repairer``),
            # for a stream that ends there would end earlier than theirs.
            return
        elif not end.skipped and repairer.state.vote_cut(sender, wanted.first()):
            # Someone who was passed over might have had the only copy.
            repairer.cut(sender, wanted.first())

    def _handle_left_out(self, sender: int) -> None:
        self._unasked.pop(sender, None)
