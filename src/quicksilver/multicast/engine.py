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
from quicksilver.membership.directory import RegionView
from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.multicast.agents import RingAgent
from quicksilver.multicast.budgets import Budget, Room
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.lanes import Lane
from quicksilver.multicast.outgoing import Outgoing
from quicksilver.multicast.receive import ReceiveStream
from quicksilver.multicast.region import RegionMember
from quicksilver.multicast.repair import ControlFeed, RepairFeed
from quicksilver.multicast.streams import SendStream
from quicksilver.multicast.tally import GroupTally
from quicksilver.multicast.unknown import UnknownPackets
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.trace.records import GroupSampled, Tracer
from quicksilver.wire.control import (
    Ack,
    Extent,
    Nak,
    Pull,
    Token,
    Wake,
    is_for,
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

FAILED_REMEMBERED_MAX = 10_000
VIEWS_REMEMBERED_MAX = 256
REGIONS_TOLD_MAX = 16
"""Of a group's regions so many are in its samples."""


class Upcalls(Protocol):
    """What an engine tells the application; called on the core thread."""

    def on_messages(self, messages: Messages, /) -> None: ...

    def on_event(self, event: ClientEvent) -> None:
        """Membership news, after the engine has acted on it."""
        ...


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
        self.ahead_budget = Room(config.ahead_bytes_max)
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
        self.tally = None if tracer is None else GroupTally()
        """What went to groups and came from them, for samples; only with a tracer."""
        self.deliver = upcalls.on_messages if tracer is None else self._deliver_counted
        self._upcalls = upcalls
        self._drops_reported = 0
        self._streams: dict[bytes, ReceiveStream] = {}
        self._regions: dict[tuple[int, int], RegionMember] = {}
        self._failed: dict[int, None] = {}
        self._heard_at: dict[int, float] = {}
        """When nodes last sent a control packet to this one."""
        self._forgotten: dict[tuple[int, int], dict[int, int]] = {}
        """Views that were over and are forgotten: what of each sender was delivered."""
        self._gap: str | None = None
        """Why this incarnation has to end at the next chance: it lacks what it is owed."""
        self._unknown = UnknownPackets(config.unknown_bytes_max, config.unknown_s)
        self._addresses: frozenset[str] = frozenset()

        self.outgoing = Outgoing(self)
        """Groups as this node sends to them, their lanes and streams."""
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
        if self.address_of(packet.origin) != source or not is_for(data, self.node):
            # Nobody that the GMS vouches for sends from there, or it is for our former life.
            self._reject("rejected", data, now)
            return
        self._heard_at[packet.origin] = now
        if isinstance(packet, Token):
            member = self._regions.get((packet.region, packet.view))
            if member is None or not member.handle_token(packet, now):
                self._reject("rejected", data, now)
            else:
                self.counters.tokens_received += 1
        elif isinstance(packet, Ack):
            self.outgoing.handle_ack(packet, now)
        elif isinstance(packet, Nak):
            self.outgoing.handle_nak(packet, now)
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
            member.handle_pull(packet, source, now)
        else:
            member.handle_wake(packet, now)

    def take_groups(self, now: float) -> list[GroupSampled]:
        """Return what went to groups and came from them since the last time."""
        if self.tally is None:
            return []
        groups = self.client.directory.groups

        def describe(group: int) -> tuple[str, tuple[int, ...]]:
            view = groups.get(GroupId(group))
            if view is None:
                return "", ()
            return view.name, tuple(region for region, _ in view.regions[:REGIONS_TOLD_MAX])

        return self.tally.take(now, self.node, describe)

    def _deliver_counted(self, messages: Messages) -> None:
        if messages.sender != self.node and self.tally is not None:
            self.tally.count_received(messages, self.counters.delivered_bytes)
        self._upcalls.on_messages(messages)

    def handle_own_ack(self, ack: Ack) -> None:
        self.outgoing.handle_ack(ack, self.drained_at)

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
                self.outgoing.handle_subscribed(list(event.groups))
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
        if not event.resumed:
            # What was dropped in an earlier life is no news to the new one's peers.
            self._drops_reported = self.kernel_drops

    def _become_nobody(self, reason: str) -> None:
        """This incarnation is over: nothing of it may be sent or answered."""
        for member in self._regions.values():
            # Nor delivered: what waits for an older stream would come after its gap.
            for stream in member.streams.values():
                stream.waiters.clear()
        for member in self._regions.values():
            member.close()
        self._regions.clear()
        self._streams.clear()
        self.outgoing.become_nobody(reason)
        # The next cluster may be a new one, with the same numbers for other nodes.
        self._failed.clear()
        self._heard_at.clear()
        self._forgotten.clear()
        self._gap = None
        self._unknown.clear()
        self.node = 0
        self._addresses = frozenset()

    def _handle_views(self, event: ViewsChanged, now: float) -> None:
        self.batch = self.client.directory.batch
        failed = frozenset(int(node) for node in event.nodes_failed)
        for node in sorted(failed):
            self._heard_at.pop(node, None)
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
        self.outgoing.handle_views(event)
        self._update_addresses()

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

    def _retire(self, region: int, newer: int | None, now: float) -> None:
        for (known, number), member in self._regions.items():
            if known == region and number != newer and member.retired_at is None:
                member.handle_retired(now)

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
        # Asked twice a turn, which often brings one packet: no lists, no min().
        if self._gap is not None:
            return self.drained_at
        soonest = self.client.next_timeout()
        for member in self._regions.values():
            when = member.next_timeout()
            if when is not None and (soonest is None or when < soonest):
                soonest = when
            is_over = member.retired_at is not None
            if is_over and (soonest is None or member.kept_until < soonest):
                soonest = member.kept_until
        when = self.outgoing.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        when = self._unknown.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        if self._repair_sink.is_waiting:
            when = self._repair_rate.next_open(self.drained_at) or 0.0
            if soonest is None or when < soonest:
                soonest = when
        return soonest

    def handle_timeout(self, now: float) -> None:
        self.client.handle_timeout(now)
        for name, member in list(self._regions.items()):
            when = member.next_timeout()
            if when is not None and when <= now:
                member.handle_timeout(now)
            if member.retired_at is not None and not member.is_kept(now):
                if member.has_gap():
                    self.handle_gap("packets of an old view could not be had in time")
                    continue
                self._drop_region(name)
                if self.tracer is not None:
                    self.tracer(trace.ViewRetired(now, self.node, *name))
        if self._gap is not None:
            self._handle_events(self.client.begin_again(self._gap), now)
        self.outgoing.handle_timeout(now)
        self._unknown.handle_timeout(now)
        if self._repair_sink.is_waiting and self._repair_rate.is_open(now):
            self._repair_sink.resume()

    def _drop_region(self, name: tuple[int, int]) -> None:
        member = self._regions.pop(name)
        for stream in member.streams.values():
            self._streams.pop(stream.key, None)
        self._forgotten[name] = {s: stream.delivered() for s, stream in member.streams.items()}
        if len(self._forgotten) > VIEWS_REMEMBERED_MAX:
            del self._forgotten[next(iter(self._forgotten))]
        member.close()
        self._update_addresses()

    # Host outputs

    def handle_turn(self) -> None:
        self.outgoing.handle_turn()

    def has_outgoing(self) -> bool:
        return self.outgoing.has_outgoing()

    def has_transmits(self) -> bool:
        return bool(self._root)

    def poll_transmit(self, now: float) -> Transmit | None:
        return self._root.poll(now)

    # Ports of regions and lanes

    def address_of(self, node: int) -> Address | None:
        info = self.client.directory.nodes.get(NodeId(node))
        return None if info is None else (info.host, info.port)

    def register_lane(self, lane: Lane) -> None:
        self._root.register(lane, PRIORITY_DATA)

    def register_resend(self, stream: SendStream) -> None:
        self._repair_sink.register(stream, PRIORITY_DATA)

    def add_stream(self, stream: ReceiveStream) -> None:
        self._streams[stream.key] = stream

    def own_stream(self, region: int, view: int) -> SendStream | None:
        return self.outgoing.stream_of(region, view)

    def find_region(self, region: int, view: int) -> RegionMember | None:
        return self._regions.get((region, view))

    def forgotten_at(self, region: int, view: int, sender: int) -> int | None:
        delivered = self._forgotten.get((region, view))
        return None if delivered is None else delivered.get(sender, 0)

    def handle_gap(self, reason: str) -> None:
        """Come back as a new node rather than skip messages: done when time is next told."""
        if self._gap is None:
            self._gap = reason

    def is_failed(self, node: int) -> bool:
        return node in self._failed

    def heard_at(self, node: int) -> float:
        return self._heard_at.get(node, -1.0)

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

    # Statistics

    def stats(self) -> dict[str, int | float | str]:
        """Return counts and levels by name; heartbeats carry them to the GMS."""
        stats: dict[str, int | float | str] = dict(self.counters.as_dict())
        self.outgoing.add_stats(stats)
        stats["regions"] = sum(1 for m in self._regions.values() if m.retired_at is None)
        stats["cache_bytes"] = self.cache_budget.used
        stats["ahead_bytes"] = self.ahead_budget.used
        stats["kernel_drops"] = self.kernel_drops
        return stats
