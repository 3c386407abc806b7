"""The QSM engine of one node, sans IO.

Inputs are datagrams, frames of the GMS, time and application verbs; outputs are
what ``poll_transmit`` and ``poll_control`` return, and upcalls. The pull stack's
tree is built here: one root sink for the socket, tokens first, then control and
repairs (the latter under a rate), then data from the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.membership.client import MembershipClient
from quicksilver.membership.directory import GroupView, RegionView
from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.multicast.agents import RingAgent
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.lanes import GroupSender, Lane, Source
from quicksilver.multicast.receive import Budget, ReceiveStream
from quicksilver.multicast.region import RegionMember
from quicksilver.multicast.repair import ControlFeed, RepairFeed
from quicksilver.multicast.streams import SendStream
from quicksilver.multicast.unknown import UnknownPackets
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.stdx.timers import TimerTable
from quicksilver.trace import records as trace
from quicksilver.trace.records import Tracer
from quicksilver.wire.control import (
    RANGES_MAX,
    Ack,
    Extent,
    Nak,
    Pull,
    Token,
    Wake,
    encode_control,
    parse_control,
)
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address, GroupId, NodeId, RegionId
from quicksilver.wire.packets import (
    HEADER_BYTES,
    KIND_CONTROL,
    KIND_DATA,
    KIND_HYBRID,
    KIND_REPAIR,
    KIND_TOKEN,
    MAGIC,
    PRIORITY_CONTROL,
    PRIORITY_DATA,
    PRIORITY_OF_KIND,
    PRIORITY_TOKEN,
    Messages,
    hybrid_body,
    parse_key,
    split_hybrid,
    stream_key,
)

LANES_MAX = 256
FAILED_REMEMBERED_MAX = 10_000
EXTENT_SPACING_S = 0.1
EXTENTS_REMEMBERED_MAX = 1024


class Upcalls(Protocol):
    """What an engine tells the application; called on the core thread."""

    def on_messages(self, messages: Messages, /) -> None: ...

    def on_event(self, event: ClientEvent) -> None:
        """Membership news, after the engine has acted on it."""
        ...


class Flush:
    """Waits until everything sent so far is on all surviving members."""

    __slots__ = ("lanes", "on_done", "streams")

    def __init__(self, lanes: dict[Lane, int], on_done: Callable[[str | None], None]) -> None:
        self.lanes = lanes
        self.streams: dict[SendStream, int] | None = None
        self.on_done = on_done


class Engine:
    """One node's protocol state; drive it from one thread."""

    def __init__(
        self,
        *,
        name: str,
        address: Address,
        config: EngineConfig,
        upcalls: Upcalls,
        seed: int,
        tracer: Tracer | None = None,
    ) -> None:
        self.config = config
        self.tracer = tracer
        self.settings = ClusterSettings()
        self.counters = Counters()
        self.rng = Rng(seed)
        self.node = 0
        self.cluster = 0
        self.batch = 0
        self.drained_at = 0.0
        self.cache_budget = Budget(config.cache_bytes_max)
        self.ahead_budget = Budget(config.ahead_bytes_max)
        self.kernel_drops = 0
        """Datagrams that the kernel dropped in all, kept current by the host."""
        self.is_paused = False
        """Set by the application's side while its queues are full."""
        self.client = MembershipClient(
            name=name,
            host=address[0],
            port=address[1],
            receive_buffer_bytes=config.receive_buffer_bytes,
        )
        self.client.set_stats(self.stats)
        self.deliver = upcalls.on_messages
        self._upcalls = upcalls
        self._drops_reported = 0
        self._streams: dict[bytes, ReceiveStream] = {}
        self._regions: dict[tuple[int, int], RegionMember] = {}
        self._sending: dict[int, SendStream] = {}
        self._closing: dict[tuple[int, int], SendStream] = {}
        self._groups: dict[str, GroupSender] = {}
        self._groups_by_id: dict[int, GroupSender] = {}
        self._stream_sets: dict[tuple[tuple[int, int], ...], tuple[SendStream, ...]] = {}
        self._lanes: dict[tuple[int, ...], Lane] = {}
        self._ids: dict[str, GroupId] = {}
        self._subscribed: set[str] = set()
        self._failed: dict[int, None] = {}
        self._unknown = UnknownPackets(config.unknown_bytes_max, config.unknown_s)
        self._flushes: list[Flush] = []
        self._addresses: frozenset[str] = frozenset()
        self._timers: TimerTable[tuple[int, int]] = TimerTable()
        self._extent_at: dict[tuple[int, int], float] = {}

        self._root = Sink()
        self._tokens = Sink(parent=self._root, priority=PRIORITY_TOKEN)
        self._control = ControlFeed()
        self._repair_rate = RatePolicy(config.repair_bytes_per_s, config.repair_burst_bytes)
        self._repair_sink = Sink(
            parent=self._root, priority=PRIORITY_CONTROL, policies=(self._repair_rate,)
        )
        self._repairs = RepairFeed(self.counters)

    # Application verbs (core thread)

    def subscribe(
        self,
        *,
        join: tuple[str, ...] = (),
        leave: tuple[str, ...] = (),
        open_: tuple[str, ...] = (),
        close: tuple[str, ...] = (),
    ) -> int:
        """Change memberships; SubscriptionCompleted carries the number returned."""
        return self.client.subscribe(join=join, leave=leave, open=open_, close=close)

    def sender_for(self, name: str) -> GroupSender:
        """Return the group as a sender sees it; its view is known after ``subscribe``."""
        sender = self._groups.get(name)
        if sender is None:
            view = self._view_named(name)
            sender = GroupSender(name, self._lane_for(view))
            sender.lane.outbox.attach(sender)
            self._groups[name] = sender
            self._refresh_sender(name)
        return sender

    def forget_sender(self, name: str) -> None:
        """The application no longer sends to the group."""
        sender = self._groups.pop(name, None)
        self._subscribed.discard(name)
        if sender is not None:
            self._groups_by_id.pop(sender.id, None)

    def wake_lane(self, lane: Lane) -> None:
        """A lane has something to send."""
        self._root.register(lane, PRIORITY_DATA)

    def add_source(self, sender: GroupSender, source: Source) -> None:
        """Ask an application for messages whenever there is room, until it has none."""
        sender.lane.sources.append((sender, source))
        self.wake_lane(sender.lane)

    def flush(self, on_done: Callable[[str | None], None]) -> None:
        """Call back when all that was sent is stable: None, or why it cannot be."""
        lanes = {lane: lane.pulled_messages + lane.outbox.count() for lane in self._lanes.values()}
        self._flushes.append(Flush(lanes, on_done))
        self._check_flushes()

    def goodbye(self) -> None:
        self.client.goodbye()

    # Host inputs

    def classify(self, data: bytes) -> int:
        if len(data) < 4 or data[0] != MAGIC:
            return PRIORITY_DATA
        return PRIORITY_OF_KIND.get(data[1], PRIORITY_DATA)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take any bytes from the network; what makes no sense is counted."""
        stream = self._streams.get(data[4:20])
        if stream is not None and len(data) >= HEADER_BYTES and data[0] == MAGIC:
            kind = data[1]
            # Data comes from its sender; a repair from any member, too.
            if kind == KIND_DATA and source == stream.source:
                stream.handle_packet(data, now)
                return
            if kind == KIND_REPAIR and self._may_repair(stream, source):
                stream.handle_packet(data, now)
                return
            if kind == KIND_DATA or kind == KIND_REPAIR:
                self._reject("rejected", data, now)
                return
        self._handle_other(data, source, now)

    def _may_repair(self, stream: ReceiveStream, source: Address) -> bool:
        return source == stream.source or stream.region.is_member_address(source)

    def handle_segments(self, data: bytes, segment_bytes: int, source: Address, now: float) -> None:
        packets = [
            data[start : start + segment_bytes] for start in range(0, len(data), segment_bytes)
        ]
        prefix = data[:20]
        stream = self._streams.get(prefix[4:])
        if (
            stream is not None
            and source == stream.source
            and prefix[0] == MAGIC
            and prefix[1] == KIND_DATA
            and len(packets[-1]) >= HEADER_BYTES
            and all(packet[:20] == prefix for packet in packets)
            and stream.handle_run(packets, now)
        ):
            return
        for packet in packets:
            self.handle_datagram(packet, source, now)

    def handle_drained(self, now: float) -> None:
        self.drained_at = now

    def _handle_other(self, data: bytes, source: Address, now: float) -> None:
        if len(data) < 4 or data[0] != MAGIC:
            self._reject("malformed", data, now)
            return
        kind = data[1]
        if kind == KIND_TOKEN or kind == KIND_CONTROL:
            self._handle_control(data, source, now)
        elif kind == KIND_DATA or kind == KIND_REPAIR:
            self._handle_strange(data, source, now)
        elif kind == KIND_HYBRID:
            self._handle_hybrid(data, source, now)
        else:
            self._reject("malformed", data, now)

    def _reject(self, reason: str, data: bytes, now: float) -> None:
        """Count a datagram that is not for this node, or not for anyone."""
        setattr(self.counters, reason, getattr(self.counters, reason) + 1)
        if self.tracer is not None:
            self.tracer(trace.DatagramRejected(now, self.node, reason, len(data)))

    def _handle_hybrid(self, data: bytes, source: Address, now: float) -> None:
        """Take the header of the region this node is in; drop the others."""
        heads = split_hybrid(data)
        if heads is None:
            self._reject("malformed", data, now)
            return
        for key, head in heads:
            cluster, sender, region, view = parse_key(key)
            if cluster != self.cluster:
                self.counters.foreign += 1
                return
            if sender == self.node:
                return
            if (region, view) in self._regions or region in self.client.directory.regions:
                self.handle_datagram(head + hybrid_body(data), source, now)

    def _handle_strange(self, data: bytes, source: Address, now: float) -> None:
        """A data packet of a stream not seen before: new, early, old or foreign."""
        if len(data) < HEADER_BYTES:
            self._reject("malformed", data, now)
            return
        cluster, sender, region, view = parse_key(data[4:20])
        if cluster != self.cluster:
            self._reject("foreign", data, now)
            return
        if sender == self.node:
            return
        # Only a member that still has a copy may speak for the dead.
        is_repair = data[1] == KIND_REPAIR and (region, view) in self._regions
        if sender in self._failed and not is_repair:
            self._reject("rejected", data, now)
            return
        member = self._regions.get((region, view))
        if member is not None and (member.may_send(sender) or sender in self._failed):
            member.stream_of(sender)
            self.handle_datagram(data, source, now)
            return
        if member is None and not self._may_become_member(region, view):
            self.counters.unknown_dropped += 1
            return
        if self._unknown.keep((region, view, sender), data, source, now):
            self.counters.unknown_kept += 1
        else:
            self.counters.unknown_dropped += 1

    def _may_become_member(self, region: int, view: int) -> bool:
        """False for views that are over, or that came after this node had left."""
        known = self.client.directory.regions.get(RegionId(region))
        if known is not None:
            return view > known.view
        return not any(name == region for name, _ in self._regions)

    def _replay_unknown(self, now: float) -> None:
        for region, view, sender in self._unknown.names():
            member = self._regions.get((region, view))
            if member is not None and member.may_send(sender):
                for data, source in self._unknown.take((region, view, sender)):
                    self.handle_datagram(data, source, now)

    # Control packets

    def _handle_control(self, data: bytes, source: Address, now: float) -> None:
        packet = parse_control(data)
        if packet is None:
            self._reject("malformed", data, now)
            return
        if packet.cluster != self.cluster:
            self._reject("foreign", data, now)
            return
        if self.address_of(packet.origin) != source:
            # Nobody that the GMS vouches for sends from there.
            self._reject("rejected", data, now)
            return
        if isinstance(packet, Token):
            member = self._regions.get((packet.region, packet.view))
            if member is None or not member.handle_token(packet, now):
                self._reject("rejected", data, now)
            else:
                self.counters.tokens_received += 1
        elif isinstance(packet, Ack):
            self._handle_ack(packet, now)
        elif isinstance(packet, Nak):
            self._handle_nak(packet, now)
        elif isinstance(packet, Extent):
            member = self._regions.get((packet.region, packet.view))
            stream = member.streams.get(packet.origin) if member is not None else None
            if stream is not None:
                stream.note_extent(packet.packets)
        else:
            self._handle_request(packet, source, now)

    def _handle_request(self, packet: Pull | Wake, source: Address, now: float) -> None:
        member = self._regions.get((packet.region, packet.view))
        if member is None or packet.origin not in member.view.members:
            self.counters.rejected += 1
            return
        if isinstance(packet, Pull):
            self.counters.pull_received += 1
            member.handle_pull(packet, source)
        else:
            member.handle_wake(packet, now)

    def _sent_stream(self, region: int, view: int) -> SendStream | None:
        stream = self._sending.get(region)
        if stream is not None and stream.view == view:
            return stream
        return self._closing.get((region, view))

    def handle_own_ack(self, ack: Ack) -> None:
        self._handle_ack(ack, self.drained_at)

    def _handle_ack(self, ack: Ack, now: float) -> None:
        stream = self._sent_stream(ack.region, ack.view)
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
        if self.tracer is not None:
            self.tracer(
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
                self._root.register(lane, PRIORITY_DATA)
            stream.waiting.clear()

    def _handle_nak(self, nak: Nak, now: float) -> None:
        stream = self._sent_stream(nak.region, nak.view)
        ranges = RangeSet.parse_flat(nak.ranges, RANGES_MAX)
        if stream is None:
            # Finished long ago, or never begun: nothing more is coming.
            self.counters.rejected += 1
            self._send_extent(nak.region, nak.view, 0, now)
            return
        if not ranges or nak.origin not in stream.members:
            self.counters.rejected += 1
            return
        self.counters.nak_received += 1
        if ranges.last() >= stream.next_sequence:
            self._send_extent(nak.region, nak.view, stream.next_sequence, now)
        if packets := stream.resend(ranges, now):
            self._repair_sink.register(stream, PRIORITY_DATA)
            if self.tracer is not None:
                self.tracer(
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
        stream = self._sent_stream(region, view)
        known = self.client.directory.regions.get(RegionId(region))
        members: tuple[int, ...] = ()
        if stream is not None:
            members = stream.members
        elif known is not None:
            members = known.members
        packet = encode_control(Extent(self.cluster, self.node, region, view, packets))
        for member in members:
            address = self.address_of(member)
            if address is not None and member != self.node:
                self.send_control(lambda _, to=address: Transmit(to, [packet]))  # type: ignore[misc]

    # GMS

    def handle_control_opened(self, now: float) -> None:
        self.client.handle_opened(now)

    def handle_control_frame(self, frame: bytes, now: float) -> None:
        self._handle_events(self.client.handle_frame(frame, now), now)

    def handle_control_closed(self, reason: str, now: float) -> None:
        self._handle_events(self.client.handle_closed(reason, now), now)

    def has_control(self) -> bool:
        return self.client.has_frame()

    def poll_control(self, now: float) -> bytes | None:
        return self.client.poll_frame(now)

    def _handle_events(self, events: list[ClientEvent], now: float) -> None:
        for event in events:
            if isinstance(event, Welcomed):
                self._handle_welcomed(event)
            elif isinstance(event, ViewsChanged):
                self._handle_views(event, now)
            elif isinstance(event, WasExcluded):
                if self.tracer is not None:
                    self.tracer(trace.WasExcluded(now, self.node, event.reason))
                self._become_nobody(event.reason)
            elif isinstance(event, SubscriptionCompleted):
                for name in event.groups:
                    self._subscribed.add(name)
                    self._refresh_sender(name)
            elif isinstance(event, WasRefused):
                pass
            self._upcalls.on_event(event)
            if isinstance(event, ViewsChanged):
                # Now that the application knows the views, what came early.
                self._replay_unknown(now)

    def _handle_welcomed(self, event: Welcomed) -> None:
        self.node = event.node
        # Packets carry the low half: enough to tell clusters on one network apart.
        self.cluster = event.cluster & 0xFFFFFFFF
        self.settings = event.settings

    def _become_nobody(self, reason: str) -> None:
        """This incarnation is over: nothing of it may be sent or answered."""
        for member in self._regions.values():
            member.close()
        self._regions.clear()
        self._streams.clear()
        for stream in [*self._sending.values(), *self._closing.values()]:
            stream.abandon()
        self._sending.clear()
        self._closing.clear()
        self._stream_sets.clear()
        self._groups_by_id.clear()
        self._ids.clear()
        self._subscribed.clear()
        for sender in self._groups.values():
            sender.streams = None
            sender.next_sequence = 0
        for lane in self._lanes.values():
            lane.forget_streams()
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.on_done(f"this node was excluded: {reason}")
        self.node = 0
        self._addresses = frozenset()

    def _handle_views(self, event: ViewsChanged, now: float) -> None:
        self.batch = self.client.directory.batch
        failed = frozenset(int(node) for node in event.nodes_failed)
        for node in sorted(failed):
            self._failed[node] = None
            if len(self._failed) > FAILED_REMEMBERED_MAX:
                del self._failed[next(iter(self._failed))]
        for region in event.regions_gone:
            self._retire(region, None, now)
        for view in event.regions:
            self._install(view, now)
        if failed:
            if self.tracer is not None:
                self.tracer(trace.NodesFailed(now, self.node, tuple(sorted(failed))))
            for member in list(self._regions.values()):
                member.handle_failed(failed, now)
            self._abandon_unheard()
        for group in event.groups_gone:
            sender = self._groups_by_id.get(group)
            if sender is not None:
                sender.streams = ()
        changed_regions = {view.id for view in event.regions}
        for group_view in event.groups:
            self._ids[group_view.name] = group_view.id
            self._refresh_sender(group_view.name)
        for name, sender in self._groups.items():
            if sender.streams and any(s.region in changed_regions for s in sender.streams):
                self._refresh_sender(name)
        self._update_addresses()
        self.refresh_lanes()
        if self._flushes:
            self._check_flushes()

    def _install(self, view: RegionView, now: float) -> None:
        """A region has a new view, or the same with other senders."""
        current = self._regions.get((view.id, view.view))
        if current is not None:
            current.handle_senders(view)
        else:
            self._retire(view.id, view.view, now)
            if self.node in view.members:
                self._regions[view.id, view.view] = RegionMember(self, view)
                if self.tracer is not None:
                    self.tracer(
                        trace.ViewInstalled(now, self.node, view.id, view.view, len(view.members))
                    )
        stream = self._sending.get(view.id)
        if stream is not None and stream.view != view.view:
            self._close_stream(self._sending.pop(view.id))

    def _retire(self, region: int, newer: int | None, now: float) -> None:
        for (known, number), member in self._regions.items():
            if known == region and number != newer and member.retired_at is None:
                member.retired_at = now
                member.active_at = now
        if newer is None:
            stream = self._sending.pop(region, None)
            if stream is not None:
                self._close_stream(stream)

    def _close_stream(self, stream: SendStream) -> None:
        stream.is_closed = True
        if stream.packets or any(lane.fragments_left(stream) for lane in self._lanes.values()):
            self._closing[stream.region, stream.view] = stream
        self._stream_sets = {
            key: streams for key, streams in self._stream_sets.items() if stream not in streams
        }

    def _abandon_unheard(self) -> None:
        """Streams into views of which no member is left have nobody to wait for."""
        for name, stream in list(self._closing.items()):
            others = [m for m in stream.members if m != self.node and m not in self._failed]
            if not others:
                stream.abandon()
                self._open_lanes(stream)
                del self._closing[name]

    def _view_named(self, name: str) -> GroupView | None:
        group = self._ids.get(name)
        return None if group is None else self.client.directory.groups.get(group)

    def _refresh_sender(self, name: str) -> None:
        sender = self._groups.get(name)
        if sender is None:
            return
        view = self._view_named(name)
        if view is not None:
            self._resolve(sender, view)
        elif sender.streams is None and name in self._subscribed:
            # The group has no members, so it has no view: whom it reaches is nobody.
            sender.streams = ()
            sender.lane.is_blocked = False
            self._root.register(sender.lane, PRIORITY_DATA)

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
        sender.streams = streams
        port = self.settings.multicast_port
        sender.hybrid = (view.hybrid, port) if view.hybrid else None
        sender.lane.is_blocked = False
        self._root.register(sender.lane, PRIORITY_DATA)

    def _stream_to(self, region: int, number: int) -> SendStream | None:
        """Return the current stream into a region; None when nobody else is in it."""
        stream = self._sending.get(region)
        if stream is not None and stream.view == number:
            return stream
        view = self.client.directory.regions.get(RegionId(region))
        if view is None or view.view != number:
            return None
        others = [member for member in view.members if member != self.node]
        if not others:
            return None
        if self.settings.transport == "multicast" and view.address:
            destinations: tuple[Address, ...] = ((view.address, self.settings.multicast_port),)
        else:
            found = [self.address_of(member) for member in others]
            destinations = tuple(address for address in found if address is not None)
        if stream is not None:
            self._close_stream(stream)
        stream = SendStream(
            cluster=self.cluster,
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
        for sender in self._groups.values():
            sets.setdefault(sender.lane, set()).add(id(sender.streams))
            if sender.echo:
                sender.lane.has_echo = True
        for lane, streams in sets.items():
            lane.is_mixed = len(streams) > 1

    def _update_addresses(self) -> None:
        wanted = {member.view.address for member in self._regions.values()}
        for group in self.client.directory.groups.values():
            if group.hybrid and self.node in group.members:
                wanted.add(group.hybrid)
        wanted.discard("")
        if self.settings.transport != "multicast":
            wanted.clear()
        if wanted != self._addresses:
            self._addresses = frozenset(wanted)

    def multicast_addresses(self) -> frozenset[str]:
        return self._addresses

    def is_receiving_paused(self) -> bool:
        return self.is_paused

    # Time

    def next_timeout(self) -> float | None:
        times = []
        for member in self._regions.values():
            when = member.next_timeout()
            if when is not None:
                times.append(when)
            if member.retired_at is not None:
                times.append(member.active_at + self.config.retire_s)
        others = (self._timers.next(), self.client.next_timeout(), self._unknown.next_timeout())
        times.extend(when for when in others if when is not None)
        if len(self._repair_sink):
            times.append(self._repair_rate.next_open(self.drained_at) or 0.0)
        for stream in self._sending.values():
            if stream.waiting and stream.flow.rate is not None:
                opens = stream.flow.next_open(self.drained_at)
                if opens is not None:
                    times.append(opens)
        return min(times, default=None)

    def handle_timeout(self, now: float) -> None:
        self.client.handle_timeout(now)
        for name, member in list(self._regions.items()):
            when = member.next_timeout()
            if when is not None and when <= now:
                member.handle_timeout(now)
            if member.retired_at is not None and now >= member.active_at + self.config.retire_s:
                self._drop_region(name)
                if self.tracer is not None:
                    self.tracer(trace.ViewRetired(now, self.node, *name))
        for region, view in self._timers.pop_due(now):
            self._handle_probe_timer(region, view, now)
        self._unknown.handle_timeout(now)
        if len(self._repair_sink) and self._repair_rate.is_open(now):
            self._repair_sink.resume()
        for stream in self._sending.values():
            if stream.waiting and stream.is_open(now):
                self._open_lanes(stream)

    def _handle_probe_timer(self, region: int, view: int, now: float) -> None:
        stream = self._sent_stream(region, view)
        if stream is None or not stream.packets:
            return
        if stream.is_closed and now >= stream.progress_at + 2 * self.config.retire_s:
            # Every member has forgotten the view by now: nobody will answer.
            self.counters.abandoned += len(stream.packets)
            stream.abandon()
            self._open_lanes(stream)
            self._closing.pop((region, view), None)
            self._fail_flushes(
                stream, f"nobody in view {view} of region {region} acknowledged in time"
            )
            return
        if now >= stream.heard_at + stream.probe_s and stream.probe(now):
            self._repair_sink.register(stream, PRIORITY_DATA)
        self._timers.set((region, view), max(now, stream.heard_at) + stream.probe_s)

    def _drop_region(self, name: tuple[int, int]) -> None:
        member = self._regions.pop(name)
        for stream in member.streams.values():
            self._streams.pop(stream.key, None)
        member.close()
        self._update_addresses()

    # Host outputs

    def handle_turn(self) -> None:
        for lane in self._lanes.values():
            if lane.outbox and not lane.is_blocked:
                self._root.register(lane, PRIORITY_DATA)

    def has_outgoing(self) -> bool:
        return any(lane.outbox and not lane.is_blocked for lane in self._lanes.values())

    def poll_transmit(self, now: float) -> Transmit | None:
        return self._root.poll(now)

    # Ports of regions and lanes

    def address_of(self, node: int) -> Address | None:
        info = self.client.directory.nodes.get(NodeId(node))
        return None if info is None else (info.host, info.port)

    def add_stream(self, stream: ReceiveStream) -> None:
        self._streams[stream.key] = stream

    def own_stream(self, region: int, view: int) -> SendStream | None:
        return self._sent_stream(region, view)

    def find_region(self, region: int, view: int) -> RegionMember | None:
        return self._regions.get((region, view))

    def is_failed(self, node: int) -> bool:
        return node in self._failed

    def send_control(self, intent: Callable[[float], Transmit | None]) -> None:
        if self._control.add(intent):
            self._root.register(self._control, PRIORITY_CONTROL)

    def send_repair(
        self, to: Address, key: bytes, copies: Mapping[int, bytes], ranges: RangeSet
    ) -> None:
        if self._repairs.add(to, key, copies, ranges):
            self._repair_sink.register(self._repairs, PRIORITY_CONTROL)

    def register_agent(self, agent: RingAgent) -> None:
        self._tokens.register(agent)

    def stream_key(self, sender: int, region: int, view: int) -> bytes:
        return stream_key(self.cluster, sender, region, view)

    def receive_share(self) -> int:
        """The part of the receive buffer that one busy region may count on."""
        busy = sum(1 for member in self._regions.values() if not member.is_idle())
        return self.config.receive_buffer_bytes // max(1, busy)

    def take_drops(self) -> int:
        drops = self.kernel_drops - self._drops_reported
        self._drops_reported = self.kernel_drops
        return max(0, drops)

    def echo(self, messages: Messages) -> None:
        self.deliver(messages)

    def predecessors(self, stream: SendStream) -> list[tuple[int, int, int]]:
        lanes = self._lanes.values()
        older = []
        for before in self._closing.values():
            rest = sum(lane.fragments_left(before) for lane in lanes)
            if before is not stream and (before.packets or rest):
                older.append((before.region, before.view, before.next_sequence + rest))
        return older

    def handle_committed(self, stream: SendStream, now: float) -> None:
        name = (stream.region, stream.view)
        stream.progress_at = now
        member = self._regions.get(name)
        if member is not None:
            member.handle_own_packets(self.config.packet_bytes, now)
        if stream.is_closed:
            # The rest of a large message, committed before the view changed.
            self._closing[name] = stream
        if name not in self._timers:
            self._timers.set(name, now + stream.probe_s)
        if self._flushes:
            self._check_flushes()

    # Flushing

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

    # Statistics

    def stats(self) -> dict[str, int | float | str]:
        """Return counts and levels by name; heartbeats carry them to the GMS."""
        stats: dict[str, int | float | str] = dict(self.counters.as_dict())
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
        stats["regions"] = sum(1 for m in self._regions.values() if m.retired_at is None)
        stats["cache_bytes"] = self.cache_budget.used
        stats["ahead_bytes"] = self.ahead_budget.used
        stats["kernel_drops"] = self.kernel_drops
        if slow:
            stats["waits_for"] = max(slow, key=lambda node: slow[node])
        return stats
