"""The QSM engine of one node, sans IO.

Inputs are datagrams, time, and what the session on top of it has learnt of the
membership; outputs are what ``poll_transmit`` and ``poll_event`` return, and
messages, by one call a packet (``deliver``). The pull stack's tree is built here:
one root sink for the socket, tokens first, then control and repairs (the latter
under a rate), then data from the lanes. Sending, receiving and repair are parts that
share an ``Environment``; the engine brings each input to the part that it is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.membership.directory import Directory, RegionView
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.environment import Environment, Rejection
from quicksilver.multicast.events import EngineEvent, FlushEnded, GapFound, MessagesUnconfirmed
from quicksilver.multicast.feeds import ControlFeed, RepairFeed
from quicksilver.multicast.levels import Level, levels_of
from quicksilver.multicast.receiving.intake import Intake
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.relaying import RelayFeed
from quicksilver.multicast.repair.alarms import RegionAlarms
from quicksilver.multicast.repair.recovery import RegionRecovery
from quicksilver.multicast.repair.silence import Silence
from quicksilver.multicast.sending.outgoing import Outgoing
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.multicast.tally import GroupTally
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.trace.records import GroupSampled, Tracer
from quicksilver.wire.control import (
    RANGES_MAX,
    Ack,
    Challenge,
    Control,
    Extent,
    Gone,
    Hail,
    Nak,
    Overtaken,
    Pull,
    Receipt,
    Token,
    Wake,
    encode_control,
    is_for,
    parse_control,
    parse_stamp,
)
from quicksilver.wire.ids import Address, GroupId
from quicksilver.wire.packets import (
    PRIORITY_CONTROL,
    PRIORITY_TOKEN,
    Messages,
)

COUNTED_ELSEWHERE = frozenset({"queued", "sent", "cache", "ahead"})
"""Budgets that statistics have under other names."""

REGIONS_TOLD_MAX = 16
"""Of a group's regions so many are in its samples."""


