"""A region view in which this node is a member: its streams and its agents.

This is the bottom of the agent stack: the node itself as a recovery domain
(dissertation 3.2.12), and the glue that turns what agents decide into pulls,
pushes, acknowledgements and NAKs. One instance lives per region *view*; a view
that a newer one replaced is kept until everything committed to it is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from quicksilver.core.ports import Transmit
from quicksilver.membership.directory import RegionView
from quicksilver.multicast.acknowledging import Acknowledging
from quicksilver.multicast.agents import HELD_CHECKED_MAX, QUIET_ROUNDS, RingAgent
from quicksilver.multicast.asking import Asking
from quicksilver.multicast.budgets import Budget, Room
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.domains import Hierarchy
from quicksilver.multicast.interfaces import Lower, Report, trimmed
from quicksilver.multicast.receive import ReceiveStream
from quicksilver.multicast.streams import SendStream
from quicksilver.multicast.words import RegionWords
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.trace.records import Tracer
from quicksilver.wire.control import RANGES_MAX, Ack, Nak, Pull, Record, Token, Wake, encode_control
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import Messages, Start

STUCK_S = 0.2
"""A packet for which no neighbour and no holder could be asked is the sender's to resend."""

WAKE_S = 0.2
"""A member with news that sees no token for this long tells its leader."""

WAKES_BEFORE_ACTING = 3


class RegionHost(Protocol):
    """What a region view needs from the engine."""

    node: int
    cluster: int
    config: EngineConfig
    settings: ClusterSettings
    counters: Counters
    cache_budget: Budget
    ahead_budget: Room
    drained_at: float
    rng: Rng
    deliver: Callable[[Messages], None]
    tracer: Tracer | None

    def address_of(self, node: int) -> Address | None: ...

    def add_stream(self, stream: ReceiveStream) -> None: ...

    def own_stream(self, region: int, view: int) -> SendStream | None: ...

    def find_region(self, region: int, view: int) -> RegionMember | None: ...

    def forgotten_at(self, region: int, view: int, sender: int) -> int | None:
        """How much was delivered of a stream whose view is forgotten; None: not a member."""
        ...

    def handle_gap(self, reason: str) -> None:
        """What is owed can no longer be had: this incarnation has to end."""
        ...

    def is_failed(self, node: int) -> bool: ...

    def heard_at(self, node: int) -> float:
        """When a node last sent this one a control packet; -1: never."""
        ...

    def send_control(self, intent: Callable[[float], Transmit | None]) -> None: ...

    def send_repair(
        self, to: Address, key: bytes, copies: Mapping[int, bytes], ranges: RangeSet
    ) -> None: ...

    def register_agent(self, agent: RingAgent) -> None: ...

    def stream_key(self, sender: int, region: int, view: int) -> bytes: ...

    def receive_share(self) -> int: ...

    def take_drops(self) -> int: ...

    def handle_own_ack(self, ack: Ack) -> None:
        """This node leads a region into which it sends."""
        ...


