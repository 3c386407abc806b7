"""Recovery agents: one per domain, in rings, through three interfaces.

An agent speaks for one domain (a node, or the ring below it) among its peers
(dissertation 3.2.11–3.2.13). Its *lower* interface tells the state of what it
represents; its *peers* are the ring in which a token circulates; its *upper*
interface is the aggregate that the ring's leader shows to the agent above. The
agents know nothing of sockets or of QSM's three levels: a hierarchy of any
depth is the same agent on top of itself.

The token (4.2.1 C) gathers, for each active sender, what everyone has, what
someone lacks, and what nobody holds; neighbours compare what they have and push
or pull the difference. A leader releases tokens as fast as data asks for them
and stops when all is stable; a lost token costs one round, after which the
leader calls the roll and goes around those who do not answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.domains import Ring
from quicksilver.multicast.interfaces import (
    RANGES_SENT_MAX,
    Lower,
    Recovery,
    Report,
    Upper,
    earlier_cut,
    first_ranges,
    shorter,
    trimmed,
)
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.control import RANGES_MAX, Record, Token, encode_control

TOKEN_BYTES_MAX = 32_000
"""In longer tokens every sender's sets are told in fewer ranges, alike for all of them;
a datagram holds 65,507 bytes."""

RECORDS_SENT_MAX = 64
"""Senders in one token; with more, they take turns."""

HELD_CHECKED_MAX = 512
QUIET_ROUNDS = 3
"""Rounds in which nothing happened, after which a sender leaves the token."""


class RingAgent:
    """The agent of one domain in one ring; a feed of tokens."""

    def __init__(
        self,
        *,
        node: int,
        cluster: int,
        region: int,
        view: int,
        ring: Ring,
        lower: Lower,
        upper: Upper,
        recovery: Recovery,
        config: EngineConfig,
        counters: Counters,
        register: Callable[[RingAgent], None],
    ) -> None:
        self.ring = ring
        self.node = node
        self._cluster = cluster
        self._region = region
        self._view = view
        self.lower = lower
        """What it speaks for; replaced when the ring below is rebuilt."""
        self._upper = upper
        self._recovery = recovery
        self._config = config
        self._counters = counters
        self._register = register
        self.aggregates: dict[int, Report] = {}
        """The ring's state after the last complete round: the upper interface."""
        self.quiet: dict[int, int] = {}
        """For each sender in the token: rounds since anything happened."""
        self.due_at: float | None = None
        """When to release the next token; None while all is quiet."""
        self.token_s = 0.0
        self.seen_at = 0.0
        """When a token last came by."""
        self.acting = False
        """True while this node stands in for a leader that does not answer."""
        self.unanswered_wakes = 0
        self.suspects: set[int] = set()
        self._round = 0
        self._released_at: dict[int, float] = {}
        self._last_released = -1.0
        self._release_wanted = False
        self._passing: list[Token] = []
        self._roll: _RollCall | None = None
        self._unasked: dict[int, RangeSet] = {}
        self._is_woken = False
        self._ask_again_at = 0.0
        self._last_told = -1
        """The last sender in the newest token: with many, the next begins after it."""

    # Getters

    @property
    def is_leader(self) -> bool:
        return self.ring.leader == self.node or self.acting

    def active_senders(self) -> list[int]:
        """Lower interface for the agent above: streams that are not quiet."""
        return [sender for sender, rounds in self.quiet.items() if rounds < QUIET_ROUNDS]

    def all_senders(self) -> list[int]:
        """Return the senders that rounds are about, here or in the domain below."""
        return sorted(set(self.lower.active_senders()) | set(self.active_senders()))

    def report(self, sender: int) -> Report:
        """Lower interface for the agent above: what the ring agreed on last."""
        found = self.aggregates.get(sender)
        if found is None:
            # Quiet here, or new: what the region agreed on before still holds.
            return Report.of_all_below(self._recovery.region_words(sender).stable, self.node)
        return found

    # Time

    def handle_work(self, now: float, *, urgent: bool) -> None:
        """Something arrived or is missing: have a token released in due time."""
        if not self.is_leader:
            return
        interval = 0.0 if urgent else self._config.token_interval_s
        due = max(now + interval, self._last_released + self._config.token_spacing_s)
        if self.due_at is None or due < self.due_at:
            self.due_at = due

    def handle_wake(self, origin: int, now: float) -> None:
        """A member has news that may not have reached this node: ask around."""
        self._is_woken = True
        self.suspects.discard(origin)
        self.handle_work(now, urgent=True)

    def next_timeout(self) -> float | None:
        if self._roll is not None:
            when = self._roll.ends_at
        elif self._released_at:
            when = next(iter(self._released_at.values())) + self._config.token_timeout_s
        elif self.suspects:
            when = self._ask_again_at
        else:
            return self.due_at
        return when if self.due_at is None or when < self.due_at else self.due_at

    def handle_timeout(self, now: float) -> None:
        config = self._config
        if self._roll is not None:
            if now >= self._roll.ends_at:
                self._end_roll(now)
        elif self._released_at:
            oldest = next(iter(self._released_at.values()))
            if now >= oldest + config.token_timeout_s:
                self._call_roll(now)
        elif self.suspects and now >= self._ask_again_at:
            self._call_roll(now)
        if self.due_at is not None and now >= self.due_at:
            in_flight = len(self._released_at)
            if self._roll is not None or in_flight >= config.tokens_in_flight:
                # Wait for a round to end; its completion sets the next one.
                self.due_at = None
                return
            self.due_at = None
            self._release_wanted = True
            self._register(self)

    # Tokens out

    def poll(self, now: float) -> Transmit | None:
        """Create the token that leaves now, from the state of this moment."""
        while self._passing:
            token = self._passing.pop(0)
            transmit = self._pass_on(token, now)
            if transmit is not None:
                return transmit
        if self._roll is not None and self._roll.to_call:
            peer = self._roll.to_call.pop()
            token = self._new_token(direct=True)
            token.round = self._roll.round
            return self._to(peer, token)
        if self._release_wanted:
            self._release_wanted = False
            return self._release(now)
        return None

    def _new_token(self, *, direct: bool) -> Token:
        senders = self.all_senders()
        if len(senders) > RECORDS_SENT_MAX:
            # In turn: whoever was left out comes before those who were told.
            at = bisect_right(senders, self._last_told)
            senders = (senders[at:] + senders[:at])[:RECORDS_SENT_MAX]
            self._last_told = senders[-1]
            senders.sort()
        for sender in senders:
            self.quiet.setdefault(sender, 0)
        return Token(
            cluster=self._cluster,
            origin=self.node,
            region=self._region,
            view=self._view,
            level=self.ring.level,
            ring=self.ring.index,
            round=self._round,
            leader=self.node,
            skipped=tuple(sorted(self.suspects))[:64],
            direct=direct,
            buffer_bytes=self._recovery.buffer_share(),
            drops=self._recovery.take_drops(),
            records=tuple(self._new_record(sender) for sender in senders),
        )

    def _new_record(self, sender: int) -> Record:
        report = self.lower.report(sender)
        missing, missing_limit = trimmed(report.missing, report.missing_limit)
        unkept, unkept_limit = trimmed(report.unkept, report.unkept_limit)
        words = self._recovery.region_words(sender)
        region_unkept, region_unkept_limit = trimmed(words.kept.lacking, words.kept.limit)
        wanted: tuple[int, ...] = ()
        previous: tuple[int, ...] = ()
        previous_limit = 0
        if self.ring.level == 0:
            lacking = report.missing
            known = self.aggregates.get(sender)
            if known is not None:
                lacking = lacking.union(known.missing)
            if lacking:
                wanted = self._not_held(sender, lacking)
            previous, previous_limit = missing, missing_limit
        return Record(
            sender=sender,
            high=report.high,
            low=report.low,
            slowest=report.slowest,
            missing=missing,
            missing_limit=missing_limit,
            wanted=wanted,
            previous=previous,
            previous_limit=previous_limit,
            unasked=self._left_over(sender, report),
            unkept=unkept,
            unkept_limit=unkept_limit,
            stable=words.stable,
            region_unkept=region_unkept,
            region_unkept_limit=region_unkept_limit,
            cut=words.cut,
        )

    def _left_over(self, sender: int, report: Report) -> tuple[int, ...]:
        """What the leader could not ask its neighbour for when the last round ended."""
        if len(self.ring.members) == 1:
            return ()
        left = self._unasked.pop(sender, None)
        if not left:
            return ()
        return trimmed(left.intersection(report.missing), report.high)[0]

    def _not_held(self, sender: int, ranges: RangeSet) -> tuple[int, ...]:
        some = first_ranges(ranges)
        if some.count() > HELD_CHECKED_MAX:
            some = some.clamped(0, some.values(HELD_CHECKED_MAX)[-1] + 1)
        return tuple(some.difference(self._recovery.held_here(sender, some)).to_flat())

    def _release(self, now: float) -> Transmit | None:
        self._round += 1
        self._last_released = now
        self._counters.tokens_released += 1
        token = self._new_token(direct=False)
        if not token.records and not self.suspects and not self._is_woken:
            return None
        self._is_woken = False
        peer = self.ring.next_of(self.node, self.suspects)
        if peer == self.node:
            self._complete(token, 0.0, now)
            return None
        self._released_at[self._round] = now
        return self._to(peer, token)

    def _to(self, peer: int, token: Token) -> Transmit | None:
        address = self._recovery.address_of(peer)
        if address is None:
            return None
        return Transmit(address, [encode_bounded(token, peer)])

    # Tokens in

    def handle_token(self, token: Token, now: float) -> None:
        """Take a token that arrived from a peer of this ring."""
        self.seen_at = now
        self.unanswered_wakes = 0
        self._sort_out(token)
        if token.leader == self.node:
            if token.direct:
                self._answer_to_roll(token, now)
                return
            released_at = self._released_at.pop(token.round, None)
            if released_at is None:
                return
            self._complete(token, now - released_at, now)
            return
        if self.acting and token.leader == self.ring.leader:
            self._become_follower()
        self._passing.append(token)
        self._register(self)

    def _sort_out(self, token: Token) -> None:
        """Drop records that no honest node writes, before they are believed or passed on.

        A liar could fill tables with senders that do not exist, or make the
        token longer at every node.
        """
        known: dict[int, Record] = {}
        for record in token.records:
            if (
                record.sender not in known
                and len(known) < RECORDS_SENT_MAX
                and self._recovery.accepts(record.sender)
            ):
                known[record.sender] = record
        if len(known) < len(token.records):
            self._counters.rejected += len(token.records) - len(known)
            token.records = tuple(known.values())

    def _pass_on(self, token: Token, now: float) -> Transmit | None:
        """Add this domain's state, compare with the node before, send it on."""
        origin = token.origin
        present = set()
        records = []
        for record in token.records:
            present.add(record.sender)
            records.append(self._merge(record, origin, now))
        for sender in sorted(self.lower.active_senders()):
            if sender not in present and len(records) < RECORDS_SENT_MAX:
                records.append(self._insert(sender))
        token.records = tuple(records)
        token.buffer_bytes = min(token.buffer_bytes, self._recovery.buffer_share())
        token.drops += self._recovery.take_drops()
        token.origin = self.node
        if token.direct:
            return self._to(token.leader, token)
        skipped = set(token.skipped) - {token.leader}
        peer = self.ring.next_of(self.node, skipped)
        return self._to(peer, token)

    def _insert(self, sender: int) -> Record:
        """Bring a sender back whose record had left the token.

        The nodes passed already have not spoken, so nothing is agreed yet.
        """
        record = self._new_record(sender)
        record.low = 0
        record.missing_limit = 0
        record.unkept_limit = 0
        return record

    def _merge(self, record: Record, origin: int, now: float) -> Record:
        """Fold this domain's report into a record on its way."""
        recovery = self._recovery
        recovery.note_token(record, now)
        sender = record.sender
        words = recovery.region_words(sender)
        record.stable = max(record.stable, words.stable)
        record.cut = earlier_cut(record.cut, words.cut)
        report = self.lower.report(sender)
        record.high = max(record.high, report.high)
        if report.low < record.low:
            record.low = report.low
            record.slowest = report.slowest
        record.missing, record.missing_limit = _joined(
            record.missing, record.missing_limit, report.missing, report.missing_limit
        )
        record.unkept, record.unkept_limit = _joined(
            record.unkept, record.unkept_limit, report.unkept, report.unkept_limit
        )
        if self.ring.level == 0:
            self._compare(record, origin, report, now)
        return record

    def _compare(self, record: Record, origin: int, report: Report, now: float) -> None:
        """Push to and pull from the node before; leave word for the next one.

        What this node can pull from the node before it does not leave for the
        next one to push: nobody gets a packet twice.
        """
        recovery = self._recovery
        sender = record.sender
        lost = recovery.missing_here(sender)
        before = RangeSet.parse_flat(record.previous, RANGES_MAX) or RangeSet()
        unasked = RangeSet.parse_flat(record.unasked, RANGES_MAX)
        if unasked:
            recovery.push(origin, sender, unasked, now)
        asked = RangeSet()
        if lost:
            asked = lost.clamped(0, record.previous_limit).difference(before)
            asked = recovery.holds(origin, sender, asked)
            if asked:
                recovery.pull(origin, sender, asked, now)
        wanted = RangeSet.parse_flat(record.wanted, RANGES_MAX)
        if wanted:
            record.wanted = self._not_held(sender, wanted)
        record.previous, record.previous_limit = trimmed(report.missing, report.missing_limit)
        record.unasked, _ = trimmed(lost.difference(asked), report.high)

    # Rounds

    def _complete(self, token: Token, seconds: float, now: float) -> None:
        """A token is back: what it gathered is the ring's state."""
        self.token_s = seconds if not self.token_s else 0.8 * self.token_s + 0.2 * seconds
        trouble = False
        for record in token.records:
            sender = record.sender
            if not token.direct and (self.ring.level > 0 or token.origin == self.node):
                # Alone, or above the partitions: nobody else will tell this node.
                self._recovery.note_token(record, now)
            if token.origin != self.node and self.ring.level == 0 and not token.direct:
                self._compare_last(record, token.origin, now)
            missing = RangeSet.parse_flat(record.missing, RANGES_MAX) or RangeSet()
            low = record.low
            limit = record.missing_limit
            before = self.aggregates.get(sender)
            if token.skipped:
                # Those passed over may lack anything past their last word.
                held = before.low if before is not None else 0
                if held < low:
                    low = held
                    record.slowest = token.skipped[0]
                limit = min(limit, held)
            report = Report(
                high=record.high,
                low=low,
                slowest=record.slowest,
                missing=missing,
                missing_limit=max(limit, low),
                unkept=RangeSet.parse_flat(record.unkept, RANGES_MAX) or RangeSet(),
                unkept_limit=record.unkept_limit,
            )
            self.aggregates[sender] = report
            stable = self._recovery.region_words(sender).stable
            settled = low >= record.high and stable >= record.high
            if settled and before is not None and before.high == record.high:
                self.quiet[sender] = self.quiet.get(sender, 0) + 1
            else:
                self.quiet[sender] = 0
            trouble = trouble or bool(missing)
        self._upper.handle_round(self, token, seconds, now)
        for sender in [s for s, rounds in self.quiet.items() if rounds >= QUIET_ROUNDS]:
            if sender not in self.lower.active_senders():
                del self.quiet[sender]
                self.aggregates.pop(sender, None)
                self._unasked.pop(sender, None)
            else:
                self.quiet[sender] = QUIET_ROUNDS - 1
        if self.active_senders() or self.lower.active_senders() or self.suspects:
            config = self._config
            interval = config.token_loss_interval_s if trouble else config.token_interval_s
            due = max(now, self._last_released + interval)
            if self.due_at is None or due < self.due_at:
                self.due_at = due

    def _compare_last(self, record: Record, last: int, now: float) -> None:
        """The leader compares with the last node of the round, its neighbour."""
        recovery = self._recovery
        recovery.note_token(record, now)
        sender = record.sender
        before = RangeSet.parse_flat(record.previous, RANGES_MAX) or RangeSet()
        unasked = RangeSet.parse_flat(record.unasked, RANGES_MAX)
        if unasked:
            recovery.push(last, sender, unasked, now)
        lost = recovery.missing_here(sender)
        if lost:
            asked = lost.clamped(0, record.previous_limit).difference(before)
            asked = recovery.holds(last, sender, asked)
            if asked:
                recovery.pull(last, sender, asked, now)
            self._unasked[sender] = lost.difference(asked)

    # A ring that does not answer

    def _call_roll(self, now: float) -> None:
        """A token is lost: ask every member by itself who is there."""
        self._released_at.clear()
        self._round += 1
        self._counters.roll_calls += 1
        peers = [peer for peer in self.ring.members if peer != self.node]
        self._roll = _RollCall(self._round, peers, now + self._config.token_timeout_s)
        self._register(self)

    def _answer_to_roll(self, token: Token, now: float) -> None:
        roll = self._roll
        if roll is None or token.round != roll.round:
            self.suspects.discard(token.origin)
            return
        roll.answers[token.origin] = token
        if len(roll.answers) == roll.expected:
            self._end_roll(now)

    def _end_roll(self, now: float) -> None:
        """Go around those who did not answer, until they do or the view changes."""
        roll = self._roll
        assert roll is not None
        self._roll = None
        others = {peer for peer in self.ring.members if peer != self.node}
        self.suspects = others - set(roll.answers)
        # The silent ones are asked again now and then; the ring turns meanwhile.
        self._ask_again_at = now + 4 * self._config.token_timeout_s
        self.due_at = max(now, self._last_released + self._config.token_spacing_s)

    def _become_follower(self) -> None:
        """The leader is back: nothing of what this node began goes on."""
        self.acting = False
        self.due_at = None
        self.suspects.clear()
        self._released_at.clear()
        self._roll = None
        self._release_wanted = False

    def become_acting_leader(self, now: float) -> None:
        """The leader is silent: turn the ring without it until the view changes."""
        self.acting = True
        self.suspects.add(self.ring.leader)
        self._ask_again_at = now + 4 * self._config.token_timeout_s
        self.due_at = now


