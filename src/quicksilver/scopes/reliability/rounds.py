"""Rounds about streams: what everybody has, what somebody has, and so what is stable or lost.

The rounds of one domain, as one agent takes part in them. Below is the node itself, or the
domain that the agent speaks for, as its leader last found it. A complete round of a domain,
with nobody passed over and everybody able to say what it has, gives the domain's word for the
one above. That of the topic's top domain is what is stable everywhere; it travels down with the
rounds of each domain, and what is agreed on never goes back.

A stream leaves the rounds once all have all of it and know that, so without traffic there are
no rounds. Streams that do not fit into one round take turns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import msgspec

from quicksilver.recovery.rounds import Folding, Pace, RoundEnd
from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Name
from quicksilver.scopes.posts import Post, key_of_post
from quicksilver.scopes.reliability.frames import Copies
from quicksilver.scopes.reliability.lower import NodeState, sort_key
from quicksilver.scopes.reliability.records import (
    NOBODY,
    RECORDS_MAX,
    Gathered,
    Kind,
    Own,
    Record,
    Segment,
    blank,
    fold,
    is_honest,
    join,
    merge,
    ranges_of,
)
from quicksilver.scopes.reliability.repairs import Repairs
from quicksilver.scopes.reliability.returns import RETURN_S
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

QUIET_ROUNDS = 2
"""Rounds in which all was settled, before a stream leaves."""

LOST_ROUNDS = 4
LOST_S = 0.5
"""In so many complete rounds, and for so long, nobody had a message: then it is lost. A single
round may miss one that is just being handed from node to node."""


@dataclass(slots=True)
class Topic:
    """What this agent knows of a stream in its domain."""

    agreed: int = 0
    """The highest ``low`` of a complete round; never goes back."""
    is_known: bool = False
    """True once this agent has led a complete round: then it can speak for the domain."""
    is_waited: bool = False
    """Whether that round counted anybody …"""
    behind: int = VALUE_MAX
    """… what all that counted have, if somebody has come that lacks some of ``agreed`` …"""
    need: int = VALUE_MAX
    """… and what all receivers have, counted or not."""
    high: int = 0
    kept: int = VALUE_MAX
    some: RangeSet = field(default_factory=RangeSet)
    limit: int = VALUE_MAX
    offered: tuple[Segment, ...] = ()
    """Who has what, in this view, as far as it was told or found."""
    quiet: int = QUIET_ROUNDS
    """Rounds since anything was to be agreed on, where this agent leads; from
    ``QUIET_ROUNDS`` on it is left out."""
    gone: tuple[int, int] = (0, 0)
    """The first message that nobody has, and the next that somebody has …"""
    gone_rounds: int = 0
    gone_since: float = 0.0
    """… in how many complete rounds, and since when."""
    doubt: int = 0
    """Below this something seems to be lost, and everybody is to say afresh what it has …"""
    cleared: int = 0
    """… and below this everybody in the domain has, in this view. What a domain has found may
    be old by the time that it is asked for: members may have got more, and be out of reach."""
    hidden: object = None


class StreamRounds(Folding[Gathered]):
    """The rounds of one agent."""

    lower: StreamRounds | None = None
    """The rounds of the domain that the agent speaks for, if they are led here."""

    def __init__(self, post: Post, seat: int, node: NodeState, repairs: Repairs) -> None:
        self.post = post
        self.key = key_of_post(post)
        self.seat = seat
        self.speaks_for_node = post.seats[seat].domain == 0
        self._node = node
        self._repairs = repairs
        self.served = frozenset(post.topics)
        self.streams: dict[Name, Topic] = {}
        self.is_woken = False
        """True when a round is wanted that the agent has not been told of."""
        self.rejected = 0
        """Records that no honest member writes."""
        self._last_told: tuple[str, str, str, int] | None = None
        self._has_lost_members = False
        self._away_until = 0.0
        """Until then members may come back that were passed over, or have left the view."""

    def become_viewed(self, old: StreamRounds) -> None:
        """Go on, in a new view, with what was agreed on in the one before.

        Seats have changed: who has what is found out anew.
        """
        members = {seat.member for seat in self.post.seats}
        before = {seat.member for seat in old.post.seats}
        self._has_lost_members = not before <= members
        has_new_domains = any(s.domain and s.member not in before for s in self.post.seats)
        self._away_until = old._away_until
        self.streams = {name: t for name, t in old.streams.items() if name.topic in self.served}
        for topic in self.streams.values():
            topic.offered = ()
            topic.gone_rounds = 0
            topic.cleared = 0
            topic.quiet = 0 if self.seat == 0 else QUIET_ROUNDS
            if self.seat != 0 or has_new_domains:
                # Who led before does not any more: what is to be agreed on is for the leader. And
                # a part that has come may have been waited for elsewhere: from now on it is here.
                topic.is_known = False

    # What the domain above sees

    def report_above(self, name: Name, doubt: int) -> Own:
        """Return what the domain has agreed on, for an agent that speaks for it one level up.

        ``doubt``: what seems to be lost, so that all are asked afresh.
        """
        topic = self.streams.get(name)
        if topic is None or not topic.is_known:
            self.wake(name)
            return Own(Kind.UNKNOWN)
        if doubt > topic.doubt:
            topic.doubt = doubt
            self.wake(name)
        if topic.is_waited:
            kind = Kind.REGULAR
        else:
            kind = Kind.NEUTRAL if topic.need == VALUE_MAX else Kind.LIGHT
        return Own(
            kind,
            low=topic.agreed,
            behind=topic.behind,
            need=topic.need,
            high=topic.high,
            kept=topic.kept,
            some=topic.some,
            limit=topic.limit,
            cleared=topic.cleared,
            hidden=topic.hidden,
        )

    def wake(self, name: Name) -> None:
        """There is something to agree on about a stream: it takes part in the next rounds."""
        self._find(name).quiet = 0
        self.is_woken = True

    def _find(self, name: Name) -> Topic:
        topic = self.streams.get(name)
        if topic is None:
            topic = self.streams[name] = Topic()
            if len(self.streams) > STREAMS_MAX:
                del self.streams[next(iter(self.streams))]
        return topic

    def active(self) -> list[Name]:
        return [name for name, topic in self.streams.items() if topic.quiet < QUIET_ROUNDS]

    # Rounds

    def _own(self, name: Name) -> Own:
        """Return what the member has that this agent speaks for."""
        if self.speaks_for_node:
            return self._node.report(name, self._find(name).agreed)
        if self.lower is None:
            return Own(Kind.UNKNOWN)
        return self.lower.report_above(name, self._find(name).doubt)

    def _lower_active(self) -> list[Name]:
        if self.speaks_for_node:
            return self._node.active_of(self.served)
        if self.lower is None:
            return []
        return [name for name in self.lower.active() if name.topic in self.served]

    def has_news(self) -> bool:
        return bool(self._lower_active()) or bool(self.active())

    def open_round(self, now: float) -> Gathered:
        names = sorted({*self._lower_active(), *self.active()}, key=sort_key)
        if len(names) > RECORDS_MAX:
            # In turn: whoever was left out comes before those who were told.
            keys = [sort_key(name) for name in names]
            at = 0 if self._last_told is None else bisect_right(keys, self._last_told)
            names = (names[at:] + names[:at])[:RECORDS_MAX]
            self._last_told = sort_key(names[-1])
        if self._has_lost_members:
            self._has_lost_members, self._away_until = False, now + RETURN_S
        records = []
        for name in names:
            topic = self._find(name)
            if now < self._away_until:
                self._node.note_away(name, self._node.stable(name), self._away_until)
            record = Record(
                name.topic,
                name.sender,
                self._node.stable(name),
                self._node.lost(name),
                topic.agreed,
                topic.offered,
                doubt=topic.doubt,
                returns=self._node.returns_of(name, now),
            )
            records.append(self._fold(record))
        return Gathered(tuple(records))

    def _fold(self, record: Record) -> Record:
        name = record.name
        own = self._own(name)
        stable, lost = self._node.stable(name), self._node.lost(name)
        if stable > record.stable or lost > record.lost:
            # A leader that is new here has not heard of it.
            stable, lost = max(stable, record.stable), max(lost, record.lost)
            record = msgspec.structs.replace(record, stable=stable, lost=lost)
        return self._certified(fold(record, own, self.seat), own)

    def _certified(self, record: Record, own: Own) -> Record:
        """Simulations note here how values come about."""
        return record

    def _sealed(self, record: Record, now: float) -> object:
        """Simulations put together here how the word of a domain came about."""
        return None

    def visit(self, content: Gathered, previous: int, now: float) -> Gathered:
        records = []
        for record in self._honest(content):
            self._learn(record, now)
            records.append(self._fold(record))
            self._compare(record.name, record.some, now)
        present = {record.name for record in records}
        for name in self._lower_active():
            if name not in present and len(records) < RECORDS_MAX:
                stable, lost = self._node.stable(name), self._node.lost(name)
                agreed, returns = self._find(name).agreed, self._node.returns_of(name, now)
                own = Record(name.topic, name.sender, stable, lost, agreed, returns=returns)
                records.append(msgspec.structs.replace(self._fold(own), is_partial=True))
        return Gathered(tuple(records))

    def _honest(self, content: Gathered) -> list[Record]:
        """Return the records that an honest member may have written."""
        known: dict[Name, Record] = {}
        for record in content.records:
            is_new = record.name not in known and record.topic in self.served
            if is_new and is_honest(record, len(self.post.seats)):
                known[record.name] = record
        self.rejected += len(content.records) - len(known)
        return list(known.values())

    def _learn(self, record: Record, now: float) -> None:
        """Take what a round says of a stream."""
        name = record.name
        topic = self._find(name)
        topic.agreed = max(topic.agreed, record.agreed)
        topic.high = max(topic.high, record.high)
        topic.doubt = max(topic.doubt, record.doubt)
        if record.offered:
            topic.offered = record.offered
        self._learn_marks(record, now)

    def _learn_marks(self, record: Record, now: float) -> None:
        """Take what a record says of all nodes, whatever the domain."""
        for each in record.returns:
            self._node.note_away(record.name, each.mark, now + each.left_s)
        self._node.learn(record.name, record.stable, record.lost)

    def hear(self, content: Gathered, origin: int, now: float) -> None:
        """Another member's report: it tells what can be had, and nothing that was agreed on."""
        for record in self._honest(content):
            if record.name in self.streams:
                self._compare(record.name, record.some, now)

    def _compare(self, name: Name, found: Sequence[Segment], now: float) -> None:
        """Ask for what others have and the member lacks that this agent speaks for."""
        offers, _ = join(found, self.streams[name].offered, VALUE_MAX)
        lacking = self._lacking(name, offers)
        self._repairs.handle_lacking(self, name, lacking, offers, now)

    def _lacking(self, name: Name, offers: Sequence[Segment]) -> RangeSet:
        others = ranges_of(s for s in offers if s.member != self.seat)
        if self.speaks_for_node:
            return self._node.lacking(name, others)
        own = self._own(name)
        if own.kind is Kind.UNKNOWN:
            return RangeSet()
        wanted = others.clamped(own.need, VALUE_MAX).difference(own.can_give())
        return self._node.without(name, wanted)

    def offers_below(self, name: Name) -> tuple[StreamRounds, Sequence[Segment]] | None:
        """Return the rounds of the domain that this agent speaks for, and who has what there."""
        topic = None if self.lower is None else self.lower.streams.get(name)
        return None if self.lower is None or topic is None else (self.lower, topic.offered)

    # Folding

    def blank(self, content: Gathered) -> Gathered:
        return Gathered(tuple(blank(record) for record in content.records))

    def merge(self, content: Gathered, other: Gathered) -> Gathered:
        found = {record.name: record for record in content.records}
        for record in self._honest(other):
            mine = found.get(record.name)
            if mine is not None:
                found[record.name] = self._merged(mine, record)
            elif len(found) < RECORDS_MAX:
                found[record.name] = record
        return Gathered(tuple(found.values()))

    def _merged(self, one: Record, other: Record) -> Record:
        return merge(one, other)

    # The end of a round

    def handle_deposed(self) -> None:
        """This node stood in for the leader, which is back and can speak for the domain."""
        for topic in self.streams.values():
            topic.is_known = False
            topic.quiet = QUIET_ROUNDS

    def close_round(self, content: Gathered, end: RoundEnd, now: float) -> Pace:
        pace = Pace.QUIET
        if end.skipped:
            self._away_until = now + RETURN_S
        for record in self._honest(content):
            if end.skipped:
                self._node.note_away(record.name, record.stable, self._away_until)
            pace = max(pace, self._conclude(record, end, now), key=lambda p: p.value)
        if pace is Pace.QUIET and self.has_news():
            pace = Pace.STEADY
        return pace

    def _conclude(self, record: Record, end: RoundEnd, now: float) -> Pace:
        name = record.name
        topic = self._find(name)
        if record.is_partial:
            topic.quiet = 0
            self._learn_marks(record, now)
            return Pace.STEADY
        is_complete = self._is_complete(record, end)
        before = topic.agreed
        topic.high = max(topic.high, record.high)
        topic.offered = _offers(record)
        if is_complete:
            topic.is_known = True
            topic.is_waited = record.low is not None
            topic.need = record.need
            topic.behind = VALUE_MAX
            if record.low is not None and record.low < topic.agreed:
                topic.behind = record.low
            topic.kept = record.kept
            topic.some = ranges_of(record.some)
            topic.limit = record.limit
            topic.cleared = max(topic.cleared, min(record.cleared, record.doubt))
            if record.low is not None and record.low >= topic.agreed:
                topic.agreed = record.low
                topic.hidden = self._sealed(record, now)
        self._node.learn(name, record.stable, record.lost)
        if is_complete and self.post.is_top:
            self._conclude_top(name, topic, record, now)
        self._compare(name, (), now)
        stable = self._node.stable(name)
        # What is stable may be lacking here all the same, and be at nobody in the domain.
        is_settled = stable >= record.high and record.stable == stable
        is_settled = is_settled and record.need >= max(record.high, stable)
        if is_complete and is_settled and topic.cleared >= topic.doubt:
            topic.quiet += 1
            return Pace.STEADY if topic.quiet < QUIET_ROUNDS else Pace.QUIET
        topic.quiet = 0
        is_stuck = record.low is not None and record.low < record.high and topic.agreed == before
        return Pace.TROUBLED if is_stuck else Pace.STEADY

    def _is_complete(self, record: Record, end: RoundEnd) -> bool:
        """Whether everybody has said what it has: those passed over have not."""
        return not end.skipped and not record.is_blocked

    def _conclude_top(self, name: Name, topic: Topic, record: Record, now: float) -> None:
        """A complete round of all nodes: say what is stable, and what is lost."""
        stable = self._node.stable(name)
        if record.low is not None:
            stable = max(stable, topic.agreed)
        elif record.need == VALUE_MAX:
            stable = max(stable, record.high)  # nobody wants it
        self._node.learn(name, stable, self._find_lost(topic, record, now))
        self._handle_stable(name, stable, topic)

    def _handle_stable(self, name: Name, stable: int, topic: Topic) -> None:
        """Simulations check here what was concluded."""

    def _find_lost(self, topic: Topic, record: Record, now: float) -> int:
        """Return the number below which nobody has what is missing anywhere."""
        first = record.need
        high = min(max(record.high, record.stable), record.limit)
        given = ranges_of(record.some)
        if record.kept < record.agreed:
            given.add(record.kept, record.agreed)
        if first >= high or first in given:
            topic.gone_rounds = 0
            return record.lost
        later = given.clamped(first, VALUE_MAX)
        gone = first, (later.first() if later else high)
        topic.doubt = max(topic.doubt, gone[1])
        if topic.cleared < gone[1]:
            topic.gone_rounds = 0
            return record.lost
        if topic.gone != gone or topic.gone_rounds == 0:
            topic.gone, topic.gone_rounds, topic.gone_since = gone, 1, now
            return record.lost
        topic.gone_rounds += 1
        if topic.gone_rounds < LOST_ROUNDS or now - topic.gone_since < LOST_S:
            return record.lost
        return max(record.lost, gone[1])

    # Things that all are asked for at once

    def wanted(self) -> Sequence[Hashable]:
        return self._repairs.wanted(self)

    def give(self, item: Hashable, now: float) -> Copies | None:
        return self._repairs.give(self, item, now)

    def take(self, item: Hashable, content: object, origin: int, now: float) -> None:
        if isinstance(content, Copies):
            self._repairs.handle_copies(self, origin, content)


def _offers(record: Record) -> tuple[Segment, ...]:
    """Return who has what, as a round has found it."""
    prefix = []
    if record.keeper != NOBODY and record.kept < record.agreed:
        prefix = [Segment(record.kept, record.agreed, record.keeper)]
    return join(prefix, record.some, VALUE_MAX)[0]
