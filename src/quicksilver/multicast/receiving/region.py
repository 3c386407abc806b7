"""A region view in which this node is a member: the streams that it receives there.

One instance lives per region *view*; a view that a newer one replaced is kept until
everything committed to it is stable. What is to be agreed on with the other members is
left here as news, which recovery takes (``take_news``): packets arrive far more often
than tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from quicksilver.membership.directory import RegionView
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.placement import placement_of
from quicksilver.multicast.receiving.relaying import RelayingStream
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.tree import children_of, parent_of
from quicksilver.stdx.patience import Patience
from quicksilver.trace import records as trace
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import Start

UNANNOUNCED_MAX = 64
"""Nodes whose streams into a view are heard of from members alone, not from the GMS."""

RETRY_S_MIN = 0.008
"""Whoever asked again sooner would ask for what waits behind other packets at a switch."""

RETRY_S_MAX = 0.25


class News(NamedTuple):
    """What happened in a region view since recovery last looked."""

    senders: tuple[int, ...]
    """Streams that were quiet and are no longer."""
    at: float | None
    """When the first of them became active; None if none did."""
    due_at: float | None
    """When enough data for a token had arrived; None if it has not."""


NO_NEWS = News((), None, None)


class Region:
    """This node as a receiver in one region view."""

    def __init__(self, environment: Environment, view: RegionView) -> None:
        self._env = environment
        self.view = view
        self.id = view.id
        self.number = view.view
        # For streams, which need them for every packet.
        self.counters = environment.counters
        self.copies = environment.copies
        self.copies_for_absent = environment.copies_for_absent
        self.waiting = environment.waiting
        self.assembly = environment.assembly
        self.deliver = environment.deliver
        self.streams: dict[int, ReceiveStream] = {}
        self.active: dict[int, None] = {}
        """Senders whose streams are not yet stable and quiet."""
        self.retired_at: float | None = None
        """When a newer view replaced this one."""
        self.active_at = 0.0
        """When something last arrived or became stable here."""
        self.kept_until = 0.0
        """When to look whether a view that was replaced can be forgotten."""
        settings = environment.settings
        self.placement = placement_of(view.members, settings.partition_size, settings.replication)
        self.is_alone = len(view.members) == 1
        self.caches_everything = (
            not self.is_alone
            and len(self.placement.partitions) == 1
            and self.placement.keeps_whole_partition(environment.node)
        )
        self.token_bytes = self._token_bytes_for(environment.receive_share())
        """How much data makes a token due."""
        # Senders begin with a small window and wait for the first acknowledgement:
        # without this they lost 50 ms at every change of views.
        first = max(1, environment.config.window_bytes_initial // 2)
        self.token_due_bytes = min(self.token_bytes, first)
        """How much data is still to come before a token is due."""
        self._due_bytes_sum = self.token_due_bytes
        """All that tokens were due for, and what it was of this node's own, and is."""
        self._own_bytes_guessed = self._own_bytes = 0
        self.sent = 0
        """Packets of this node in the view. Its stream is forgotten when the view is
        replaced and all is acknowledged; others may not have heard of that yet."""
        self._senders = set(view.senders)
        """Nodes whose packets are accepted: those that may send, and those that no longer
        may, whose last packets can still be under way."""
        self._addresses: dict[Address, bool] = {}
        self.repair_patience = Patience(
            environment.config.request_retry_s, least_s=RETRY_S_MIN, most_s=RETRY_S_MAX
        )
        self._touched = environment.regions.touched
        self.ask_at: float | None = None
        """When to look for packets to ask for; None while nothing is missing."""
        self._stirred: dict[int, None] = {}
        self._stirred_at: float | None = None
        self._due_at: float | None = None

    def touch(self) -> None:
        """Something happened that may change when there is something to do here."""
        self._touched[self.id, self.number] = None

    # Streams

    def may_send(self, node: int) -> bool:
        return node in self._senders or node in self.view.members

    def may_hear(self, node: int) -> bool:
        """Whether there may be a stream of a node here.

        Of one that failed others may have packets, though the GMS did not tell this node
        that it could send. A liar could name any that ever failed.
        """
        if self.may_send(node) or node in self.streams:
            return True
        return self._env.is_failed(node) and self._has_room_for_unannounced()

    def may_learn_of(self, node: int) -> bool:
        """Whether members may speak of a stream of a node.

        This node may have been cut off from the GMS while the other came and went as a
        sender. Its packets are to be agreed on all the same. Of a node that is not known at
        all the GMS has yet to tell: how its packets travel depends on it.
        """
        if self.may_hear(node):
            return True
        return self._env.address_of(node) is not None and self._has_room_for_unannounced()

    def _has_room_for_unannounced(self) -> bool:
        unannounced = sum(not self.may_send(sender) for sender in self.streams)
        return unannounced < UNANNOUNCED_MAX

    def streams_max(self) -> int:
        """Return how many streams there can be."""
        return len(self._senders.union(self.view.members)) + UNANNOUNCED_MAX

    def stream_of(self, sender: int) -> ReceiveStream:
        """Return the stream of a sender, made if it is new."""
        stream = self.streams.get(sender)
        if stream is None:
            env = self._env
            stream = self._make_stream(sender)
            stream.sender_failed = env.is_failed(sender)
            self.streams[sender] = stream
            env.regions.streams[stream.key] = stream
        return stream

    def _make_stream(self, sender: int) -> ReceiveStream:
        env = self._env
        key = env.stream_key(sender, self.id, self.number)
        origin = env.address_of(sender)
        parse_body = env.config.parse_body
        if env.uses_multicast(sender, self.view):
            return ReceiveStream(key, NodeId(sender), self, origin, parse_body)
        members, fan_out = self.view.members, env.settings.fan_out
        below = children_of(members, sender, env.node, fan_out)
        children = tuple(a for a in map(env.address_of, below) if a is not None)
        if children:
            stream: ReceiveStream = RelayingStream(
                key,
                NodeId(sender),
                self,
                origin,
                parse_body,
                children=children,
                relays=env.relays,
            )
        else:
            stream = ReceiveStream(key, NodeId(sender), self, origin, parse_body)
        stream.source = env.address_of(parent_of(members, sender, env.node, fan_out))
        return stream

    def is_member_address(self, address: Address) -> bool:
        """Return whether repairs may come from an address."""
        found = self._addresses.get(address)
        if found is None:
            # Looked up once: members' addresses do not change within a view.
            known = {self._env.address_of(member) for member in self.view.members}
            found = self._addresses[address] = address in known
            if len(self._addresses) > 4 * len(self.view.members) + 64:
                self._addresses = {a: ok for a, ok in self._addresses.items() if ok}
        return found

    def is_mine_to_keep(self, sequence: int) -> bool:
        return not self.is_alone and self.placement.is_keeper(self._env.node, sequence)

    # Inputs of streams

    def handle_activity(self, stream: ReceiveStream, now: float) -> None:
        """A stream that was quiet has news."""
        self.active_at = now
        self._stir(stream, now)

    def handle_repeat(self, stream: ReceiveStream, now: float) -> None:
        """A sender repeats what is here already: it is to be told so once more.

        That keeps a view that was replaced alive only while something is missing.
        Otherwise it would outlive the sender's patience by a patience of its own.
        """
        if stream.missing:
            self.active_at = now
        self._stir(stream, now)

    def _stir(self, stream: ReceiveStream, now: float) -> None:
        self.active[stream.sender] = None
        self._stirred[stream.sender] = None
        if self._stirred_at is None:
            self._stirred_at = now
            self.touch()

    def handle_hole(self, lost_at: float) -> None:
        """A packet has overtaken others: unless they come until then, they are asked for.

        If this node leads a ring, its next round is soon: all may have lost them.
        """
        self.look_for_holes(lost_at)
        round_at = lost_at + self._env.config.token_loss_interval_s
        if self._due_at is None or round_at < self._due_at:
            self._due_at = round_at
            self.touch()

    def look_for_holes(self, when: float) -> None:
        """Look for packets to ask for, at this time or sooner."""
        if self.ask_at is None or when < self.ask_at:
            self.ask_at = when
            self.touch()

    def handle_bytes_due(self, now: float) -> None:
        """``token_due_bytes`` has run out: enough has arrived for a token."""
        self._due_bytes_sum += self.token_bytes - self.token_due_bytes
        self.token_due_bytes = self.token_bytes
        self.active_at = now
        self._due_at = now
        self.touch()

    @property
    def arrived_bytes(self) -> int:
        """What has arrived here of all streams, this node's own included.

        Told from how much is still to come before a token is due: packets, of which
        there are many, need not be counted twice.
        """
        arrived = self._due_bytes_sum - self.token_due_bytes - self._own_bytes_guessed
        return max(0, arrived + self._own_bytes)

    def handle_own_packets(self, sent: int, size: int, sent_bytes: int, now: float) -> None:
        """This node has sent so many packets and bytes here: they are to be agreed on.

        ``size`` is how much nearer that brings the next token.
        """
        self.sent = sent
        self._own_bytes = sent_bytes
        self._own_bytes_guessed += size
        self.token_due_bytes -= size
        if self.token_due_bytes <= 0:
            self.handle_bytes_due(now)
        if self._stirred_at is None:
            self._stirred_at = now
            self.touch()

    def has_news(self) -> bool:
        return self._stirred_at is not None or self._due_at is not None

    def take_news(self) -> News:
        """Return what happened since the last time."""
        if not self.has_news():
            return NO_NEWS
        news = News(tuple(self._stirred), self._stirred_at, self._due_at)
        self._stirred.clear()
        self._stirred_at = self._due_at = None
        return news

    def handle_sample(self, stream: ReceiveStream, sequence: int, now: float) -> None:
        """A packet whose arrival is to be recorded has arrived."""
        env = self._env
        if env.tracer is not None:
            env.tracer(
                trace.PacketArrived(now, env.node, self.id, self.number, stream.sender, sequence)
            )

    def handle_start(self, stream: ReceiveStream, start: Start) -> None:
        """The stream may follow others: it is held until they are delivered."""
        env = self._env
        is_news_missing = False
        for region, view, packets in start.after:
            older = env.regions.find(region, view)
            if older is None:
                delivered = env.regions.delivered_before((region, view), stream.sender)
                is_news_missing = is_news_missing or delivered is None
                if delivered is not None and delivered < packets:
                    stream.break_off()
                    env.end_incarnation("it was cut off for longer than old views are kept")
                    return
                continue
            if older is self:
                continue
            waited_for = older.stream_of(stream.sender)
            stream.wait_for(waited_for, packets)
            if waited_for.missing and waited_for.quiet_rounds:
                # Its last packets are lost, and nothing else says so.
                waited_for.become_active(env.drained_at)
        if is_news_missing and start.batch > env.complete_batch:
            # The sender knows views that this node may have been in without having heard of
            # it, for example while it was cut off from the GMS.
            env.regions.await_news(stream, start)
            env.on_news_wanted()

    # Membership

    def handle_senders(self, view: RegionView) -> None:
        """The same view with other senders."""
        self.view = view
        self._senders |= view.senders

    def handle_failed(self, nodes: frozenset[int], now: float) -> None:
        """Nodes are gone: their streams end."""
        for sender in sorted(nodes & self.streams.keys()):
            stream = self.streams[sender]
            stream.sender_failed = True
            if not stream.is_settled():
                stream.become_active(now)

    def handle_buffers(self, buffer_bytes: int) -> None:
        """The region has said how much its members' kernels hold."""
        self.token_bytes = self._token_bytes_for(buffer_bytes)

    def _token_bytes_for(self, buffer_bytes: int) -> int:
        return max(32 << 10, min(self._env.config.token_bytes, buffer_bytes // 6))

    # The end of a view

    def handle_retired(self, now: float) -> None:
        """A newer view replaced this one."""
        self.retired_at = self.active_at = now
        self.kept_until = now + self._env.config.retire_s
        self.touch()

    def is_kept(self, now: float, *, is_sending: bool) -> bool:
        """Whether a view that was replaced is still needed.

        While senders that live may have more for it, it is kept for longer than they
        try: what they sent later must not be delivered past the gap. Silence of all
        others may mean that all is well, or that this node is cut off.
        """
        if now < self.kept_until:
            return True
        self.touch()
        config = self._env.config
        if any(stream.is_held() for stream in self.streams.values()):
            # It is all here, and the application has yet to get it.
            self.kept_until = now + config.retire_s
            return True
        self.kept_until = self.active_at + config.retire_s
        if now >= self.kept_until and (is_sending or self._is_unfinished()):
            patience_s = config.retire_s + config.patience_s(self._env.settings.failure_timeout_s)
            self.kept_until = min(now + config.retire_s, self.active_at + patience_s)
        return now < self.kept_until

    def _is_unfinished(self) -> bool:
        env = self._env
        assert self.retired_at is not None
        others = [m for m in self.view.members if m != env.node and not env.is_failed(m)]
        if others and all(env.heard_at.get(member, -1.0) < self.retired_at for member in others):
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
        """The view is over. Its streams know it: it forgets them, so that all are freed at once."""
        for stream in self.streams.values():
            stream.close()
        self.streams.clear()
