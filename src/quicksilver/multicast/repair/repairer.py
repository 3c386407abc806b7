"""One node's part in the repair of a region view: its reports, and what it does for others.

This is the bottom of the agent stack: the node itself as a recovery domain (dissertation
3.2.12). It says what it has and lacks, asks for the one and sends copies of the other,
and takes what tokens tell about the rest of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quicksilver.multicast.answers import Answers
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.lost import REORDERED_S
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.repair.region_state import RegionState
from quicksilver.multicast.repair.reports import NOT_WAITED_FOR, Kept, Report
from quicksilver.multicast.repair.requests import LOOKED_UP_MAX, RepairRequests
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import RANGES_MAX, Pull, Record
from quicksilver.wire.ids import Address

QUIET_ROUNDS = 3
"""Rounds in which nothing happened, after which a sender leaves the token."""

ORPHANED_S = 2.0
"""What a member lacks of a dead sender, others have delivered, and nobody sends for so long is
gone: copies are kept for the absent only within a budget."""


class Repairer:
    """What one node reports, asks for and sends in one region view."""

    def __init__(
        self,
        environment: Environment,
        region: Region,
        own_stream: Callable[[], SendStream | None],
    ) -> None:
        """``own_stream`` returns this node's stream into the view, if it sends there."""
        self._env = environment
        self.region = region
        self.own_stream = own_stream
        self.state = RegionState()
        self.requests = RepairRequests(environment, region)
        self._answers: dict[int, Answers] = {}
        """What others were sent lately, by sender of the stream."""

    # Reports

    def active_senders(self) -> list[int]:
        """Return the senders whose streams are not yet stable and quiet."""
        senders = list(self.region.active)
        own = self.own_stream()
        if own is not None and own.packets:
            senders.append(self._env.node)
        return senders

    def report(self, sender: int) -> Report:
        """Return what this node has and lacks of a stream."""
        node = self._env.node
        if sender == node:
            own = Report.of_all_below(self._count_sent(), node)
            if not self.region.is_alone:
                # Whether somebody is waited for is a question of the others.
                own.low = NOT_WAITED_FOR
                own.front = 0
            return own
        stream = self.region.streams.get(sender)
        if stream is None:
            return Report.of_all_below(0, node)
        if stream.is_over():
            # Nothing more is wanted here, or held back.
            return Report.of_all_below(max(stream.high, stream.tail_claim), node)
        unkept, unkept_limit = stream.unkept()
        is_behind = self._is_behind(stream)
        return Report(
            high=stream.high,
            low=NOT_WAITED_FOR if is_behind else stream.low,
            slowest=node,
            safe=stream.low,
            laggard=node if is_behind else 0,
            front=stream.low,
            missing=stream.missing,
            missing_limit=stream.high,
            unkept=unkept,
            unkept_limit=unkept_limit,
        )

    def _is_behind(self, stream: ReceiveStream) -> bool:
        """Whether the region, or the sender, goes on without this node."""
        has_agreed = stream.low >= self.state.of(stream.sender).agreed
        if stream.overtaken_at is not None:
            if has_agreed and not stream.missing and self._env.drained_at > stream.overtaken_at:
                stream.overtaken_at = None
            else:
                return True
        return not has_agreed

    def is_behind(self) -> bool:
        """Whether a stream goes on without this node."""
        streams = self.region.streams
        return any(self._is_behind(streams[s]) for s in self.region.active if s in streams)

    def take_drops(self) -> int:
        """Return how many datagrams the kernel has dropped that others should have waited with.

        Nobody waits for a node that is behind, so its buffers overflow and nobody is to blame.
        """
        drops = self._env.take_drops()
        is_behind = self.is_behind()
        return 0 if is_behind else drops

    def report_quiet(self, sender: int) -> Report:
        """Return what a domain says of a stream that is quiet there, or new.

        What the region agreed on before still holds. Of a dead sender's stream that is
        over nothing more is wanted, however much of it others have: a domain that stuck
        to what it once had would keep the region from ever agreeing.
        """
        stream = self.region.streams.get(sender)
        if stream is not None and stream.is_over():
            return self.report(sender)
        return Report.of_all_below(self.state.of(sender).stable, self._env.node)

    def _count_sent(self) -> int:
        own = self.own_stream()
        if own is not None:
            self.region.sent = own.next_sequence
        return self.region.sent

    def accepts(self, sender: int) -> bool:
        """Return whether a record may be about this sender."""
        return sender == self._env.node or self.region.may_learn_of(sender)

    # What is here, and what is not

    def missing_here(self, sender: int) -> RangeSet:
        """Return what this node lacks, believes lost, and has room for."""
        stream = self.region.streams.get(sender)
        return RangeSet() if stream is None else stream.askable()

    def unasked_here(self, sender: int, now: float) -> RangeSet:
        """Return what of that was not asked for just now."""
        stream = self.region.streams.get(sender)
        return RangeSet() if stream is None else stream.lost.unrequested(stream.askable(), now)

    def held_here(self, sender: int, ranges: RangeSet) -> RangeSet:
        """Return the part of ``ranges`` of which this node has copies."""
        copies = self._copies(sender)
        return RangeSet((s, s + 1) for s in ranges.values(LOOKED_UP_MAX) if s in copies)

    def kept_by(self, peer: int, sender: int, ranges: RangeSet) -> RangeSet:
        """Return the part of ``ranges`` that a peer keeps once it has it."""
        if self.region.caches_everything or peer == sender:
            return ranges
        placement = self.region.placement
        return RangeSet(
            (s, s + 1) for s in ranges.values(LOOKED_UP_MAX) if placement.is_keeper(peer, s)
        )

    def _copies(self, sender: int) -> Mapping[int, bytes]:
        if sender == self._env.node:
            own = self.own_stream()
            return {} if own is None else own.packets
        stream = self.region.streams.get(sender)
        return {} if stream is None else stream.copies.packets

    # Repair

    def pull(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None:
        """Ask a peer for packets."""
        stream = self.region.streams.get(sender)
        if stream is not None:
            self.requests.pull(peer, stream, ranges, self.state.of(sender).agreed, now)

    def push(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None:
        """Send a peer what it lacks and this node has."""
        address = self._env.address_of(peer)
        if address is not None and peer != sender:
            self._env.counters.pushes += self._answer(peer, address, sender, ranges, now)

    def handle_pull(self, pull: Pull, to: Address, now: float) -> None:
        """A member asks for packets: send what is held."""
        ranges = RangeSet.parse_flat(pull.ranges, RANGES_MAX)
        if ranges:
            self._answer(pull.origin, to, pull.sender, ranges, now)

    def _answer(self, peer: int, to: Address, sender: int, ranges: RangeSet, now: float) -> int:
        """Send a node what is held of some packets and was not sent to it just now."""
        held = self.held_here(sender, ranges)
        own = self.own_stream() if sender == self._env.node else None
        if own is not None:
            # Whoever is not waited for gets a share of the link: data needs it as well.
            held = own.admit(held, now)
        if not held:
            return 0
        alone, for_all = self._answers_of(sender).choose(peer, held, now)
        if alone:
            self._send_copies(to, sender, alone)
            self._trace_repair(peer, sender, alone, now)
        everybody = self._env.multicast_address(self.region.view)
        if for_all and everybody is not None:
            self._send_copies(everybody, sender, for_all)
            self._trace_repair(peer, sender, for_all, now)
        return 1 if alone or for_all else 0

    def _answers_of(self, sender: int) -> Answers:
        found = self._answers.get(sender)
        if found is None:
            view = self.region.view
            has_multicast = self._env.multicast_address(view) is not None
            found = Answers(len(view.members), has_multicast=has_multicast)
            self._answers[sender] = found
        return found

    def _send_copies(self, to: Address, sender: int, ranges: RangeSet) -> None:
        copies = self._copies(sender)
        if copies:
            key = self._env.stream_key(sender, self.region.id, self.region.number)
            self._env.repairs.add(to, key, copies, ranges)

    def _trace_repair(self, to: int, sender: int, held: RangeSet, now: float) -> None:
        """Note who repairs what for whom, as it is asked for."""
        env, region = self._env, self.region
        if env.tracer is not None and held:
            env.tracer(
                trace.RepairsSent(now, env.node, region.id, region.number, sender, to, held.count())
            )

    def cut(self, sender: int, sequence: int) -> None:
        """A dead sender's packet is gone: its stream ends there."""
        stream = self.region.streams.get(sender)
        if stream is not None:
            stream.sender_failed = True
            stream.cut_at(sequence)

    # What tokens say

    def note_record(self, record: Record, now: float) -> None:
        """Take what a token says: how far a stream goes, and what is stable."""
        sender = record.sender
        region = self.region
        kept = Kept.parse_flat(record.region_unkept, record.region_unkept_limit)
        if sender == self._env.node:
            sent = self._count_sent()
            stable = min(record.stable, sent)
            if stable > self.state.of(sender).stable:
                region.active_at = now
            self.state.conclude(sender, stable, min(record.agreed, sent), kept)
            return
        stream = region.streams.get(sender)
        if stream is None:
            if not region.may_learn_of(sender):
                return
            stream = region.stream_of(sender)
            stream.become_active(now)
        if stream.is_over():
            # Others may have got further: that is no reason to go on asking them.
            stream.tail_claim = max(stream.tail_claim, record.high)
        elif record.high > stream.high:
            self._note_tail(stream, record.high, now)
        if min(record.stable, stream.low) > stream.copies.stable:
            # Less a stream that was cut: what others have of it is no news here.
            region.active_at = now
        self._learn(stream, record, kept)
        self._count_quiet(stream, record, now)
        if stream.missing:
            # A neighbour that is known to have it is asked first, in this round.
            region.look_for_holes(now + REORDERED_S)

    def _note_tail(self, stream: ReceiveStream, high: int, now: float) -> None:
        """Others have newer packets: late until the socket was drained since, then lost."""
        if stream.tail_claim > stream.high:
            if self._env.drained_at > stream.tail_claimed_at:
                stream.note_high(min(stream.tail_claim, high))
                stream.tail_claim = high
                stream.tail_claimed_at = now
        else:
            stream.tail_claim = high
            stream.tail_claimed_at = now

    def _learn(self, stream: ReceiveStream, record: Record, kept: Kept) -> None:
        end = max(stream.low, stream.tail_claim) if stream.is_over() else stream.low
        # Nobody can have agreed on what nobody has heard of.
        agreed = min(record.agreed, record.high)
        state = self.state.learn(stream.sender, record.stable, agreed, kept, record.cut, end=end)
        stream.copies.forget_below(state.stable)
        if state.agreed > state.stable:
            stream.copies.keep_for_absent(state.agreed)
        if state.cut >= 0 and stream.sender_failed:
            stream.cut_at(state.cut)

    def _count_quiet(self, stream: ReceiveStream, record: Record, now: float) -> None:
        if stream.is_settled() and (record.high <= stream.high or stream.is_over()):
            self.count_quiet_round(stream)
        elif stream.sender not in self.region.active:
            stream.become_active(now)

    def count_quiet_round(self, stream: ReceiveStream) -> None:
        """A round brought nothing new of a stream: after some it is left out of them."""
        stream.quiet_rounds += 1
        if stream.quiet_rounds >= QUIET_ROUNDS:
            self.region.active.pop(stream.sender, None)

    # What is missing

    def handle_timeout(self, now: float) -> None:
        """It may be time to ask for what is missing."""
        region = self.region
        if region.ask_at is None or now < region.ask_at:
            return
        region.ask_at = None
        for stream in region.streams.values():
            if stream.missing:
                again_at = self.requests.ask(stream, self.state.of(stream.sender), now)
                if again_at is not None:
                    region.look_for_holes(again_at)
                self._look_at_orphan(stream, now)

    def _look_at_orphan(self, stream: ReceiveStream, now: float) -> None:
        """End the incarnation if others have what is missing, and nobody keeps it any more."""
        if (
            stream.sender_failed
            and stream.low < self.state.of(stream.sender).agreed
            and stream.is_stuck(ORPHANED_S, now)
        ):
            reason = f"nobody has packets of node {stream.sender} any more that it lacks"
            self._env.end_incarnation(reason)
