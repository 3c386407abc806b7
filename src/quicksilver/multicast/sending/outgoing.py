"""What this node sends: groups, lanes and streams, and who waits for them.

Keeps every group's sender pointed at the streams of the group's current view,
closes streams when views change, takes acknowledgements and NAKs, repeats
packets when nobody answers, and tells those who wait for a flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nlargest

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.environment import STRANGERS_REMEMBERED, Environment
from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.commitments import Commitments
from quicksilver.multicast.sending.flush import Flushes, OnDone
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane, Source
from quicksilver.multicast.sending.leaders import Leaders
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
from quicksilver.wire.control import (
    RANGES_MAX,
    Ack,
    Extent,
    Gone,
    Nak,
    Overtaken,
    Pull,
    encode_control,
)
from quicksilver.wire.ids import Address, GroupId, RegionId
from quicksilver.wire.packets import PRIORITY_DATA

LANES_MAX = 256
BEHIND = 0.5
"""A window is full because of one member if it lacks so much of it that another one has."""

SENDERS_REMEMBERED_MAX = 100_000
EXTENT_SPACING_S = 0.1
EXTENTS_REMEMBERED_MAX = 1024
GONE_SPACING_S = 0.1
"""A member that asks for what is gone is answered no more often."""

GONE_REMEMBERED_MAX = 1024
EXTENTS_PER_S = 100
"""Each goes to all members of a region, and whoever asks may name views that never were."""


class Outgoing:
    """The sending half of an engine."""

    def __init__(
        self,
        environment: Environment,
        data: Sink,
        resends: Sink,
        on_unconfirmed: Callable[[tuple[Unconfirmed, ...]], None] = lambda _: None,
    ) -> None:
        """``data`` and ``resends`` are the sinks that pull from lanes and streams;
        ``on_unconfirmed`` is told of messages that nobody can vouch for."""
        self.config = environment.config
        self.counters = environment.counters
        self._env = environment
        self._data = data
        self._resends = resends
        self._groups: dict[str, GroupSender] = {}
        self._groups_by_id: dict[int, GroupSender] = {}
        self._behind: dict[str, Behind] = {}
        """What was chosen for groups about members that do not keep up."""
        self._lanes: dict[tuple[int, ...], Lane] = {}
        self._precedence = Precedence(self._lanes.values())
        self.streams = StreamTable(environment, self._precedence, self._open_lanes)
        self._flushes = Flushes(self.streams.live)
        self._commitments = Commitments(
            environment, self.streams, self._precedence, self._flushes, self.note
        )
        self._on_unconfirmed = on_unconfirmed
        self._ids: dict[str, GroupId] = {}
        self._subscribed: set[str] = set()
        self._forgotten: dict[str, GroupSender] = {}
        """Groups that the application no longer sends to. Messages may still wait for
        them, and should they be opened again, their numbers go on."""
        self._parting: dict[str, GroupSender] = {}
        """Those of them for which messages may wait: these go to the views that follow
        until the group is left, then to the last one that was known."""
        self._leaders = Leaders(environment)
        self._extents = RatePolicy(EXTENTS_PER_S, EXTENTS_PER_S)
        """What members are told about streams that do not exist: answers, not bytes."""
        self._extent_at: dict[tuple[int, int], float] = {}
        self._gone_at: dict[tuple[int, int, int], float] = {}
        self._batch = 0
        """The newest batch whose views senders point to."""

    # Membership

    def handle_subscribed(self, names: list[str]) -> None:
        """Subscriptions took effect: those groups have their views, or no members."""
        for name in names:
            self._subscribed.add(name)
            self.refresh(name)

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
        for group in event.groups_gone:
            sender = self._groups_by_id.get(group)
            if sender is not None:
                sender.streams = ()
        for sender in self._parting.values():
            if sender.id in event.groups_gone and sender.streams:
                sender.batch = self._batch
                # A tuple of its own, so that no packet has messages of other groups, too.
                sender.streams = (*sender.streams,)
            if event.nodes_failed and sender.batch is not None and sender.streams:
                # Half a large message may be on a stream that nobody is left to hear:
                # whatever came after it would be delivered past a gap.
                sender.streams = tuple(filter(self.streams.has_living_members, sender.streams))
        self._batch = self._env.batch
        groups = self._env.directory.groups
        if len(self._ids) > 2 * len(groups) + STRANGERS_REMEMBERED:
            self._ids = {name: group for name, group in self._ids.items() if group in groups}
        for group_view in event.groups:
            self._ids[group_view.name] = group_view.id
            self.refresh(group_view.name)
        changed = {view.id for view in event.regions}
        self._parting = {n: s for n, s in self._parting.items() if not s.lane.is_empty()}
        for name, sender in [*self._groups.items(), *self._parting.items()]:
            if sender.streams and any(s.region in changed for s in sender.streams):
                self.refresh(name)
        self.refresh_lanes()
        if self._flushes.waiting:
            self._flushes.check()

    def become_nobody(self) -> None:
        """This incarnation is over: nothing of it may be sent.

        What was committed and not acknowledged is noted; what is queued waits for the
        next incarnation, in the same groups.
        """
        self._note_excluded()
        self.streams.become_nobody()
        self._groups_by_id.clear()
        self._ids.clear()
        self._subscribed.clear()
        self._extent_at.clear()
        self._gone_at.clear()
        for sender in self._groups.values():
            sender.streams = None
            sender.streams_before = ()
            sender.next_sequence = sender.floor = 0
        for sender in self._forgotten.values():
            # The group was left: there is no view to which these could go.
            sender.is_stranded = sender.streams != () or sender.is_stranded
            sender.streams = ()
            sender.batch = None
            sender.streams_before = ()
            sender.next_sequence = sender.floor = 0
        for lane in self._lanes.values():
            lane.forget_streams()
            # What waits for groups that were left has no one to wait for any more.
            lane.is_blocked = False
            self._data.register(lane, PRIORITY_DATA)
        self._leaders.handle_failed()
        if self._flushes.waiting:
            self._flushes.check()

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
        for sender in [*self._groups.values(), *self._forgotten.values()]:
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
        self.note(describe(Reason.EXCLUDED, self._env.node, numbers, self._names(), members))

    def _note_given_up(self, stream: SendStream) -> None:
        numbers = numbers_in([stream])
        for lane in self._lanes.values():
            job = lane.large
            if job is not None and stream in job.streams:
                # The rest of it will not be sent there.
                ranges = numbers.setdefault(job.group.id, RangeSet())
                ranges.add(job.sequence, job.sequence + 1)
        node, names = self._env.node, self._names()
        self.note(describe(Reason.GIVEN_UP, node, numbers, names, self._living(stream)))

    def _note_gone(self, gone: frozenset[int]) -> None:
        """Members are gone, and may have lacked what was not acknowledged by then."""
        for stream in self.streams.live():
            missed = gone.intersection(stream.members)
            if missed and stream.packets:
                numbers = numbers_in([stream])
                node, names = self._env.node, self._names()
                self.note(describe(Reason.MEMBERS_GONE, node, numbers, names, missed))

    def take_unfinished(self) -> tuple[Unconfirmed, ...]:
        """Return what this node leaves behind if it ends now.

        That is what was noted and not told, what is not acknowledged, and what is queued.
        """
        streams = self.streams.live()
        members = [m for stream in streams if stream.packets for m in self._living(stream)]
        numbers = numbers_in(streams)
        found = describe(Reason.CLOSED, self._env.node, numbers, self._names(), members)
        for lane in self._lanes.values():
            for name, count in lane.outbox.count_by_group().items():
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
        return {(job.group.id, job.sequence) for job in jobs if job is not None}

    def _living(self, stream: SendStream) -> list[int]:
        env = self._env
        return [m for m in stream.members if m != env.node and not env.is_failed(m)]

    def _names(self) -> dict[int, str]:
        senders = [*self._forgotten.values(), *self._groups.values()]
        return {sender.id: sender.name for sender in senders}

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
        stats["token_ms"] = round(token_s * 1e3, 3)
        if slow:
            stats["waits_for"] = max(slow, key=lambda node: slow[node])

    def take_traffic(self, most: int) -> tuple[tuple[int, int], ...]:
        """Return the groups that got most messages since the last time, and how many."""
        sent = [(sender.take_sent(), group) for group, sender in self._groups_by_id.items()]
        busy = nlargest(most, (pair for pair in sent if pair[0]))
        return tuple((group, count) for count, group in busy)

    # Groups, lanes, streams

    def sender_for(self, name: str) -> GroupSender:
        """Return the group as a sender sees it; its view is known after ``subscribe``."""
        sender = self._groups.get(name)
        if sender is None:
            lane = self._lane_for(self._view_named(name))
            sender = self._forgotten.pop(name, None)
            self._parting.pop(name, None)
            if sender is None:
                sender = GroupSender(name, lane)
                lane.outbox.attach(sender)
            else:
                sender.streams = sender.batch = None
                sender.is_stranded = False
                if sender.lane not in self._lanes.values():
                    sender.lane = lane
                    lane.outbox.attach(sender)
            sender.behind = self._behind.get(name, self.config.behind)
            self._groups[name] = sender
            self.refresh(name)
        return sender

    def set_behind(self, name: str, behind: Behind) -> None:
        """Choose what to do about members of a group that do not keep up.

        Streams under way take only what is stricter than what they do already.
        """
        self._behind[name] = behind
        sender = self._groups.get(name)
        if sender is not None:
            sender.behind = behind
            self.refresh(name)

    def find_sender(self, name: str) -> GroupSender | None:
        """Return a group's sender, even if it was forgotten; None if there never was one."""
        return self._groups.get(name) or self._forgotten.get(name)

    def forget_sender(self, name: str) -> None:
        """The application no longer sends to the group."""
        sender = self._groups.pop(name, None)
        self._behind.pop(name, None)
        self._subscribed.discard(name)
        if sender is not None:
            self._forgotten[name] = sender
            if not sender.lane.is_empty():
                self._parting[name] = sender
            while len(self._forgotten) > SENDERS_REMEMBERED_MAX:
                del self._forgotten[next(iter(self._forgotten))]
            self._groups_by_id.pop(sender.id, None)

    def add_source(self, sender: GroupSender, source: Source) -> None:
        """Ask an application for messages whenever there is room, until it has none."""
        sender.lane.sources.append((sender, source))
        self._data.register(sender.lane, PRIORITY_DATA)

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
            self._send_extent(ack.region, ack.view, stream.next_sequence, now)
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

    def handle_nak(self, nak: Nak, now: float) -> None:
        stream = self.stream_of(nak.region, nak.view)
        ranges = RangeSet.parse_flat(nak.ranges, RANGES_MAX)
        if stream is None or not ranges or nak.origin not in stream.members:
            self._handle_vain(nak, stream, ranges, now)
            return
        self.counters.nak_received += 1
        self._tell_what_is_not_there(nak, stream, ranges, now)
        late = stream.admit(ranges.clamped(stream.safe, stream.low), now)
        address = self._env.address_of(nak.origin)
        if late and address is not None:
            # Only members lack it that nobody waits for: no loss of the region's, and no
            # business of the others.
            self._env.repairs.add(address, stream.key, stream.packets, late)
        ranges = ranges.clamped(stream.low, stream.next_sequence)
        if packets := stream.resend(ranges, now):
            stream.flow.handle_region_loss(now, newest=ranges.last(), sent=stream.next_sequence)
            self._resends.register(stream, PRIORITY_DATA)
            if self._env.tracer is not None:
                self._env.tracer(
                    trace.PacketsResent(now, self._env.node, stream.region, stream.view, packets)
                )

    def handle_pull(self, pull: Pull, to: Address, now: float) -> None:
        """A member asks for packets of this node's that its peers did not give it.

        That is one member's bad luck, and no sign of a network that is too full, unless
        many ask for the same.
        """
        stream = self.stream_of(pull.region, pull.view)
        ranges = RangeSet.parse_flat(pull.ranges, RANGES_MAX)
        if stream is None or not ranges or pull.origin not in stream.members:
            self._handle_vain(pull, stream, ranges, now)
            return
        self.counters.pull_received += 1
        self._tell_what_is_not_there(pull, stream, ranges, now)
        alone, for_all = stream.answer(pull.origin, ranges, now)
        if alone:
            self._env.repairs.add(to, stream.key, stream.packets, alone)
        if for_all:
            stream.flow.handle_region_loss(now, newest=for_all.last(), sent=stream.next_sequence)
            self._resends.register(stream, PRIORITY_DATA)

    def _handle_vain(
        self, request: Nak | Pull, stream: SendStream | None, ranges: RangeSet | None, now: float
    ) -> None:
        """Packets are asked for of a stream that is over or never was, or by a stranger."""
        self.counters.rejected += 1
        if stream is not None or not ranges:
            return
        region, view = request.region, request.view
        known = self._env.directory.regions.get(RegionId(region))
        is_member = known is not None and request.origin in known.members
        length = self.streams.length_of(region, view)
        if gone := self.streams.gone_among(region, view, ranges):
            self._send_gone(request, gone, now)
        elif is_member and ranges.last() >= length:
            # Finished long ago, or never begun: nothing more is coming.
            self._send_extent(region, view, length, now)

    def _tell_what_is_not_there(
        self, request: Nak | Pull, stream: SendStream, ranges: RangeSet, now: float
    ) -> None:
        """Tell a member of packets that it asks for and that are not kept yet, or any more."""
        if ranges.last() >= stream.next_sequence:
            self._send_extent(stream.region, stream.view, stream.next_sequence, now)
        if gone := stream.gone_among(ranges):
            self._send_gone(request, gone, now)

    def _send_extent(self, region: int, view: int, packets: int, now: float) -> None:
        """A member believes in packets that were never sent: tell all how long the stream is."""
        name = (region, view)
        if self._extent_at.get(name, -1.0) + EXTENT_SPACING_S > now:
            return
        if not self._extents.is_open(now):
            return
        self._extents.charge(1, now)
        self._extent_at[name] = now
        while len(self._extent_at) > EXTENTS_REMEMBERED_MAX:
            del self._extent_at[next(iter(self._extent_at))]
        stream = self.stream_of(region, view)
        known = self._env.directory.regions.get(RegionId(region))
        members: tuple[int, ...] = ()
        if stream is not None:
            members = stream.members
        elif known is not None:
            members = known.members
        extent = Extent(self._env.cluster, self._env.node, region, view, packets)
        for member in members:
            address = self._env.address_of(member)
            if address is not None and member != self._env.node:
                transmit = Transmit(address, [encode_control(extent, member)])
                self._env.control.add(lambda _, transmit=transmit: transmit)  # type: ignore[misc]

    def _send_gone(self, nak: Nak | Pull, gone: RangeSet, now: float) -> None:
        """A member asks for packets that all have acknowledged, or that were given up.

        Most often its request is old, and it has them by now. If it does not, it can
        never go on.
        """
        name = (nak.region, nak.view, nak.origin)
        address = self._env.address_of(nak.origin)
        if address is None or self._gone_at.get(name, -1.0) + GONE_SPACING_S > now:
            return
        self._gone_at[name] = now
        while len(self._gone_at) > GONE_REMEMBERED_MAX:
            del self._gone_at[next(iter(self._gone_at))]
        flat = tuple(gone.head(self.config.ranges_told_max).to_flat())
        word = Gone(self._env.cluster, self._env.node, nak.region, nak.view, flat)
        packet = encode_control(word, nak.origin)
        self.counters.gone_sent += 1
        self._env.control.add(lambda _: Transmit(address, [packet]))

    def _view_named(self, name: str) -> GroupView | None:
        group = self._ids.get(name)
        return None if group is None else self._env.directory.groups.get(group)

    def refresh(self, name: str) -> None:
        sender = self._groups.get(name) or self._parting.get(name)
        if sender is None:
            return
        view = self._view_named(name)
        if view is not None:
            self._resolve(sender, view)
        elif sender.streams is None and name in self._subscribed:
            # The group has no members, so it has no view: whom it reaches is nobody.
            sender.streams = ()
            sender.lane.is_blocked = False
            self._data.register(sender.lane, PRIORITY_DATA)

    def _resolve(self, sender: GroupSender, view: GroupView) -> None:
        """Point a sender at the streams of its group's current view."""
        if sender.id != view.id:
            sender.id = view.id
            self._groups_by_id[view.id] = sender
        streams = self.streams.into(view.regions)
        if streams and streams is not sender.streams_before:
            if not self._precedence.put_after(streams, sender.streams_before):
                sender.floor = sender.next_sequence
            sender.streams_before = streams
        sender.streams = streams
        for stream in streams:
            stream.carry(sender.behind)
        port = self._env.settings.multicast_port
        is_hybrid = view.is_hybrid and self._env.has_multicast
        sender.hybrid = (view.hybrid, port) if is_hybrid else None
        sender.lane.is_blocked = False
        self._data.register(sender.lane, PRIORITY_DATA)

    def _lane_for(self, view: GroupView | None) -> Lane:
        """Groups over the same regions share a lane: a slow region holds no other up."""
        key = tuple(int(region) for region, _ in view.regions) if view is not None else ()
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                return next(iter(self._lanes.values()))
            lane = self._lanes[key] = Lane(self._env, self._commitments)
        return lane

    def refresh_lanes(self) -> None:
        """Senders were added or moved: see which lanes still have one set of regions."""
        sets: dict[Lane, set[int]] = {}
        for lane in self._lanes.values():
            lane.has_echo = False
        for sender in [*self._groups.values(), *self._parting.values()]:
            sets.setdefault(sender.lane, set()).add(id(sender.streams))
            if sender.echo:
                sender.lane.has_echo = True
        for lane, streams in sets.items():
            lane.is_mixed = len(streams) > 1
        for key, lane in list(self._lanes.items()):
            if lane not in sets and lane.is_empty():
                del self._lanes[key]

    def _handle_probe_timer(self, region: int, view: int, now: float) -> None:
        stream = self.stream_of(region, view)
        if stream is None or not stream.packets:
            return
        patience_s = self.config.patience_s(self._env.settings.failure_timeout_s)
        if isinstance(stream.state, Closing) and now >= stream.progress_at + patience_s:
            self._note_given_up(stream)
            self.streams.give_up(stream)
            for sender in self._parting.values():
                # What waits for a group that was left cannot come after packets that are lost.
                if sender.streams and stream in sender.streams:
                    sender.streams = ()
                    sender.is_stranded = True
            if self._flushes.waiting:
                self._flushes.check()
            return
        if now >= stream.heard_at + stream.probe_s and stream.probe(now):
            self._resends.register(stream, PRIORITY_DATA)
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
