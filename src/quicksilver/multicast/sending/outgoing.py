"""What this node sends: groups, lanes and streams, and who waits for them.

``group_table`` points groups at streams, ``stream_table`` opens and closes these,
``member_requests`` answers members that lack packets. This module puts them together:
it takes acknowledgements, repeats packets when nobody answers, notes what nobody can
vouch for, and tells those who wait for a flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import Sink
from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.events import EmptinessChanged, MessagesWaiting
from quicksilver.multicast.sending.commitments import Commitments
from quicksilver.multicast.sending.empty import WaitingMessages
from quicksilver.multicast.sending.flush import Flushes, OnDone
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.group_table import GroupTable
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.leaders import Leaders
from quicksilver.multicast.sending.member_requests import MemberRequests
from quicksilver.multicast.sending.precedence import Precedence
from quicksilver.multicast.sending.stream import Closing, SendStream
from quicksilver.multicast.sending.stream_table import StreamTable
from quicksilver.multicast.sending.unconfirmed import (
    Notes,
    Reason,
    Unconfirmed,
    describe,
    numbers_in,
)
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import RANGES_MAX, Ack, Overtaken, encode_control
from quicksilver.wire.ids import plain_group
from quicksilver.wire.packets import PRIORITY_DATA

BEHIND = 0.5
"""A window is full because of one member if it lacks so much of it that another one has."""


class Outgoing:
    """The sending half of an engine."""

    def __init__(
        self,
        environment: Environment,
        data: Sink,
        resends: Sink,
        on_unconfirmed: Callable[[tuple[Unconfirmed, ...]], None] = lambda _: None,
        on_event: Callable[[EmptinessChanged | MessagesWaiting], None] = lambda _: None,
    ) -> None:
        """``data`` and ``resends`` are the sinks that pull from lanes and streams;
        ``on_unconfirmed`` is told of messages that nobody can vouch for, ``on_event`` of groups
        that have no members."""
        self.config = environment.config
        self.counters = environment.counters
        self._env = environment
        self._data = data
        self._resends = resends
        self._lanes: dict[tuple[int, ...], Lane] = {}
        self._precedence = Precedence(self._lanes.values())
        self.streams = StreamTable(environment, self._precedence, self._open_lanes)
        self.waiting = WaitingMessages(environment.config.waiting_bytes_max)
        self._flushes = Flushes(self.streams.live, self.waiting.groups)
        self._commitments = Commitments(
            environment,
            self.streams,
            self._precedence,
            self._flushes,
            self.waiting,
            self.note,
            lambda name: on_event(MessagesWaiting(name)),
        )
        self.groups = GroupTable(
            environment,
            data,
            self._lanes,
            self.streams,
            self._precedence,
            self._commitments,
            self.waiting,
            self._handle_emptiness,
        )
        self._on_event = on_event
        self.requests = MemberRequests(environment, self.streams, resends)
        self._on_unconfirmed = on_unconfirmed
        self._leaders = Leaders(environment)

    # Membership

    def handle_views(self, event: ViewsChanged) -> None:
        """Point senders at the streams of new views; old streams finish."""
        for region in event.regions_gone:
            self.streams.leave(region)
        for view in event.regions:
            self.streams.replace(view.id, view.view)
        if event.nodes_failed:
            self._note_gone(frozenset(event.nodes_failed))
            self._leaders.handle_failed()
            self.streams.abandon_unheard()
        self._leaders.forget(self.streams.live())
        self.groups.handle_views(event)
        if self._flushes.waiting:
            self._flushes.check()

    def become_nobody(self) -> None:
        """This incarnation is over: nothing of it may be sent.

        What was committed and not acknowledged is noted; what is queued waits for the
        next incarnation, in the same groups.
        """
        self._note_excluded()
        self.streams.become_nobody()
        self.requests.clear()
        self.groups.become_nobody()
        self._leaders.handle_failed()
        if self._flushes.waiting:
            self._flushes.check()

    def _handle_emptiness(self, sender: GroupSender) -> None:
        """A group has no members any more, or has some again, or another choice was made."""
        if not sender.is_empty or sender.empty != "wait":
            self._end_waiting(sender)
        self._on_event(EmptinessChanged(sender.name, sender.is_empty and sender.empty != "drop"))

    def _end_waiting(self, sender: GroupSender) -> None:
        """Send what waited for members of a group."""
        waited = self.waiting.take(sender.name)
        if waited:
            sender.lane.send_again(waited)
            self._flushes.handle_waited(sender, len(waited))
            self.groups.unblock_lanes()

    # What nobody can vouch for

    def note(self, found: Iterable[Unconfirmed]) -> None:
        """Messages cannot be vouched for: tell of them, now and at the end of a flush."""
        told = tuple(found)
        for each in told:
            if each.reason.is_failure:
                self.counters.unconfirmed += each.count
            else:
                self.counters.unconfirmed_by_gone += each.count
        if told:
            self._flushes.note(told)
            self._on_unconfirmed(told)

    def _note_excluded(self) -> None:
        streams = self.streams.live()
        unfinished = self._unfinished()
        numbers = numbers_in(streams, unfinished)
        for sender in self.groups.senders():
            if sender.floor < sender.next_sequence and any(
                self._precedence.is_held_back(stream) for stream in sender.streams_before
            ):
                # Members drop what they hold back, acknowledged or not, if they cannot
                # complete what comes before it.
                held = numbers.setdefault(sender.id, RangeSet())
                held.add(sender.floor, sender.next_sequence)
        for group, number in unfinished:
            if group in numbers:
                numbers[group].discard(number, number + 1)
        numbers = {group: ranges for group, ranges in numbers.items() if ranges}
        members = [m for stream in streams if stream.packets for m in self._living(stream)]
        self.note(describe(Reason.EXCLUDED, self._env.node, numbers, self.groups.names(), members))

    def _note_given_up(self, stream: SendStream) -> None:
        numbers = numbers_in([stream])
        for lane in self._lanes.values():
            job = lane.large
            if job is not None and stream in job.streams:
                # The rest of it will not be sent there.
                ranges = numbers.setdefault(plain_group(job.group.id), RangeSet())
                ranges.add(job.sequence, job.sequence + 1)
        node, names = self._env.node, self.groups.names()
        self.note(describe(Reason.GIVEN_UP, node, numbers, names, self._living(stream)))

    def _note_gone(self, gone: frozenset[int]) -> None:
        """Members are gone, and may have lacked what was not acknowledged by then."""
        for stream in self.streams.live():
            missed = gone.intersection(stream.members)
            if missed and stream.packets:
                numbers = numbers_in([stream])
                node, names = self._env.node, self.groups.names()
                self.note(describe(Reason.MEMBERS_GONE, node, numbers, names, missed))

    def take_unfinished(self) -> tuple[Unconfirmed, ...]:
        """Return what this node leaves behind if it ends now.

        That is what was noted and not told, what is not acknowledged, and what is queued.
        """
        streams = self.streams.live()
        members = [m for stream in streams if stream.packets for m in self._living(stream)]
        numbers = numbers_in(streams)
        found = describe(Reason.CLOSED, self._env.node, numbers, self.groups.names(), members)
        for lane in self._lanes.values():
            for name, count in lane.outbox.count_by_group().items():
                found.append(Unconfirmed(Reason.CLOSED, 0, name, count, (), ()))
        for name, count in self.waiting.counts().items():
            found.append(Unconfirmed(Reason.CLOSED, 0, name, count, (), ()))
        notes = Notes()
        notes.add([*self._flushes.take_unconfirmed(), *found])
        return notes.take()

    def put_back_unconfirmed(self, found: Iterable[Unconfirmed]) -> None:
        """Whoever flushed is gone: the next flush tells of what this one would have told."""
        self._flushes.note(found)

    def take_put_back(self) -> tuple[Unconfirmed, ...]:
        """Return what no flush under way will tell."""
        return self._flushes.take_put_back()

    def _unfinished(self) -> set[tuple[int, int]]:
        """Return the large messages of which pieces are still to come, by group and number."""
        jobs = [lane.large for lane in self._lanes.values()]
        return {(plain_group(job.group.id), job.sequence) for job in jobs if job is not None}

    def _living(self, stream: SendStream) -> list[int]:
        env = self._env
        return [m for m in stream.members if m != env.node and not env.is_failed(m)]

    # Time

    def next_timeout(self) -> float | None:
        """When a probe is due or a rate limit opens."""
        soonest = self._commitments.probes.next()
        for stream in self.streams.sending.values():
            if stream.waiting and stream.flow.is_timed and stream.span_left() > 0:
                opens = stream.flow.next_open(self._env.drained_at)
                if opens is not None and (soonest is None or opens < soonest):
                    soonest = opens
        return soonest

    def handle_timeout(self, now: float) -> None:
        """Probe silent regions; open lanes whose rate allows it again."""
        for region, view in self._commitments.probes.pop_due(now):
            self._handle_probe_timer(region, view, now)
        for stream in self.streams.sending.values():
            if stream.waiting and stream.is_open(now):
                self._open_lanes(stream)

    # Statistics

    def pending_bytes(self) -> int:
        """Bytes of packets sent and not acknowledged."""
        return sum(stream.flow.window.pending_bytes for stream in self.streams.live())

    def lanes(self) -> list[Lane]:
        """Return the lanes that messages wait in."""
        return list(self._lanes.values())

    def add_stats(self, stats: dict[str, int | float | str]) -> None:
        """Fill in what is pending, what waits, and for whom."""
        pending = 0
        slow: dict[int, int] = {}
        token_s = 0.0
        for stream in self.streams.live():
            pending += stream.flow.window.pending_bytes
            token_s = max(token_s, stream.token_s)
            if stream.packets and stream.waiting:
                slow[stream.slowest] = slow.get(stream.slowest, 0) + 1
        stats["pending_bytes"] = pending
        stats["queued_bytes"] = sum(lane.queued_bytes() for lane in self._lanes.values())
        stats["waiting_messages"] = self.waiting.count
        stats["token_ms"] = round(token_s * 1e3, 3)
        if slow:
            stats["waits_for"] = max(slow, key=lambda node: slow[node])

    # Groups, lanes, streams

    def idle_lane(self) -> Lane:
        """Return a lane that takes nothing: where groups point that may not send."""
        lane = Lane(self._env, self._commitments)
        lane.room = -1
        return lane

    def flush(self, on_done: OnDone) -> None:
        """Call back when all that was sent is stable, or is known to be unconfirmed."""
        self._flushes.begin(self._lanes.values(), on_done)

    def stream_of(self, region: int, view: int) -> SendStream | None:
        """Return the stream into a region view, current or being finished."""
        return self.streams.find(region, view)

    def handle_ack(self, ack: Ack, now: float) -> None:
        """Take what a node says that a region has; it counts if that node leads the region."""
        stream = self.stream_of(ack.region, ack.view)
        if stream is None or ack.origin not in stream.members:
            self.counters.rejected += 1
        elif not self._leaders.may_acknowledge(stream, ack.origin, now):
            self.counters.ack_refused += 1
        else:
            self._take_ack(stream, ack, now)

    def handle_own_ack(self, ack: Ack, now: float) -> None:
        """Take what a region has that this node itself leads, or thinks it does."""
        stream = self.stream_of(ack.region, ack.view)
        if stream is not None:
            stream.leader_heard_at = now
            self._take_ack(stream, ack, now)

    def _take_ack(self, stream: SendStream, ack: Ack, now: float) -> None:
        missing = RangeSet.parse_flat(ack.missing, RANGES_MAX)
        if missing is None:
            self.counters.rejected += 1
            return
        self.counters.ack_received += 1
        if ack.high > stream.next_sequence:
            self.requests.send_extent(ack.region, ack.view, stream.next_sequence, now)
        stream.flow.handle_report(
            buffer_bytes=ack.buffer_bytes, senders=ack.senders, drops=ack.drops, now=now
        )
        # Where holes were left out for their number, more may have been heard of.
        is_newest = missing.range_count() < self.config.ranges_told_max
        stream.flow.handle_heard(
            heard=min(ack.missing_limit, stream.next_sequence),
            is_newest=is_newest,
            sent=stream.next_sequence,
            senders=ack.senders,
            arrived_bytes=ack.arrived_bytes,
            now=now,
            is_slowed=ack.laggard in stream.hold_up.overtaken,
        )
        safe_before = stream.safe
        freed = stream.handle_ack(
            ack.low, missing, ack.missing_limit, safe=ack.safe, laggard=ack.laggard
        )
        if not stream.patience.waits_for_slow:
            self._overtake_slow(stream, ack, now)
        if ack.laggard in stream.members:
            self._env.on_passed_over(ack.laggard, now)
        stream.slowest = ack.slowest
        stream.token_s = ack.token_s
        if freed or stream.safe > safe_before or not stream.packets:
            stream.heard_at = stream.progress_at = now
            stream.probe_s = self.config.probe_s
        if not stream.packets and stream.before:
            self._precedence.undelivered(stream)
        if self._env.tracer is not None:
            self._env.tracer(
                trace.AckReceived(
                    now,
                    self._env.node,
                    ack.region,
                    ack.view,
                    ack.low,
                    stream.flow.window.pending_bytes,
                    ack.slowest,
                    ack.token_s,
                )
            )
        self._open_lanes(stream)
        self.streams.handle_acknowledged(stream)
        if self._flushes.waiting:
            self._flushes.check()

    def _overtake_slow(self, stream: SendStream, ack: Ack, now: float) -> None:
        """Tell a member that holds the stream up, and it alone, that it is not waited for."""
        unacknowledged = stream.next_sequence - ack.low
        is_held_up = bool(stream.waiting) and ack.front - ack.low > BEHIND * unacknowledged
        slow = stream.hold_up.handle_ack(ack.slowest if is_held_up else 0, now)
        address = self._env.address_of(slow)
        if address is None or slow not in stream.members or len(self._living(stream)) < 2:
            return
        self.counters.overtaken += 1
        word = Overtaken(self._env.cluster, self._env.node, stream.region, stream.view)
        packet = encode_control(word, slow)
        self._env.control.add(lambda _: Transmit(address, [packet]))

    def _open_lanes(self, stream: SendStream) -> None:
        if stream.waiting:
            for lane in stream.waiting:
                lane.is_blocked = False
                self._data.register(lane, PRIORITY_DATA)
            stream.waiting.clear()

    def _handle_probe_timer(self, region: int, view: int, now: float) -> None:
        stream = self.stream_of(region, view)
        if stream is None or not stream.packets:
            return
        patience_s = self.config.patience_s(self._env.settings.failure_timeout_s)
        if isinstance(stream.state, Closing) and now >= stream.progress_at + patience_s:
            self._note_given_up(stream)
            self.streams.give_up(stream)
            self.groups.handle_given_up(stream)
            if self._flushes.waiting:
                self._flushes.check()
            return
        if now >= stream.heard_at + stream.probe_s and stream.probe(now):
            self._resends.register(stream, PRIORITY_DATA)
            if isinstance(stream.state, Closing):
                self._env.on_unacknowledged(stream.closed_at, now)
        self._commitments.probes.set((region, view), max(now, stream.heard_at) + stream.probe_s)

    def handle_turn(self) -> None:
        for lane in self._lanes.values():
            if lane.outbox and not lane.is_blocked:
                self._data.register(lane, PRIORITY_DATA)

    def has_outgoing(self) -> bool:
        for lane in self._lanes.values():  # noqa: SIM110  # asked every turn
            if lane.outbox and not lane.is_blocked:
                return True
        return False