def _joined(
    flat: tuple[int, ...], limit: int, more: RangeSet, more_limit: int
) -> tuple[tuple[int, ...], int]:
    """Return what is in either of two sets, exact as far as both are."""
    known = RangeSet.parse_flat(flat, RANGES_MAX)
    both = more if known is None else more.union(known)
    return trimmed(both, min(limit, more_limit))


def encode_bounded(token: Token, to: int) -> bytes:
    """Return the datagram; where it would be too long, all records are told in less detail.

    Every sender is in it, whatever the others have to say: to leave some out, always the
    same, would keep them from ever completing a round.
    """
    packet = encode_control(token, to)
    most = RANGES_SENT_MAX
    while len(packet) > TOKEN_BYTES_MAX and most > 1:
        most //= 2
        for record in token.records:
            _shorten(record, most)
        packet = encode_control(token, to)
    return packet


def _shorten(record: Record, most: int) -> None:
    """Tell every set of a record in at most so many ranges; the rest is told later."""
    record.missing, record.missing_limit = shorter(record.missing, record.missing_limit, most)
    record.previous, record.previous_limit = shorter(record.previous, record.previous_limit, most)
    record.unkept, record.unkept_limit = shorter(record.unkept, record.unkept_limit, most)
    record.region_unkept, record.region_unkept_limit = shorter(
        record.region_unkept, record.region_unkept_limit, most
    )
    record.wanted = record.wanted[: 2 * most]
    record.unasked = record.unasked[: 2 * most]


class _RollCall:
    """One direct question to every member of a ring."""

    __slots__ = ("answers", "ends_at", "expected", "round", "to_call")

    def __init__(self, round_number: int, peers: list[int], ends_at: float) -> None:
        self.round = round_number
        self.to_call = list(peers)
        self.expected = len(peers)
        self.ends_at = ends_at
        self.answers: dict[int, Token] = {}