class RegionMember:
    """This node in one region view."""

    def __init__(self, host: RegionHost, view: RegionView) -> None:
        self.host = host
        self.view = view
        self.id = view.id
        self.number = view.view
        self.counters = host.counters
        self.cache_budget = host.cache_budget
        self.ahead_budget = host.ahead_budget
        self.deliver = host.deliver
        self.streams: dict[int, ReceiveStream] = {}
        self.agents: list[RingAgent] = []
        self.retired_at: float | None = None
        """When a newer view replaced this one."""
        self.active_at = 0.0
        """When something last arrived or became stable here."""
        self.kept_until = 0.0
        """When to look whether a view that was replaced can be forgotten."""
        self._senders = set(view.senders)
        """Who may or might send: the last words of one that has left are still due."""
        self._sent = 0
        """Packets of this node in the view. Its stream is forgotten when the view is
        replaced and all is acknowledged; others may not have heard of that yet."""
        self._active: dict[int, None] = {}
        self._acknowledging = Acknowledging(host.config.token_interval_s)
        self._replication = host.settings.replication
        self._wake_at: float | None = None
        self._addresses: dict[Address, bool] = {}
        self._build_agents(frozenset())
        self._words = RegionWords(len(self._hierarchy.partitions))
        self._partition = self._hierarchy.partition_of(host.node)
        self._asking = Asking(host, self.id, self.number, self._tell)
        self._asking.become_placed(self._hierarchy, self._failed)
        self.caches_everything = (
            len(self._hierarchy.partitions) == 1
            and self._replication >= len(self._hierarchy.partitions[0])
            and len(view.members) > 1
        )
        self._is_alone = len(view.members) == 1
        self._token_bytes = self._token_bytes_for(host.receive_share())
        # Senders begin with a small window and wait for the first acknowledgement:
        # without this they lost 50 ms at every change of views.
        first = max(1, host.config.window_bytes_initial // 2)
        self.token_due_bytes = min(self._token_bytes, first)

    def _build_agents(self, failed: frozenset[int]) -> None:
        host = self.host
        self._failed = failed
        self._hierarchy = Hierarchy(self.view.members, host.settings.partition_size, failed)
        old = {(agent.ring.level, agent.ring.index): agent for agent in self.agents}
        self.agents = []
        lower: Lower = self
        for ring in self._hierarchy.rings_of(host.node):
            agent = old.get((ring.level, ring.index))
            if agent is None or agent.ring != ring:
                agent = RingAgent(
                    node=host.node,
                    cluster=host.cluster,
                    region=self.id,
                    view=self.number,
                    ring=ring,
                    lower=lower,
                    upper=self,
                    recovery=self,
                    config=host.config,
                    counters=host.counters,
                    register=host.register_agent,
                )
            agent.lower = lower
            self.agents.append(agent)
            lower = agent

    def _token_bytes_for(self, buffer_bytes: int) -> int:
        return max(32 << 10, min(self.host.config.token_bytes, buffer_bytes // 6))

    # Membership

    def handle_failed(self, nodes: frozenset[int], now: float) -> None:
        """Nodes are gone: rings close over them, their streams end."""
        gone = nodes & frozenset(self.view.members)
        if gone:
            self._build_agents(self._failed | gone)
            self._asking.become_placed(self._hierarchy, self._failed)
            for agent in self.agents:
                agent.handle_work(now, urgent=True)
        for sender in sorted(nodes & self.streams.keys()):
            stream = self.streams[sender]
            stream.sender_failed = True
            if not stream.is_settled():
                stream.become_active(now)

    def handle_senders(self, view: RegionView) -> None:
        """The same view with other senders."""
        self.view = view
        self._senders |= view.senders

    def may_send(self, node: int) -> bool:
        return node in self._senders or node in self.view.members

    def stream_of(self, sender: int) -> ReceiveStream:
        """Return the stream of a sender, made if it is new."""
        stream = self.streams.get(sender)
        if stream is None:
            key = self.host.stream_key(sender, self.id, self.number)
            source = self.host.address_of(sender)
            stream = ReceiveStream(key, NodeId(sender), self, source, self.host.config.parse_body)
            stream.sender_failed = self.host.is_failed(sender)
            self.streams[sender] = stream
            self.host.add_stream(stream)
        return stream

    def is_idle(self) -> bool:
        """Nothing here waits for anything."""
        return not self._active and not any(agent.due_at for agent in self.agents)

    def handle_retired(self, now: float) -> None:
        """A newer view replaced this one."""
        self.retired_at = self.active_at = now
        self.kept_until = now + self.host.config.retire_s

    def is_kept(self, now: float) -> bool:
        """Whether a view that was replaced is still needed.

        While senders that live may have more for it, it is kept for longer than they
        try: what they sent later must not be delivered past the gap. Silence of all
        others may mean that all is well, or that this node is cut off.
        """
        if now < self.kept_until:
            return True
        config = self.host.config
        if any(stream.barriers for stream in self.streams.values()):
            # It is all here, and the application has yet to get it.
            self.kept_until = now + config.retire_s
            return True
        self.kept_until = self.active_at + config.retire_s
        if now >= self.kept_until and self._is_unfinished():
            patience_s = config.retire_s + config.patience_s(self.host.settings.failure_timeout_s)
            self.kept_until = min(now + config.retire_s, self.active_at + patience_s)
        return now < self.kept_until

    def _is_unfinished(self) -> bool:
        host = self.host
        own = host.own_stream(self.id, self.number)
        if own is not None and own.packets:
            return True
        assert self.retired_at is not None
        others = [m for m in self.view.members if m != host.node and not host.is_failed(m)]
        if others and all(host.heard_at(member) < self.retired_at for member in others):
            return True
        return any(
            stream.is_owed()
            or not (stream.sender_failed or stream.is_over() or stream.is_settled())
            for stream in self.streams.values()
        )

    def has_gap(self) -> bool:
        """Whether a sender that lives owes packets here that this node knows of."""
        return any(stream.is_owed() for stream in self.streams.values())

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()

    # ReceivingRegion

    def is_member_address(self, address: Address) -> bool:
        found = self._addresses.get(address)
        if found is None:
            # Looked up once: members' addresses do not change within a view.
            known = {self.host.address_of(member) for member in self.view.members}
            found = self._addresses[address] = address in known
            if len(self._addresses) > 4 * len(self.view.members) + 64:
                self._addresses = {a: ok for a, ok in self._addresses.items() if ok}
        return found

    def is_mine_to_keep(self, sequence: int) -> bool:
        if self._is_alone:
            return False
        return self._hierarchy.is_cacher(self.host.node, sequence, self._replication)

    def handle_activity(self, stream: ReceiveStream, now: float) -> None:
        self._acknowledging.forget(stream.sender)
        self._active[stream.sender] = None
        self.active_at = now
        for agent in self.agents:
            agent.handle_work(now, urgent=False)
        if self._wake_at is None and not self.agents[0].is_leader:
            self.agents[0].seen_at = now
            self._wake_at = now + WAKE_S

    def handle_bytes_due(self, now: float) -> None:
        self.token_due_bytes = self._token_bytes
        self.active_at = now
        self.agents[0].handle_work(now, urgent=True)

    def handle_sample(self, stream: ReceiveStream, sequence: int, now: float) -> None:
        host = self.host
        if host.tracer is not None:
            host.tracer(
                trace.PacketArrived(now, host.node, self.id, self.number, stream.sender, sequence)
            )

    def handle_own_packets(self, size: int, now: float) -> None:
        """This node sent into its own region: that, too, is to be agreed on."""
        self._count_sent()
        self.token_due_bytes -= size
        if self.token_due_bytes <= 0:
            self.handle_bytes_due(now)
        for agent in self.agents:
            if agent.due_at is None:
                agent.handle_work(now, urgent=False)

    def _count_sent(self) -> int:
        own = self.host.own_stream(self.id, self.number)
        if own is not None:
            self._sent = own.next_sequence
        return self._sent

    def handle_start(self, stream: ReceiveStream, start: Start) -> None:
        for region, view, packets in start.after:
            older = self.host.find_region(region, view)
            if older is None:
                delivered = self.host.forgotten_at(region, view, stream.sender)
                if delivered is not None and delivered < packets:
                    stream.break_off()
                    self.host.handle_gap("it was cut off for longer than old views are kept")
                    return
                continue
            if older is self:
                continue
            waited_for = older.stream_of(stream.sender)
            stream.wait_for(waited_for, packets)
            if waited_for.missing and waited_for.quiet_rounds:
                # Its last packets are lost, and nothing else says so.
                waited_for.become_active(self.host.drained_at)

    # Lower: this node as a domain

    def active_senders(self) -> list[int]:
        senders = list(self._active)
        own = self.host.own_stream(self.id, self.number)
        if own is not None and own.packets:
            senders.append(self.host.node)
        return senders

    def report(self, sender: int) -> Report:
        if sender == self.host.node:
            return self._report_all_below(self._count_sent())
        stream = self.streams.get(sender)
        if stream is None:
            return self._report_all_below(0)
        if stream.is_over():
            # Nothing more is wanted here, or held back.
            return self._report_all_below(max(stream.high, stream.tail_claim))
        return Report(
            high=stream.high,
            low=stream.low,
            slowest=self.host.node,
            missing=stream.missing,
            missing_limit=stream.high,
            kept=(self._partition, stream.kept_until()),
        )

    def _report_all_below(self, end: int) -> Report:
        return Report.of_all_below(end, self.host.node, kept=(self._partition, end))

    # Recovery

    def missing_here(self, sender: int) -> RangeSet:
        stream = self.streams.get(sender)
        return RangeSet() if stream is None else stream.askable()

    def _copies(self, sender: int) -> Mapping[int, bytes]:
        if sender == self.host.node:
            own = self.host.own_stream(self.id, self.number)
            return {} if own is None else own.packets
        stream = self.streams.get(sender)
        return {} if stream is None else stream.cache

    def held_here(self, sender: int, ranges: RangeSet) -> RangeSet:
        copies = self._copies(sender)
        return RangeSet((s, s + 1) for s in ranges.values(HELD_CHECKED_MAX) if s in copies)

    def holds(self, peer: int, sender: int, ranges: RangeSet) -> RangeSet:
        if self.caches_everything or peer == sender:
            return ranges
        return RangeSet(
            (s, s + 1)
            for s in ranges.values(HELD_CHECKED_MAX)
            if self._hierarchy.is_cacher(peer, s, self._replication)
        )

    def pull(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None:
        stream = self.streams.get(sender)
        if stream is not None:
            self._asking.pull(peer, stream, ranges, now)

    def push(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None:
        held = self.held_here(sender, ranges)
        address = self.host.address_of(peer)
        if held and address is not None and peer != sender:
            self.counters.pushes += 1
            key = self.host.stream_key(sender, self.id, self.number)
            self.host.send_repair(address, key, self._copies(sender), held)
            self._trace_repair(peer, sender, held, now)

    def handle_pull(self, pull: Pull, to: Address, now: float) -> None:
        """A member asks for packets: send what is held."""
        ranges = RangeSet.parse_flat(pull.ranges, RANGES_MAX)
        if ranges:
            key = self.host.stream_key(pull.sender, self.id, self.number)
            self.host.send_repair(to, key, self._copies(pull.sender), ranges)
            if self.host.tracer is not None:
                held = self.held_here(pull.sender, ranges)
                self._trace_repair(pull.origin, pull.sender, held, now)

    def _trace_repair(self, to: int, sender: int, held: RangeSet, now: float) -> None:
        """Note who repairs what for whom, as it is asked for."""
        host = self.host
        if host.tracer is not None and held:
            host.tracer(
                trace.RepairsSent(now, host.node, self.id, self.number, sender, to, held.count())
            )

    def note_token(self, record: Record, now: float) -> None:
        sender = record.sender
        if sender == self.host.node:
            stable = min(record.stable, self._count_sent())
            self._words.conclude(sender, stable, record.region_kept)
            return
        stream = self.streams.get(sender)
        if stream is None:
            if not self.may_send(sender) and not self.host.is_failed(sender):
                return
            stream = self.stream_of(sender)
            stream.become_active(now)
        if stream.is_over():
            # Others may have got further: that is no reason to go on asking them.
            stream.tail_claim = max(stream.tail_claim, record.high)
        elif record.high > stream.high:
            self._note_tail(stream, record.high, now)
        if min(record.stable, stream.low) > stream.stable:
            # Less a stream that was cut: what others have of it is no news here.
            self.active_at = now
        self._learn(stream, record.stable, record.region_kept, record.cut)
        if stream.is_settled() and (record.high <= stream.high or stream.is_over()):
            stream.quiet_rounds += 1
            if stream.quiet_rounds >= QUIET_ROUNDS:
                self._active.pop(sender, None)
        elif sender not in self._active:
            stream.become_active(now)
        if not stream.missing:
            return
        if not self.caches_everything and not self._is_alone:
            self._asking.pull_from_holders(stream, self._words.of(sender).kept, now)
        if not stream.sender_failed and stream.is_stuck(STUCK_S, now):
            # Who should keep it lacks it, too, or had no room for a copy.
            self._asking.send_nak(sender, stream.askable())

    def _note_tail(self, stream: ReceiveStream, high: int, now: float) -> None:
        """Others have newer packets: late until the socket was drained since, then lost."""
        if stream.tail_claim > stream.high:
            if self.host.drained_at > stream.tail_claimed_at:
                stream.note_high(min(stream.tail_claim, high))
                stream.tail_claim = high
                stream.tail_claimed_at = now
        else:
            stream.tail_claim = high
            stream.tail_claimed_at = now

    def _learn(self, stream: ReceiveStream, stable: int, kept: tuple[int, ...], cut: int) -> None:
        end = max(stream.low, stream.tail_claim) if stream.is_over() else stream.low
        words = self._words.learn(stream.sender, stable, kept, cut, end=end)
        stream.forget_below(words.stable)
        if words.cut >= 0 and stream.sender_failed:
            stream.cut_at(words.cut)

    def region_words(self, sender: int) -> tuple[int, tuple[int, ...], int]:
        return self._words.of(sender)

    def buffer_share(self) -> int:
        return self.host.receive_share()

    def take_drops(self) -> int:
        return self.host.take_drops()

    def address_of(self, node: int) -> Address | None:
        return self.host.address_of(node)

    def accepts(self, sender: int) -> bool:
        known = sender == self.host.node or sender in self.streams
        return known or self.may_send(sender) or self.host.is_failed(sender)

    # Upper: a ring has completed a round

    def handle_round(self, agent: RingAgent, token: Token, seconds: float, now: float) -> None:
        level = agent.ring.level
        if self.host.tracer is not None:
            lost = sum(sum(record.missing[1::2]) for record in token.records)
            self.host.tracer(
                trace.RoundCompleted(
                    now,
                    self.host.node,
                    self.id,
                    self.number,
                    level,
                    seconds,
                    len(token.records),
                    lost,
                )
            )
        if level == 0:
            for record in token.records:
                if record.wanted:
                    self._handle_wanted(record, token, now)
                else:
                    self._words.forget_votes(record.sender)
        place = self.agents.index(agent) if agent in self.agents else -1
        if 0 <= place < len(self.agents) - 1:
            self.agents[place + 1].handle_work(now, urgent=True)
            return
        if level < len(self._hierarchy.levels) - 1:
            return
        self._token_bytes = self._token_bytes_for(token.buffer_bytes)
        for record in token.records:
            self._conclude(agent, record, token, seconds, now)

    def _handle_wanted(self, record: Record, token: Token, now: float) -> None:
        """Nobody in this partition holds these packets: ask the sender, or give up."""
        sender = record.sender
        wanted = RangeSet.parse_flat(record.wanted, RANGES_MAX)
        if not wanted or sender == self.host.node:
            return
        if self._is_alone:
            wanted = wanted.intersection(self.missing_here(sender))
        wanted = self._asking.ours_to_ask_for(wanted)
        if not wanted:
            return
        if self.host.is_failed(sender):
            # Someone who was passed over may have the only copy: wait for it.
            if not token.skipped and self._words.vote_cut(sender, wanted.first()):
                self._cut(sender, wanted.first())
            return
        self._asking.ask_sender(sender, wanted, now)

    def _cut(self, sender: int, sequence: int) -> None:
        """A dead sender's packet is gone: its stream ends there."""
        stream = self.streams.get(sender)
        if stream is not None:
            stream.sender_failed = True
            stream.cut_at(sequence)

    def _tell(self, node: int, make: Callable[[], Pull | Nak | Ack | Wake | None]) -> None:
        """Send a control packet, made when it can leave, unless there is nothing to say."""

        def intent(now: float) -> Transmit | None:
            address = self.host.address_of(node)
            packet = make() if address is not None else None
            if address is None or packet is None:
                return None
            return Transmit(address, [encode_control(packet, node)])

        self.host.send_control(intent)

    def _conclude(
        self, agent: RingAgent, record: Record, token: Token, seconds: float, now: float
    ) -> None:
        """The whole region has spoken: remember it, and tell the sender."""
        sender = record.sender
        report = agent.aggregates[sender]
        words = self._words.conclude(sender, max(report.low, record.stable), report.kept)
        stream = self.streams.get(sender)
        if stream is not None:
            stream.forget_below(min(words.stable, stream.low))
            if stream.is_settled() and len(agent.ring.members) == 1:
                # With peers, note_token counts: it sees what they see.
                stream.quiet_rounds += 1
                if stream.quiet_rounds >= QUIET_ROUNDS:
                    self._active.pop(sender, None)
        self._acknowledge(sender, report, token, seconds, now)

    def _acknowledge(
        self, sender: int, report: Report, token: Token, seconds: float, now: float
    ) -> None:
        host = self.host
        flat, limit = trimmed(report.missing, report.missing_limit)
        ack = Ack(
            cluster=host.cluster,
            origin=host.node,
            region=self.id,
            view=self.number,
            round=token.round,
            low=report.low,
            high=report.high,
            missing=flat,
            missing_limit=limit,
            slowest=report.slowest,
            buffer_bytes=token.buffer_bytes,
            drops=token.drops,
            senders=len(token.records),
            token_s=seconds,
        )
        if sender == host.node:
            self.counters.ack_sent += 1
            host.handle_own_ack(ack)
        elif self._acknowledging.is_news(ack, sender, now):
            self.counters.ack_sent += 1
            self._tell(sender, lambda: ack)

    # Time

    def next_timeout(self) -> float | None:
        soonest = self._wake_at
        for agent in self.agents:
            when = agent.next_timeout()
            if when is not None and (soonest is None or when < soonest):
                soonest = when
        return soonest

    def handle_timeout(self, now: float) -> None:
        for agent in self.agents:
            agent.handle_timeout(now)
        if self._wake_at is not None and now >= self._wake_at:
            self._handle_wake_timer(now)

    def _handle_wake_timer(self, now: float) -> None:
        """News, but no token comes by: say so to the leader, or stand in for it."""
        agent = self.agents[0]
        if not self._active or agent.is_leader:
            self._wake_at = None
            return
        self._wake_at = now + WAKE_S
        if now - agent.seen_at < WAKE_S:
            return
        agent.unanswered_wakes += 1
        rank = agent.ring.members.index(self.host.node)
        if agent.unanswered_wakes >= WAKES_BEFORE_ACTING + rank:
            agent.become_acting_leader(now)
            return

        host = self.host
        wake = Wake(host.cluster, host.node, self.id, self.number, agent.ring.level)
        self._tell(agent.ring.leader, lambda: wake)

    def handle_wake(self, wake: Wake, now: float) -> None:
        for agent in self.agents:
            if agent.ring.level == wake.level:
                agent.handle_wake(wake.origin, now)

    def handle_token(self, token: Token, now: float) -> bool:
        """Give a token to its agent; False when it is not for this node."""
        for agent in self.agents:
            ring = agent.ring
            if ring.level == token.level and ring.index == token.ring:
                if token.origin not in ring.members or token.leader not in ring.members:
                    return False
                agent.handle_token(token, now)
                return True
        return False
