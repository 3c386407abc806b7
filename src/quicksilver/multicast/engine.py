"""The QSM engine of one node, sans IO.

Inputs are datagrams, time, and what the session on top of it has learnt of the
membership; outputs are what ``poll_transmit`` and ``poll_event`` return, and
messages, by one call a packet (``deliver``). The pull stack's tree is built here:
one root sink for the socket, tokens first, then control and repairs (the latter
under a rate), then data from the lanes.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Mapping

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.membership.directory import Directory, RegionView
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.multicast.agents import RingAgent
from quicksilver.multicast.budgets import Budget, Room
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.events import EngineEvent, FlushEnded, GapFound
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


class Rejection(enum.Enum):
    """Why a datagram was counted and dropped."""

    MALFORMED = "malformed"
    FOREIGN = "foreign"
    """Of another cluster on the same network."""
    REJECTED = "rejected"
    """Of this cluster, but not from where it should come, or not for this node."""


class Engine:
    """One node's protocol state; drive it from one thread."""

    def __init__(
        self,
        *,
        config: EngineConfig,
        directory: Directory,
        deliver: Callable[[Messages], None],
        seed: int,
        tracer: Tracer | None = None,
    ) -> None:
        """``directory``: the membership as far as it is known; its owner calls
        ``handle_views`` after every change. ``deliver`` takes the messages of each
        packet, in order, and must not drive the engine."""
        self.config = config
        self.directory = directory
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
        """Datagrams that the kernel dropped in all."""
        self.tally = None if tracer is None else GroupTally()
        """What went to groups and came from them, for samples; only with a tracer."""
        self.deliver = deliver if tracer is None else self._deliver_counted
        self._deliver_uncounted = deliver
        self.events: deque[EngineEvent] = deque()
        """What happened and was not told yet; ``poll_event`` takes from it."""
        self._flushes = 0
        self._drops_reported = 0
        self._streams: dict[bytes, ReceiveStream] = {}
        self._regions: dict[tuple[int, int], RegionMember] = {}
        self._failed: dict[int, None] = {}
        self._heard_at: dict[int, float] = {}
        """When nodes last sent a control packet to this one."""
        self._forgotten: dict[tuple[int, int], dict[int, int]] = {}
        """Views that were over and are forgotten: what of each sender was delivered."""
        self._has_gap = False
        """True when this incarnation has to end: it lacks what it is owed."""
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

    def flush(self) -> int:
        """Wait for all that was sent so far; ``FlushEnded`` carries the number returned."""
        self._flushes += 1
        number = self._flushes
        self.outgoing.flush(lambda problem: self.events.append(FlushEnded(number, problem)))
        return number

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
                self._reject(Rejection.REJECTED, data, now)
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

    def handle_drops(self, drops: int) -> None:
        """So many datagrams in all did not fit into the kernel's receive buffers."""
        self.kernel_drops = drops

    def _handle_other(self, data: bytes, source: Address, now: float) -> None:
        if len(data) < 4 or data[0] != MAGIC:
            self._reject(Rejection.MALFORMED, data, now)
            return
        kind = data[1]
        if kind == KIND_TOKEN or kind == KIND_CONTROL:
            self._handle_control(data, source, now)
        elif kind == KIND_DATA or kind == KIND_REPAIR:
            self._handle_strange(data, source, now)
        elif kind == KIND_HYBRID:
            self._handle_hybrid(data, source, now)
        else:
            self._reject(Rejection.MALFORMED, data, now)

    def _reject(self, why: Rejection, data: bytes, now: float) -> None:
        """Count a datagram that is not for this node, or not for anyone."""
        if why is Rejection.MALFORMED:
            self.counters.malformed += 1
        elif why is Rejection.FOREIGN:
            self.counters.foreign += 1
        else:
            self.counters.rejected += 1
        if self.tracer is not None:
            self.tracer(trace.DatagramRejected(now, self.node, why.value, len(data)))

    def _handle_hybrid(self, data: bytes, source: Address, now: float) -> None:
        """Take the header of the region this node is in; drop the others."""
        heads = split_hybrid(data)
        if heads is None:
            self._reject(Rejection.MALFORMED, data, now)
            return
        for key, head in heads:
            cluster, sender, region, view = parse_key(key)
            if cluster != self.cluster:
                self.counters.foreign += 1
                return
            if sender == self.node:
                return
            if (region, view) in self._regions or region in self.directory.regions:
                self.handle_datagram(head + hybrid_body(data), source, now)

    def _handle_strange(self, data: bytes, source: Address, now: float) -> None:
        """A data packet of a stream not seen before: new, early, old or foreign."""
        if len(data) < HEADER_BYTES:
            self._reject(Rejection.MALFORMED, data, now)
            return
        cluster, sender, region, view = parse_key(data[4:20])
        if cluster != self.cluster:
            self._reject(Rejection.FOREIGN, data, now)
            return
        if sender == self.node:
            return
        # Only a member that still has a copy may speak for the dead.
        is_repair = data[1] == KIND_REPAIR and (region, view) in self._regions
        if sender in self._failed and not is_repair:
            self._reject(Rejection.REJECTED, data, now)
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
        known = self.directory.regions.get(RegionId(region))
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
            self._reject(Rejection.MALFORMED, data, now)
            return
        if packet.cluster != self.cluster:
            self._reject(Rejection.FOREIGN, data, now)
            return
        if self.address_of(packet.origin) != source or not is_for(data, self.node):
            # Nobody that the GMS vouches for sends from there, or it is for our former life.
            self._reject(Rejection.REJECTED, data, now)
            return
        self._heard_at[packet.origin] = now
        if isinstance(packet, Token):
            member = self._regions.get((packet.region, packet.view))
            if member is None or not member.handle_token(packet, now):
                self._reject(Rejection.REJECTED, data, now)
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
        groups = self.directory.groups

        def describe(group: int) -> tuple[str, tuple[int, ...]]:
            view = groups.get(GroupId(group))
            if view is None:
                return "", ()
            return view.name, tuple(region for region, _ in view.regions[:REGIONS_TOLD_MAX])

        return self.tally.take(now, self.node, describe)

    def _deliver_counted(self, messages: Messages) -> None:
        if messages.sender != self.node and self.tally is not None:
            self.tally.count_received(messages, self.counters.delivered_bytes)
        self._deliver_uncounted(messages)

    def handle_own_ack(self, ack: Ack) -> None:
        self.outgoing.handle_ack(ack, self.drained_at)

    # Membership, from the session

    def handle_welcomed(self, event: Welcomed) -> None:
        """The GMS counts this node in, as a new one or as the one it was."""
        self.node = event.node
        # Packets carry the low half: enough to tell clusters on one network apart.
        self.cluster = event.cluster & 0xFFFFFFFF
        self.settings = event.settings
        if not event.resumed:
            # What was dropped in an earlier life is no news to the new one's peers.
            self._drops_reported = self.kernel_drops

    def handle_subscribed(self, names: list[str]) -> None:
        """Subscriptions took effect: those groups have their views, or no members."""
        self.outgoing.handle_subscribed(names)

    def handle_excluded(self, reason: str, now: float) -> None:
        """This incarnation is over."""
        if self.tracer is not None:
            self.tracer(trace.WasExcluded(now, self.node, reason))
        self._become_nobody(reason)

    def handle_views(self, event: ViewsChanged, now: float) -> None:
        """The directory has changed: install its views, then take what came too early.

        Packets that were kept for these views are handled, and delivered, in this call.
        """
        self._install_views(event, now)
        self._replay_unknown(now)

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
        self._has_gap = False
        self.events = deque(event for event in self.events if not isinstance(event, GapFound))
        self._unknown.clear()
        self.node = 0
        self._addresses = frozenset()

    def _install_views(self, event: ViewsChanged, now: float) -> None:
        self.batch = self.directory.batch
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
        for group in self.directory.groups.values():
            if group.hybrid and self.node in group.members:
                wanted.add(group.hybrid)
        wanted.discard("")
        if self.settings.transport != "multicast":
            wanted.clear()
        if wanted != self._addresses:
            self._addresses = frozenset(wanted)

    def multicast_addresses(self) -> frozenset[str]:
        return self._addresses

    # Time

    def next_timeout(self) -> float | None:
        # Asked twice a turn, which often brings one packet: no lists, no min().
        if self._has_gap:
            return self.drained_at
        soonest: float | None = None
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

    def poll_event(self) -> EngineEvent | None:
        """Return what happened and was not told yet, in order, or None."""
        return self.events.popleft() if self.events else None

    # Ports of regions and lanes

    def address_of(self, node: int) -> Address | None:
        info = self.directory.nodes.get(NodeId(node))
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
        """Rather end this incarnation than skip messages: ``GapFound`` asks for that."""
        if not self._has_gap:
            self._has_gap = True
            self.events.append(GapFound(reason))

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
