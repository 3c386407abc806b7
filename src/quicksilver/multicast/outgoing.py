"""What this node sends: groups, lanes and streams, and who waits for them.

Keeps every group's sender pointed at the streams of the group's current view,
closes streams when views change, takes acknowledgements and NAKs, repeats
packets when nobody answers, and tells those who wait for a flush.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quicksilver.core.ports import Transmit
from quicksilver.membership.client import MembershipClient
from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.lanes import GroupSender, Lane, Source
from quicksilver.multicast.region import RegionMember
from quicksilver.multicast.streams import SendStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.stdx.timers import TimerTable
from quicksilver.trace import records as trace
from quicksilver.trace.records import Tracer
from quicksilver.wire.control import RANGES_MAX, Ack, Extent, Nak, encode_control
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address, GroupId, RegionId
from quicksilver.wire.packets import Messages

LANES_MAX = 256
SENDERS_REMEMBERED_MAX = 100_000
EXTENT_SPACING_S = 0.1
EXTENTS_REMEMBERED_MAX = 1024
STREAMS_REMEMBERED_MAX = 10_000

GIVEN_UP_MAX = 64
"""Streams given up that STARTs go on to name."""


class OutgoingHost(Protocol):
    """What sending needs from the engine."""

    node: int
    cluster: int
    batch: int
    config: EngineConfig
    settings: ClusterSettings
    counters: Counters
    client: MembershipClient
    tracer: Tracer | None
    drained_at: float
    deliver: Callable[[Messages], None]

    def address_of(self, node: int) -> Address | None: ...

    def is_failed(self, node: int) -> bool: ...

    def find_region(self, region: int, view: int) -> RegionMember | None: ...

    def send_control(self, intent: Callable[[float], Transmit | None]) -> None: ...

    def handle_gap(self, reason: str) -> None:
        """What is owed can no longer be had: this incarnation has to end."""
        ...

    def register_lane(self, lane: Lane) -> None: ...

    def register_resend(self, stream: SendStream) -> None: ...


class Flush:
    """Waits until everything sent so far is on all surviving members."""

    __slots__ = ("lanes", "on_done", "streams")

    def __init__(self, lanes: dict[Lane, int], on_done: Callable[[str | None], None]) -> None:
        self.lanes = lanes
        self.streams: dict[SendStream, int] | None = None
        self.on_done = on_done


class Outgoing:
    """The sending half of an engine."""

    def __init__(self, host: OutgoingHost) -> None:
        self.config = host.config
        self.counters = host.counters
        self._host = host
        self._sending: dict[int, SendStream] = {}
        self._closing: dict[tuple[int, int], SendStream] = {}
        self._left: dict[int, SendStream] = {}
        """Streams into regions that this node no longer sends to. Should it come back
        while the region has the same view, their numbers go on: to members, packets
        that began from 0 again would be old ones."""
        self._given_up: dict[tuple[int, int], SendStream] = {}
        """Streams that living members did not acknowledge in time. Whoever lacks some of
        them must hear of it: it may not go on as if nothing were missing."""
        self._groups: dict[str, GroupSender] = {}
        self._groups_by_id: dict[int, GroupSender] = {}
        self._stream_sets: dict[tuple[tuple[int, int], ...], tuple[SendStream, ...]] = {}
        self._lanes: dict[tuple[int, ...], Lane] = {}
        self._ids: dict[str, GroupId] = {}
        self._subscribed: set[str] = set()
        self._forgotten: dict[str, GroupSender] = {}
        """Groups that the application no longer sends to. Messages may still wait for
        them, and should they be opened again, their numbers go on."""
        self._parting: dict[str, GroupSender] = {}
        """Those of them for which messages may wait: these go to the views that follow
        until the group is left, then to the last one that was known."""
        self._flushes: list[Flush] = []
        self._timers: TimerTable[tuple[int, int]] = TimerTable()
        self._extent_at: dict[tuple[int, int], float] = {}

    @property
    def node(self) -> int:
        """This incarnation, for lanes."""
        return self._host.node

    @property
    def batch(self) -> int:
        """The newest batch applied, for lanes."""
        return self._host.batch

    # Membership

    def handle_subscribed(self, names: list[str]) -> None:
        """Subscriptions took effect: those groups have their views, or no members."""
        for name in names:
            self._subscribed.add(name)
            self.refresh(name)

    def handle_views(self, event: ViewsChanged) -> None:
        """Point senders at the streams of new views; old streams finish."""
        for region in event.regions_gone:
            stream = self._sending.pop(region, None)
            if stream is not None:
                self._close_stream(stream)
                self._left[region] = stream
                while len(self._left) > STREAMS_REMEMBERED_MAX:
                    del self._left[next(iter(self._left))]
        for view in event.regions:
            stream = self._sending.get(view.id)
            if stream is not None and stream.view != view.view:
                self._close_stream(self._sending.pop(view.id))
        if event.nodes_failed:
            self.abandon_unheard()
        for group in event.groups_gone:
            sender = self._groups_by_id.get(group)
            if sender is not None:
                sender.streams = ()
        for group_view in event.groups:
            self._ids[group_view.name] = group_view.id
            self.refresh(group_view.name)
        changed = {view.id for view in event.regions}
        self._parting = {n: s for n, s in self._parting.items() if not s.lane.is_empty()}
        for name, sender in [*self._groups.items(), *self._parting.items()]:
            if sender.streams and any(s.region in changed for s in sender.streams):
                self.refresh(name)
        self.refresh_lanes()
        if self._flushes:
            self._check_flushes()

    def become_nobody(self, reason: str) -> None:
        """This incarnation is over: nothing of it may be sent."""
        for stream in [*self._sending.values(), *self._closing.values()]:
            stream.abandon()
        self._sending.clear()
        self._closing.clear()
        self._left.clear()
        self._given_up.clear()
        self._stream_sets.clear()
        self._groups_by_id.clear()
        self._ids.clear()
        self._subscribed.clear()
        self._extent_at.clear()
        for sender in self._groups.values():
            sender.streams = None
            sender.streams_before = ()
            sender.next_sequence = 0
        for sender in self._forgotten.values():
            # The group was left: there is no view to which these could go.
            sender.streams = ()
            sender.streams_before = ()
            sender.next_sequence = 0
        for lane in self._lanes.values():
            lane.forget_streams()
            # What waits for groups that were left has no one to wait for any more.
            lane.is_blocked = False
            self._host.register_lane(lane)
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.on_done(f"this node was excluded: {reason}")

    # Time

    def next_timeout(self) -> float | None:
        """When a probe is due or a rate limit opens."""
        soonest = self._timers.next()
        for stream in self._sending.values():
            if stream.waiting and stream.flow.rate is not None and stream.span_left() > 0:
                opens = stream.flow.next_open(self._host.drained_at)
                if opens is not None and (soonest is None or opens < soonest):
                    soonest = opens
        return soonest

    def handle_timeout(self, now: float) -> None:
        """Probe silent regions; open lanes whose rate allows it again."""
        for region, view in self._timers.pop_due(now):
            self._handle_probe_timer(region, view, now)
        for stream in self._sending.values():
            if stream.waiting and stream.is_open(now):
                self._open_lanes(stream)

    # Statistics

    def pending_bytes(self) -> int:
        """Bytes of packets sent and not acknowledged."""
        streams = [*self._sending.values(), *self._closing.values()]
        return sum(stream.flow.window.pending_bytes for stream in streams)

    def add_stats(self, stats: dict[str, int | float | str]) -> None:
        """Fill in what is pending, what waits, and for whom."""
        pending = 0
        slow: dict[int, int] = {}
        token_s = 0.0
        for stream in [*self._sending.values(), *self._closing.values()]:
            pending += stream.flow.window.pending_bytes
            token_s = max(token_s, stream.token_s)
            if stream.packets and stream.waiting:
                slow[stream.slowest] = slow.get(stream.slowest, 0) + 1
        stats["pending_bytes"] = pending
        stats["queued_bytes"] = sum(lane.queued_bytes() for lane in self._lanes.values())
        stats["token_ms"] = round(token_s * 1e3, 3)
        if slow:
            stats["waits_for"] = max(slow, key=lambda node: slow[node])

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
                sender.streams = None
                if sender.lane not in self._lanes.values():
                    sender.lane = lane
                    lane.outbox.attach(sender)
            self._groups[name] = sender
            self.refresh(name)
        return sender

    def forget_sender(self, name: str) -> None:
        """The application no longer sends to the group."""
        sender = self._groups.pop(name, None)
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
        self._host.register_lane(sender.lane)

    def flush(self, on_done: Callable[[str | None], None]) -> None:
        """Call back when all that was sent is stable: None, or why it cannot be."""
        lanes = {lane: lane.pulled_messages + lane.outbox.count() for lane in self._lanes.values()}
        self._flushes.append(Flush(lanes, on_done))
        self._check_flushes()

    def stream_of(self, region: int, view: int) -> SendStream | None:
        stream = self._sending.get(region)
        if stream is not None and stream.view == view:
            return stream
        return self._closing.get((region, view))

    def handle_ack(self, ack: Ack, now: float) -> None:
        stream = self.stream_of(ack.region, ack.view)
        missing = RangeSet.parse_flat(ack.missing, RANGES_MAX)
        if stream is None or missing is None or ack.origin not in stream.members:
            self.counters.rejected += 1
            return
        self.counters.ack_received += 1
        if ack.high > stream.next_sequence:
            self._send_extent(ack.region, ack.view, stream.next_sequence, now)
        stream.flow.handle_report(
            buffer_bytes=ack.buffer_bytes, senders=ack.senders, drops=ack.drops, now=now
        )
        freed = stream.handle_ack(ack.low, missing, ack.missing_limit)
        stream.slowest = ack.slowest
        stream.token_s = ack.token_s
        if freed or not stream.packets:
            stream.heard_at = stream.progress_at = now
            stream.probe_s = self.config.probe_s
        if not stream.packets and stream.before:
            self._undelivered(stream)
        if self._host.tracer is not None:
            self._host.tracer(
                trace.AckReceived(
                    now,
                    self.node,
                    ack.region,
                    ack.view,
                    ack.low,
                    stream.flow.window.pending_bytes,
                    ack.slowest,
                    ack.token_s,
                )
            )
        self._open_lanes(stream)
        lanes = self._lanes.values()
        if stream.is_done() and not any(lane.fragments_left(stream) for lane in lanes):
            self._closing.pop((stream.region, stream.view), None)
        if self._flushes:
            self._check_flushes()

    def _open_lanes(self, stream: SendStream) -> None:
        if stream.waiting:
            for lane in stream.waiting:
                lane.is_blocked = False
                self._host.register_lane(lane)
            stream.waiting.clear()

    def handle_nak(self, nak: Nak, now: float) -> None:
        stream = self.stream_of(nak.region, nak.view)
        ranges = RangeSet.parse_flat(nak.ranges, RANGES_MAX)
        if stream is None:
            self.counters.rejected += 1
            if (nak.region, nak.view) not in self._given_up:
                # Finished long ago, or never begun: nothing more is coming.
                self._send_extent(nak.region, nak.view, 0, now)
            return
        if not ranges or nak.origin not in stream.members:
            self.counters.rejected += 1
            return
        self.counters.nak_received += 1
        if ranges.last() >= stream.next_sequence:
            self._send_extent(nak.region, nak.view, stream.next_sequence, now)
        if packets := stream.resend(ranges, now):
            stream.flow.handle_region_loss(now)
            self._host.register_resend(stream)
            if self._host.tracer is not None:
                self._host.tracer(
                    trace.PacketsResent(now, self.node, stream.region, stream.view, packets)
                )

    def _send_extent(self, region: int, view: int, packets: int, now: float) -> None:
        """Somebody believes in packets that were never sent: put it right for all."""
        name = (region, view)
        if self._extent_at.get(name, -1.0) + EXTENT_SPACING_S > now:
            return
        self._extent_at[name] = now
        while len(self._extent_at) > EXTENTS_REMEMBERED_MAX:
            del self._extent_at[next(iter(self._extent_at))]
        stream = self.stream_of(region, view)
        known = self._host.client.directory.regions.get(RegionId(region))
        members: tuple[int, ...] = ()
        if stream is not None:
            members = stream.members
        elif known is not None:
            members = known.members
        packet = encode_control(Extent(self._host.cluster, self.node, region, view, packets))
        for member in members:
            address = self._host.address_of(member)
            if address is not None and member != self.node:
                self._host.send_control(lambda _, to=address: Transmit(to, [packet]))  # type: ignore[misc]

    def _close_stream(self, stream: SendStream) -> None:
        stream.is_closed = True
        if self._is_unfinished(stream):
            self._closing[stream.region, stream.view] = stream
        self._stream_sets = {
            key: streams for key, streams in self._stream_sets.items() if stream not in streams
        }

    def abandon_unheard(self) -> None:
        """Streams into views of which no member is left have nobody to wait for."""
        for name, stream in list(self._closing.items()):
            if not self._has_living_members(stream):
                stream.abandon()
                self._open_lanes(stream)
                del self._closing[name]
        for name, stream in list(self._given_up.items()):
            if not self._has_living_members(stream):
                stream.is_given_up = False
                del self._given_up[name]

    def _has_living_members(self, stream: SendStream) -> bool:
        return any(m != self.node and not self._host.is_failed(m) for m in stream.members)

    def _give_up(self, stream: SendStream) -> None:
        """Stop trying: whoever has not failed had its time."""
        self.counters.abandoned += len(stream.packets)
        stream.abandon()
        self._open_lanes(stream)
        self._closing.pop((stream.region, stream.view), None)
        stream.is_given_up = True
        self._given_up[stream.region, stream.view] = stream
        while len(self._given_up) > GIVEN_UP_MAX:
            self._given_up.pop(next(iter(self._given_up))).is_given_up = False
        self._fail_flushes(
            stream, f"nobody in view {stream.view} of region {stream.region} acknowledged in time"
        )

    def _view_named(self, name: str) -> GroupView | None:
        group = self._ids.get(name)
        return None if group is None else self._host.client.directory.groups.get(group)

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
            self._host.register_lane(sender.lane)

    def _resolve(self, sender: GroupSender, view: GroupView) -> None:
        """Point a sender at the streams of its group's current view."""
        if sender.id != view.id:
            sender.id = view.id
            self._groups_by_id[view.id] = sender
        streams = self._stream_sets.get(view.regions)
        if streams is None:
            streams = tuple(
                stream
                for region, number in view.regions
                if (stream := self._stream_to(region, number)) is not None
            )
            self._stream_sets[view.regions] = streams
        if streams and streams is not sender.streams_before:
            self._put_after(streams, sender.streams_before)
            sender.streams_before = streams
        sender.streams = streams
        port = self._host.settings.multicast_port
        is_multicast = self._host.settings.transport == "multicast"
        sender.hybrid = (view.hybrid, port) if view.hybrid and is_multicast else None
        sender.lane.is_blocked = False
        self._host.register_lane(sender.lane)

    def _put_after(self, streams: tuple[SendStream, ...], older: tuple[SendStream, ...]) -> None:
        """A group moves to other streams, which may have begun long ago.

        Its messages there must not overtake those still under way in the old
        ones, which may go on for the sake of other groups.
        """
        before: dict[SendStream, None] = {}
        for stream in older:
            # Two changes in a row: what an old one has not said yet, the new one says.
            before.update(stream.after)
            before.update(self._undelivered(stream))
        for stream in streams:
            stream.after.update((s, None) for s in before if s is not stream)

    def _undelivered(self, stream: SendStream) -> dict[SendStream, None]:
        """Return a stream that is unfinished, or else the ones that it waits for.

        Members that have acknowledged all of a stream may still hold it back, for
        the sake of others that its STARTs named.
        """
        found: dict[SendStream, None] = {}
        looked_at = {stream}
        to_look_at = [stream]
        while to_look_at:
            each = to_look_at.pop()
            if each.is_given_up or self._is_unfinished(each):
                found[each] = None
                continue
            for older in each.before:
                if older not in looked_at:
                    looked_at.add(older)
                    to_look_at.append(older)
        if stream not in found:
            # Finished ones on the way need not be remembered.
            stream.before = dict(found)
        return found

    def _is_unfinished(self, stream: SendStream) -> bool:
        return bool(stream.packets) or any(
            lane.fragments_left(stream) for lane in self._lanes.values()
        )

    def _stream_to(self, region: int, number: int) -> SendStream | None:
        """Return the current stream into a region; None when nobody else is in it."""
        stream = self._sending.get(region)
        if stream is not None and stream.view == number:
            return stream
        view = self._host.client.directory.regions.get(RegionId(region))
        if view is None or view.view != number:
            return None
        others = [member for member in view.members if member != self.node]
        if not others:
            return None
        if self._host.settings.transport == "multicast" and view.address:
            destinations: tuple[Address, ...] = (
                (view.address, self._host.settings.multicast_port),
            )
        else:
            found = [self._host.address_of(member) for member in others]
            destinations = tuple(address for address in found if address is not None)
        if stream is not None:
            self._close_stream(stream)
        stream = self._left.pop(region, None)
        if stream is not None and stream.view == number:
            if stream.is_given_up:
                # Its numbers cannot go on after packets that nobody will ever have.
                self._host.handle_gap("members of a view that it came back to lack its packets")
            stream.is_closed = stream.is_abandoned = False
            self._closing.pop((region, number), None)
            self._sending[region] = stream
            return stream
        stream = SendStream(
            cluster=self._host.cluster,
            node=self.node,
            region=region,
            view=number,
            members=view.members,
            destinations=destinations,
            config=self.config,
            counters=self.counters,
        )
        self._sending[region] = stream
        return stream

    def _lane_for(self, view: GroupView | None) -> Lane:
        """Groups over the same regions share a lane: a slow region holds no other up."""
        key = tuple(int(region) for region, _ in view.regions) if view is not None else ()
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= LANES_MAX:
                return next(iter(self._lanes.values()))
            lane = self._lanes[key] = Lane(self)
        return lane

    def refresh_lanes(self) -> None:
        """Senders were added or moved: see which lanes still go one way."""
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
        patience_s = self.config.patience_s(self._host.settings.failure_timeout_s)
        if stream.is_closed and now >= stream.progress_at + patience_s:
            self._give_up(stream)
            return
        if now >= stream.heard_at + stream.probe_s and stream.probe(now):
            self._host.register_resend(stream)
        self._timers.set((region, view), max(now, stream.heard_at) + stream.probe_s)

    def handle_turn(self) -> None:
        for lane in self._lanes.values():
            if lane.outbox and not lane.is_blocked:
                self._host.register_lane(lane)

    def has_outgoing(self) -> bool:
        for lane in self._lanes.values():  # noqa: SIM110  # asked every turn
            if lane.outbox and not lane.is_blocked:
                return True
        return False

    def echo(self, messages: Messages) -> None:
        self._host.deliver(messages)

    def predecessors(self, stream: SendStream) -> list[tuple[int, int, int]]:
        before: dict[SendStream, None] = {}
        for each in stream.after:
            before.update(self._undelivered(each))
        if not stream.is_opened:
            before.update((s, None) for s in self._closing.values())
        before.pop(stream, None)
        named = dict(before)
        for each in stream.before:
            named.update(self._undelivered(each))
        named.pop(stream, None)
        stream.before = named
        return [(each.region, each.view, each.next_sequence) for each in before]

    def handle_fragmented(self, group: GroupSender, streams: tuple[SendStream, ...]) -> None:
        """The last piece of a large message was committed.

        Should the group have moved meanwhile, STARTs on its new streams have named
        the pieces sent by then; what follows waits for the rest as well.
        """
        older = tuple(stream for stream in streams if stream not in group.streams_before)
        self._put_after(group.streams_before, older)

    def handle_unheard(self) -> None:
        """Messages to nobody count as delivered: whoever flushes may go on."""
        if self._flushes:
            self._check_flushes()

    def handle_committed(self, stream: SendStream, now: float) -> None:
        name = (stream.region, stream.view)
        stream.progress_at = now
        if self._host.tracer is not None:
            self._trace_sample(stream, now)
        member = self._host.find_region(*name)
        if member is not None:
            member.handle_own_packets(self.config.packet_bytes, now)
        if stream.is_closed:
            # The rest of a large message, committed before the view changed.
            self._closing[name] = stream
        if name not in self._timers:
            self._timers.set(name, now + stream.probe_s)
        if self._flushes:
            self._check_flushes()

    def _trace_sample(self, stream: SendStream, now: float) -> None:
        """Note the newest packet of those that are sampled, once."""
        newest = stream.next_sequence - 1
        sequence = newest - newest % trace.SAMPLE_EVERY
        if newest >= 0 and sequence > stream.sampled:
            stream.sampled = sequence
            assert self._host.tracer is not None
            self._host.tracer(
                trace.PacketSent(now, self.node, stream.region, stream.view, sequence)
            )

    def _fail_flushes(self, stream: SendStream, problem: str) -> None:
        """What was sent on a stream can no longer be confirmed."""
        failed = [flush for flush in self._flushes if flush.streams and stream in flush.streams]
        for flush in failed:
            self._flushes.remove(flush)
            flush.on_done(problem)
        self._check_flushes()

    def _check_flushes(self) -> None:
        done = []
        for flush in self._flushes:
            flush.lanes = {
                lane: mark for lane, mark in flush.lanes.items() if lane.pulled_messages < mark
            }
            if flush.lanes:
                continue
            if flush.streams is None:
                live = [*self._sending.values(), *self._closing.values()]
                flush.streams = {s: s.next_sequence for s in live if s.packets}
            flush.streams = {s: n for s, n in flush.streams.items() if s.low < n and s.packets}
            if not flush.streams:
                done.append(flush)
        for flush in done:
            self._flushes.remove(flush)
            flush.on_done(None)