class _TokenFeed:
    """One region view's tokens in the pull stack."""

    __slots__ = ("_engine", "recovery")

    def __init__(self, engine: Engine, recovery: RegionRecovery) -> None:
        self._engine = engine
        self.recovery = recovery

    def poll(self, now: float) -> Transmit | None:
        region = self.recovery.region
        if self._engine._feeds.get((region.id, region.number)) is not self:
            return None  # the view or the incarnation is over
        transmit = self.recovery.poll(now)
        self._engine.take_own_acks(self.recovery, now)
        return transmit


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
        has_multicast: bool = True,
    ) -> None:
        """``directory``: the membership as far as it is known; its owner calls
        ``handle_views`` after every change. ``deliver`` takes the messages of each
        packet, in order, and must not drive the engine."""
        self.config = config
        self.tracer = tracer
        self.counters = Counters()
        self.events: deque[EngineEvent] = deque()
        """What happened and was not told yet; ``poll_event`` takes from it."""
        self._root = Sink()
        self._tokens = Sink(parent=self._root, priority=PRIORITY_TOKEN)
        self._repair_rate = RatePolicy(config.repair_bytes_per_s, config.repair_burst_bytes)
        self._repair_sink = Sink(
            parent=self._root, priority=PRIORITY_CONTROL, policies=(self._repair_rate,)
        )
        tally = None if tracer is None else GroupTally()
        self.environment = Environment(
            config=config,
            directory=directory,
            deliver=deliver if tally is None else self._deliver_counted,
            control=ControlFeed(self._root),
            repairs=RepairFeed(self._repair_sink, self.counters, config),
            counters=self.counters,
            relays=RelayFeed(self._root, self.counters),
            seed=seed,
            tracer=tracer,
            tally=tally,
            has_multicast=has_multicast,
        )
        self.outgoing = Outgoing(
            self.environment,
            self._root,
            self._repair_sink,
            self._tell_unconfirmed,
            self.events.append,
        )
        """Groups as this node sends to them, their lanes and streams."""
        self._deliver_uncounted = deliver
        self._flushes = 0
        self._regions = self.environment.regions.by_name
        self._feeds: dict[tuple[int, int], _TokenFeed] = {}
        """Recovery in each region view of this node."""
        self._alarms = RegionAlarms(self.environment.regions)
        self.intake = Intake(self.environment, self._handle_control)
        # Called for every packet: no call is added.
        self.classify = self.intake.classify
        self.handle_datagram = self.intake.handle_datagram
        self.handle_segments = self.intake.handle_segments
        self.silence = Silence(self.environment)
        """Members that do not answer; heartbeats tell of them."""
        self.environment.on_passed_over = self.silence.handle_passed_over
        self.environment.on_unacknowledged = self.silence.handle_unacknowledged
        self._addresses: frozenset[str] = frozenset()
        self._is_gap_told = False

    # Getters

    @property
    def node(self) -> int:
        """This incarnation as the GMS numbered it; 0 while there is none."""
        return self.environment.node

    @property
    def cluster(self) -> int:
        return self.environment.cluster

    @property
    def batch(self) -> int:
        """The newest batch of membership changes that was applied."""
        return self.environment.batch

    def regions(self) -> list[Region]:
        """Return the region views that this node is in, those being finished included."""
        return list(self._regions.values())

    # Application verbs (core thread)

    def flush(self) -> int:
        """Wait for all that was sent so far; ``FlushEnded`` carries the number returned."""
        self._flushes += 1
        number = self._flushes
        self.outgoing.flush(lambda lost: self.events.append(FlushEnded(number, lost)))
        return number

    def _tell_unconfirmed(self, messages: tuple[Unconfirmed, ...]) -> None:
        self.events.append(MessagesUnconfirmed(messages))

    # Host inputs

    def handle_drained(self, now: float) -> None:
        self.environment.drained_at = now

    def handle_drops(self, drops: int) -> None:
        """So many datagrams in all did not fit into the kernel's receive buffers."""
        self.environment.handle_drops(drops)

    # Control packets

    def _handle_control(self, data: bytes, source: Address, now: float) -> None:
        packet = parse_control(data)
        if packet is None:
            self.environment.reject(Rejection.MALFORMED, data, now)
            return
        if packet.cluster != self.cluster:
            self.environment.reject(Rejection.FOREIGN, data, now)
            return
        if self.environment.address_of(packet.origin) != source or not is_for(data, self.node):
            # Nobody that the GMS vouches for sends from there, or it is for our former life.
            self.environment.reject(Rejection.REJECTED, data, now)
            return
        is_proven = self.environment.peers.handle_stamp(packet.origin, *parse_stamp(data))
        if not is_proven:
            self._handle_unproven(packet, source)
            return
        self.environment.heard_at[packet.origin] = now
        if isinstance(packet, Challenge):
            for unheard in self.environment.peers.take_unheard(packet.origin, now):
                self._send_control(source, unheard)
        elif isinstance(packet, Token):
            feed = self._feeds.get((packet.region, packet.view))
            if feed is None or not feed.recovery.handle_token(packet, now):
                self.environment.reject(Rejection.REJECTED, data, now)
                return
            self.counters.tokens_received += 1
            self._register(feed, now)
        elif isinstance(packet, Ack):
            self.outgoing.handle_ack(packet, now)
        elif isinstance(packet, Nak):
            self.outgoing.requests.handle_nak(packet, now)
        elif isinstance(packet, Extent):
            region = self._regions.get((packet.region, packet.view))
            stream = region.streams.get(packet.origin) if region is not None else None
            if stream is not None:
                stream.note_extent(packet.packets)
        elif isinstance(packet, Hail):
            self.silence.handle_hail(packet, now)
        elif isinstance(packet, Gone):
            self._handle_gone(packet, now)
        elif isinstance(packet, Overtaken):
            self._handle_overtaken(packet, now)
        else:
            self._handle_request(packet, source, now)

    def _handle_gone(self, packet: Gone, now: float) -> None:
        """A sender no longer has packets that were asked for."""
        region = self._regions.get((packet.region, packet.view))
        stream = region.streams.get(packet.origin) if region is not None else None
        ranges = RangeSet.parse_flat(packet.ranges, RANGES_MAX)
        if stream is None or ranges is None:
            self.counters.rejected += 1
            return
        self.counters.gone_received += 1
        if stream.is_lost(ranges, now):
            reason = f"node {packet.origin} no longer has packets that it lacks"
            self.environment.end_incarnation(reason)

    def _handle_overtaken(self, packet: Overtaken, now: float) -> None:
        """A sender goes on without this node."""
        region = self._regions.get((packet.region, packet.view))
        stream = region.streams.get(packet.origin) if region is not None else None
        if stream is None:
            self.counters.rejected += 1
        else:
            stream.overtaken_at = now

    def _handle_unproven(self, packet: Control, source: Address) -> None:
        """Somebody speaks in the name of a node: let it show that it receives there.

        The answer is shorter than what it answers, or about as long.
        """
        self.counters.unproven += 1
        if not isinstance(packet, Challenge):
            challenge = Challenge(self.cluster, self.node)
            self._send_control(source, encode_control(challenge, packet.origin))

    def _send_control(self, to: Address, packet: bytes) -> None:
        self.environment.control.add(lambda _: Transmit(to, [packet]))

    def _handle_request(self, packet: Pull | Wake | Receipt, source: Address, now: float) -> None:
        if isinstance(packet, Pull) and packet.sender == self.node:
            self.outgoing.requests.handle_pull(packet, source, now)
            return
        feed = self._feeds.get((packet.region, packet.view))
        if feed is None or packet.origin not in feed.recovery.region.view.members:
            self.counters.rejected += 1
            return
        if isinstance(packet, Pull):
            self.counters.pull_received += 1
            feed.recovery.handle_pull(packet, source, now)
        elif isinstance(packet, Wake):
            feed.recovery.handle_wake(packet, now)
        else:
            feed.recovery.handle_receipt(packet, now)

    def _register(self, feed: _TokenFeed, now: float) -> None:
        """An agent was told something: take what it has to say."""
        if feed.recovery.has_messages():
            self._tokens.register(feed)
        self.take_own_acks(feed.recovery, now)

    def take_own_acks(self, recovery: RegionRecovery, now: float) -> None:
        """Acknowledge to this node itself what it leads a region to agree on."""
        while (ack := recovery.poll_own_ack()) is not None:
            self.outgoing.handle_own_ack(ack, now)

    def take_groups(self, now: float) -> list[GroupSampled]:
        """Return what went to groups and came from them since the last time."""
        tally = self.environment.tally
        if tally is None:
            return []
        groups = self.environment.directory.groups

        def describe(group: int) -> tuple[str, tuple[int, ...]]:
            view = groups.get(GroupId(group))
            if view is None:
                return "", ()
            return view.name, tuple(region for region, _ in view.regions[:REGIONS_TOLD_MAX])

        return tally.take(now, self.node, describe)

    def _deliver_counted(self, messages: Messages) -> None:
        tally = self.environment.tally
        assert tally is not None
        if messages.sender != self.node:
            tally.count_received(messages, self.counters.delivered_bytes)
        self._deliver_uncounted(messages)

    # Membership, from the session

    def handle_welcomed(self, event: Welcomed) -> None:
        """The GMS counts this node in, as a new one or as the one it was."""
        env = self.environment
        env.node = event.node
        env.peers.become(event.node)
        # Packets carry the low half: enough to tell clusters on one network apart.
        env.cluster = event.cluster & 0xFFFFFFFF
        env.settings = event.settings
        if not event.resumed:
            # What was dropped in an earlier life is no news to the new one's peers.
            env.take_drops()

    def handle_subscribed(self, names: list[str]) -> None:
        """Subscriptions took effect: those groups have their views, or no members."""
        self.outgoing.groups.handle_subscribed(names)

    def handle_excluded(self, reason: str, now: float) -> None:
        """This incarnation is over."""
        if self.tracer is not None:
            self.tracer(trace.WasExcluded(now, self.node, reason))
        self._become_nobody()

    def handle_views(self, event: ViewsChanged, now: float) -> None:
        """The directory has changed: install its views, then take what came too early.

        Packets that were kept for these views are handled, and delivered, in this call.
        """
        self._install_views(event, now)
        self.intake.handle_views(now)
        self.handle_complete(self.environment.batch)

    def handle_complete(self, batch: int, *, is_answer: bool = False) -> None:
        """All changes up to a batch that concern this node are known.

        ``is_answer``: the GMS says so, and that there is no newer batch.
        """
        env = self.environment
        env.complete_batch = max(env.complete_batch, batch)
        if env.regions.handle_news(env.complete_batch, is_answer=is_answer):
            env.on_news_wanted()

    def _become_nobody(self) -> None:
        """This incarnation is over: nothing of it may be sent or answered."""
        self.environment.assembly.clear()
        self.environment.regions.become_nobody()
        for feed in self._feeds.values():
            feed.recovery.close()
        self._feeds.clear()
        self._alarms.clear()
        self.outgoing.become_nobody()
        self.environment.become_nobody()
        self.environment.relays.clear()
        self.silence.become_nobody()
        self._is_gap_told = False
        kept = [event for event in self.events if not isinstance(event, GapFound)]
        self.events.clear()
        self.events += kept
        self.intake.early.clear()
        self._addresses = frozenset()

    def _install_views(self, event: ViewsChanged, now: float) -> None:
        env = self.environment
        env.batch = env.directory.batch
        failed = frozenset(int(node) for node in event.nodes_failed)
        for node in sorted(failed):
            env.handle_failed(node)
        for region in event.regions_gone:
            self._retire(region, None, now)
        for view in event.regions:
            self._install(view, now)
        if failed:
            if self.tracer is not None:
                self.tracer(trace.NodesFailed(now, self.node, tuple(sorted(failed))))
            for feed in list(self._feeds.values()):
                feed.recovery.handle_failed(failed, now)
        self.outgoing.handle_views(event)
        env.forget_strangers()
        self._update_addresses()

    def _install(self, view: RegionView, now: float) -> None:
        """A region has a new view, or the same with other senders."""
        name = (view.id, view.view)
        current = self._regions.get(name)
        if current is not None:
            current.handle_senders(view)
            return
        self._retire(view.id, view.view, now)
        if self.node not in view.members:
            return
        env = self.environment
        region = self._regions[name] = Region(env, view)
        recovery = RegionRecovery(env, region, lambda: self.outgoing.stream_of(*name))
        self._feeds[name] = _TokenFeed(self, recovery)
        self._alarms.add(name, recovery)
        if self.tracer is not None:
            self.tracer(trace.ViewInstalled(now, self.node, *name, len(view.members)))

    def _retire(self, region: int, newer: int | None, now: float) -> None:
        for (known, number), current in self._regions.items():
            if known == region and number != newer and current.retired_at is None:
                current.handle_retired(now)

    def _update_addresses(self) -> None:
        wanted = {region.view.address for region in self._regions.values()}
        for group in self.environment.directory.groups.values():
            if group.hybrid and self.node in group.members:
                wanted.add(group.hybrid)
        wanted.discard("")
        if wanted != self._addresses:
            self._addresses = frozenset(wanted)

    def multicast_addresses(self) -> frozenset[str]:
        return self._addresses

    # Time

    def next_timeout(self) -> float | None:
        # Asked twice a turn, which often brings one packet: no lists, no min().
        if self.environment.gap is not None:
            return self.environment.drained_at
        soonest = self._alarms.next()
        when = self.outgoing.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        when = self.environment.peers.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        when = self.environment.assembly.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        when = self.silence.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        when = self.intake.early.next_timeout()
        if when is not None and (soonest is None or when < soonest):
            soonest = when
        if self._repair_sink.is_waiting:
            when = self._repair_rate.next_open(self.environment.drained_at) or 0.0
            if soonest is None or when < soonest:
                soonest = when
        return soonest

    def handle_timeout(self, now: float) -> None:
        for name, feed in list(self._feeds.items()):
            if self._alarms.is_due(name, now):
                feed.recovery.handle_timeout(now)
                self._register(feed, now)
                self._let_end(name, feed.recovery.region, now)
        self.outgoing.handle_timeout(now)
        self.silence.handle_timeout(now)
        self.intake.early.handle_timeout(now)
        for peer, packet in self.environment.peers.take_due(now):
            address = self.environment.address_of(peer)
            if address is not None:
                self._send_control(address, packet)
        self._look_at_assemblies(now)
        if self._repair_sink.is_waiting and self._repair_rate.is_open(now):
            self._repair_sink.resume()
        gap = self.environment.gap
        if gap is not None and not self._is_gap_told:
            self._is_gap_told = True
            self.events.append(GapFound(gap))

    def _look_at_assemblies(self, now: float) -> None:
        """Large messages that never become whole must not keep out others for ever."""
        env = self.environment
        patience_s = self.config.patience_s(env.settings.failure_timeout_s)
        stuck = env.assembly.handle_timeout(now, patience_s)
        if stuck is not None:
            # It may be a liar, or slow beyond measure. Were it dropped, a message of an
            # honest sender would be lost without a word.
            env.end_incarnation(
                f"node {stuck} does not finish a large message, and others have no room"
            )

    def _let_end(self, name: tuple[int, int], region: Region, now: float) -> None:
        """Forget a view that was replaced, once nobody needs it."""
        if region.retired_at is None:
            return
        own = self.outgoing.stream_of(*name)
        if region.is_kept(now, is_sending=own is not None and bool(own.packets)):
            return
        if region.has_gap():
            self.environment.end_incarnation("packets of an old view could not be had in time")
            return
        self._feeds.pop(name).recovery.close()
        self._alarms.forget(name)
        self.environment.regions.forget(name)
        self._update_addresses()
        if self.tracer is not None:
            self.tracer(trace.ViewRetired(now, self.node, *name))

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

    # Statistics

    def recoveries(self) -> list[RegionRecovery]:
        """Return this node's part in the recovery of each of its region views."""
        return [feed.recovery for feed in self._feeds.values()]

    def memory(self) -> dict[str, Level]:
        """Return what is held of each budget, and its limit, in bytes."""
        return levels_of(self)

    def stats(self) -> dict[str, int | float | str]:
        """Return counts and levels by name; heartbeats carry them to the GMS."""
        env = self.environment
        stats: dict[str, int | float | str] = dict(self.counters.as_dict())
        self.outgoing.add_stats(stats)
        stats["regions"] = sum(1 for region in self.regions() if region.retired_at is None)
        stats["cache_bytes"] = env.copies.used
        stats["ahead_bytes"] = env.waiting.used
        stats["kernel_drops"] = env.kernel_drops()
        for name, level in self.memory().items():
            if name not in COUNTED_ELSEWHERE:
                stats[f"memory_{name}"] = level.used
        return stats
