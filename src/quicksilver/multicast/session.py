"""One node's membership in its groups: the engine, the client of the GMS, and routes.

The session is what a program joins groups with, whoever the program is: ``node``
runs it on a core thread with real sockets, ``trials`` on simulated hosts. It opens no
socket, starts no thread and reads no clock. Hosts drive it as ``core.ports`` says;
applications use its plain verbs; what happened is taken with ``poll_event``, after
every input and before more datagrams are handled.

**The fast path for messages.** Messages are not events: of each packet the session
keeps what this node joined and what was committed after it had come, and calls the
receiver that was given at the join. A receiver runs inside the input that brought the
packet and must not block. ``on_packet``, if set, takes whole packets in place of all
receivers. While events wait to be taken, messages wait behind them.

**Order.** News of the GMS change the session's tables first and the engine's after
that: what the engine then takes out of its store of early packets meets the routes of
the new view, and is delivered behind the news of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import assert_never

from quicksilver.membership.client import MembershipClient
from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.membership.patterns import matches
from quicksilver.multicast.awaiting import AwaitingMessages
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.engine import Engine
from quicksilver.multicast.events import (
    EmptinessChanged,
    EnvelopeReceiver,
    FlushEnded,
    GapFound,
    GroupReady,
    MessagesArrived,
    MessagesUnconfirmed,
    MessagesWaiting,
    Receiver,
    SessionEvent,
)
from quicksilver.multicast.joins import Joins
from quicksilver.multicast.levels import Level
from quicksilver.multicast.queue_table import QueueTable
from quicksilver.multicast.queues import queue_attendance
from quicksilver.multicast.routes import (
    Joined,
    MakeReceivers,
    Receivers,
    in_runs,
    open_for,
)
from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.empty import Empty
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane, Source
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.trace.records import Tracer
from quicksilver.wire.envelope import Envelope, encode_enveloped
from quicksilver.wire.ids import GROUPS_MAX, Address, plain_group
from quicksilver.wire.packets import Messages


class Session:
    """A node as its application and its host see it; drive it from one thread."""

    def __init__(
        self,
        *,
        name: str,
        address: Address,
        config: EngineConfig,
        seed: int,
        tracer: Tracer | None = None,
        has_multicast: bool = True,
    ) -> None:
        """``has_multicast``: False where the network carries none, or not from this node."""
        self.name = name
        self.client = MembershipClient(
            name=name,
            ip=address[0],
            port=address[1],
            receive_buffer_bytes=config.receive_buffer_bytes,
            has_multicast=has_multicast,
        )
        self.directory = self.client.directory
        engine = self.engine = Engine(
            config=config,
            directory=self.directory,
            deliver=self._deliver,
            seed=seed,
            tracer=tracer,
            has_multicast=has_multicast,
        )
        self.client.set_stats(self.stats)
        self.client.set_traffic(engine.outgoing.groups.take_traffic)
        self.client.set_silent(engine.silence.silent)
        engine.environment.on_news_wanted = self.client.hasten
        self.on_packet: Receiver | None = None
        """Takes whole packets instead of the groups' receivers."""
        self.idle_lane = engine.outgoing.idle_lane()
        """A lane that takes nothing: where groups point that may not send, or not yet."""
        self._joins = Joins()
        self._routes = self._joins.routes
        """Joined groups by number: the same table, one look-up nearer to every packet."""
        self._routed = self._joins.routed
        self._queues = QueueTable(
            held_bytes_max=config.unknown_bytes_max,
            known_batch=self._known_batch,
            on_news_wanted=self.client.hasten,
        )
        self._paused: set[str] = set()
        """Groups whose application is behind."""
        self._awaiting = AwaitingMessages(config.unknown_bytes_max)
        self._gap: str | None = None
        self._events: deque[SessionEvent] = deque()
        # What the host calls for every packet or turn is the engine's own: no call is added.
        self.classify = engine.classify
        self.handle_datagram = engine.handle_datagram
        self.handle_segments = engine.handle_segments
        self.handle_drained = engine.handle_drained
        self.handle_drops = engine.handle_drops
        self.handle_turn = engine.handle_turn
        self.has_outgoing = engine.has_outgoing
        self.has_transmits = engine.has_transmits
        self.poll_transmit = engine.poll_transmit
        self.multicast_addresses = engine.multicast_addresses
        self.has_control = self.client.has_transmits
        self.poll_control = self.client.poll_transmit
        self.poll_control_close = self.client.poll_close

    # Application verbs

    def subscribe(
        self,
        *,
        join: Mapping[str, Receiver] | None = None,
        leave: Iterable[str] = (),
        open_: Iterable[str] = (),
        close: Iterable[str] = (),
        echo: frozenset[str] = frozenset(),
        behind: Mapping[str, Behind] | None = None,
        empty: Mapping[str, Empty] | None = None,
        on_envelopes: Mapping[str, EnvelopeReceiver] | None = None,
        match: Mapping[str, MakeReceivers] | None = None,
        unmatch: Iterable[str] = (),
        queues: Mapping[str, str] | None = None,
    ) -> int:
        """Change memberships; ``SubscriptionCompleted`` carries the number returned.

        ``join`` names the receivers of messages; of the groups in ``echo`` they get
        this node's own as well. Messages with envelopes go to the receivers in
        ``on_envelopes``, where there is one, and else without them to those in ``join``.
        ``match`` are patterns: the node is in every group that one stands for, and its
        messages go to what the pattern's function returns for the group's name, whether or
        not it was joined by name as well. ``queues`` names the queue of groups in ``join``
        that share their messages with other members of it. ``open_`` and ``close`` are about
        sending without being a member; ``behind`` says of groups that are joined or opened
        what to do about members that do not keep up, ``empty`` what to do with messages while
        nobody is in the group. What is left goes first. To join a group again replaces its
        receiver. Nothing of a group reaches its receiver once this has returned with it in
        ``leave``.

        Raises:
            BadGroupNameError: for a name that no GMS accepts; nothing has changed then.
        """
        joining = join or {}
        leaving, closing, opening = tuple(leave), tuple(close), tuple(open_)
        patterns, unmatching = match or {}, tuple(unmatch)
        shared = {name: queue_attendance(queue, name) for name, queue in (queues or {}).items()}
        number = self.client.subscribe(
            join=(*joining, *shared.values()),
            leave=(*leaving, *self._queues.attendances(leaving)),
            open=opening,
            close=closing,
            match=tuple(patterns),
            unmatch=unmatching,
        )
        joins = self._joins
        joins.note_request(number, leave=leaving, match=patterns, unmatch=unmatching)
        self._paused.difference_update(unmatching)
        for name in leaving:
            self._leave(name)
        for name in closing:
            joins.close(name)
            self._forget_unused(name)
        for name, receiver in joining.items():
            receivers: Receivers = (receiver, (on_envelopes or {}).get(name))
            if name in shared:
                receivers = self._queues.add(name, shared[name], receivers)
            joins.join(name, receivers, echo=name in echo)
        for name in opening:
            joins.open(name)
        for name, choice in (behind or {}).items():
            self.engine.outgoing.groups.set_behind(name, choice)
        for name, without in (empty or {}).items():
            self.engine.outgoing.groups.set_empty(name, without)
        return number

    def leave_queues(self, names: Iterable[str]) -> int:
        """Take no more of groups' messages than were sent so far; like ``subscribe``.

        This node stays in the groups until it leaves them: what is on its way and its to take
        still comes.
        """
        return self.client.subscribe(leave=self._queues.attendances(names))

    def _known_batch(self) -> int:
        """Return up to which batch this node has heard all news that concern it."""
        return max(self.directory.batch, self.client.complete_batch)

    def _leave(self, name: str) -> None:
        self._queues.remove(name)
        joined = self._joins.leave(name)
        if joined is not None:
            self._paused.discard(name)
            if self._joins.is_open(name) and joined.echo:
                self.engine.outgoing.groups.sender_for(name).echo = False
                self.engine.outgoing.groups.refresh_lanes()
            self._forget_unused(name)

    def _forget_unused(self, name: str) -> None:
        if not self._joins.is_used(name):
            self.engine.outgoing.groups.forget_sender(name)

    def find_sender(self, name: str) -> GroupSender | None:
        """Return how a group is sent to, or was before it was left; None if it never was."""
        return self.engine.outgoing.groups.find_sender(name)

    def send(self, sender: GroupSender, payload: bytes) -> Lane:
        """Queue a message whatever room there is; return the lane that it waits in.

        ``GroupReady`` brings the sender. Its lane is the fast path of sending: a thread
        of the application may queue messages there by itself, as ``Lane`` describes.
        """
        lane = sender.lane
        size = len(payload)
        lane.outbox.put(sender, payload)
        lane.room -= size  # no call in between: see ``Lane``
        return lane

    def send_enveloped(self, sender: GroupSender, envelope: Envelope, body: bytes) -> Lane:
        """Queue a message with an envelope; ValueError if the envelope is too long."""
        return self.put_enveloped(sender, encode_enveloped(envelope, body))

    def put_enveloped(self, sender: GroupSender, payload: bytes) -> Lane:
        """Queue what ``encode_enveloped`` returned; otherwise like ``send``."""
        twin = sender.twin()
        # A lane with a single group does not note which of its numbers a payload is for.
        sender.lane.outbox.attach(twin)
        return self.send(twin, payload)

    def may_wait(self, sender: GroupSender, size: int) -> bool:
        """Whether a message of a size may wait for its group to have members.

        What is queued before it may have to wait as well: with no room for that, other
        groups of the lane would be held up.
        """
        lane = sender.lane
        return self.engine.outgoing.waiting.has_room(
            size, queued_bytes=lane.queued_bytes(), queued=lane.outbox.count()
        )

    def waiting_bytes(self) -> int:
        """Return how much waits for groups to have members."""
        return self.engine.outgoing.waiting.bytes

    def send_from(self, sender: GroupSender, source: Source) -> None:
        """Ask an application for messages whenever there is room, until it has none."""
        self.engine.outgoing.groups.add_source(sender, source)

    def flush(self) -> int:
        """Wait for all that was sent so far; ``FlushEnded`` carries the number returned."""
        return self.engine.flush()

    def put_back_unconfirmed(self, messages: Iterable[Unconfirmed]) -> None:
        """Whoever flushed could not be told of these: the next one shall be."""
        self.engine.outgoing.put_back_unconfirmed(messages)

    def take_put_back(self) -> tuple[Unconfirmed, ...]:
        """Return what was put back, for a flush that ended together with the one before."""
        return self.engine.outgoing.take_put_back()

    def take_unfinished(self) -> tuple[Unconfirmed, ...]:
        """Return what this node leaves behind if it ends now."""
        return self.engine.outgoing.take_unfinished()

    def patterns_for(self, name: str) -> tuple[str, ...]:
        """Return the patterns that stand for a group that this node is in."""
        joined = self._joins.by_name.get(name)
        return () if joined is None else joined.patterns

    def groups_for(self, pattern: str) -> tuple[str, ...]:
        """Return the groups that this node is in and that a pattern stands for."""
        return self._joins.groups_for(pattern)

    def pause(self, name: str) -> None:
        """The application is behind with a group: leave data in the kernel."""
        if name in self._joins.by_name or name in self._joins.patterns:
            self._paused.add(name)

    def resume(self, name: str) -> None:
        self._paused.discard(name)

    def goodbye(self) -> None:
        """Leave all groups and the cluster; ``poll_control`` has the last words."""
        self.client.goodbye()

    # Getters

    @property
    def node(self) -> int:
        """This incarnation as the GMS numbered it; 0 while there is none."""
        return self.engine.node

    @property
    def cluster(self) -> int:
        return self.engine.cluster

    def stats(self) -> dict[str, int | float | str]:
        """Return counts and levels by name."""
        stats = self.engine.stats()
        stats["memory_awaiting"] = self._awaiting.bytes
        return stats

    def queue_unsure(self) -> int:
        """Return how many messages of queues nobody here could tell whose they are."""
        return self._queues.unsure()

    def memory(self) -> dict[str, Level]:
        """Return what is held of each budget, and its limit, in bytes."""
        awaiting = Level(self._awaiting.bytes, self.engine.config.unknown_bytes_max)
        return self.engine.memory() | {"awaiting": awaiting}

    def pending_bytes(self) -> int:
        """Bytes of packets sent and not acknowledged."""
        return self.engine.outgoing.pending_bytes()

    # Host inputs

    def is_receiving_paused(self) -> bool:
        return bool(self._paused)

    def handle_address(self, address: Address, now: float) -> None:
        """The node is reached at another address, by the time the GMS is reached again."""
        self.client.handle_address(*address)

    def handle_control_opened(self, now: float) -> None:
        self.client.handle_opened(now)

    def handle_control_frame(self, frame: bytes, now: float) -> None:
        client = self.client
        answers = client.answers
        client.handle_frame(frame, now)
        self._take_news(now)
        if client.answers != answers:
            self._deliver_awaiting()
            self._queues.handle_answer()
            self.engine.handle_complete(client.complete_batch, is_answer=True)
            if client.disputed:
                self.engine.silence.handle_disputed(client.disputed, now)

    def handle_control_closed(self, reason: str, now: float) -> None:
        self.client.handle_closed(reason, now)
        self._take_news(now)

    def next_timeout(self) -> float | None:
        soonest = self.engine.next_timeout()
        when = self.client.next_timeout()
        if when is None or (soonest is not None and soonest < when):
            return soonest
        return when

    def handle_timeout(self, now: float) -> None:
        self.engine.handle_timeout(now)
        # After the engine: a heartbeat tells whom it has found to be silent.
        self.client.handle_timeout(now)
        self._take_engine_events()
        if self._gap is not None:
            self.client.begin_again(self._gap)
            self._take_news(now)

    # Outputs

    def has_events(self) -> bool:
        return bool(self._events) or bool(self.engine.events)

    def poll_event(self) -> SessionEvent | None:
        """Return what happened and was not told yet, in order, or None."""
        if self.engine.events:
            self._take_engine_events()
        return self._events.popleft() if self._events else None

    def _take_engine_events(self) -> None:
        while (event := self.engine.poll_event()) is not None:
            if isinstance(
                event, FlushEnded | MessagesUnconfirmed | EmptinessChanged | MessagesWaiting
            ):
                self._events.append(event)
            elif isinstance(event, GapFound):
                # The engine's alarm is due by now: the incarnation ends when it fires.
                self._gap = event.reason
            else:
                assert_never(event)

    # News of the GMS

    def _take_news(self, now: float) -> None:
        while (event := self.client.poll_event()) is not None:
            self.handle_news(event, now)

    def handle_news(self, event: ClientEvent, now: float) -> None:
        """Take what the GMS, or a simulation in its place, says of the membership."""
        if isinstance(event, SubscriptionCompleted):
            # Its groups are ready before it is complete.
            self._handle_subscribed(event)
            self._events.append(event)
            return
        self._events.append(event)
        if isinstance(event, ViewsChanged):
            for view in event.groups:
                self._handle_view(view)
            self._events += self._joins.handle_gone(event.groups_gone)
            self._queues.handle_views(event, self.client.node, self.directory.batch)
            self._deliver_awaiting()
            self.engine.handle_views(event, now)
        elif isinstance(event, Welcomed):
            self.engine.handle_welcomed(event)
        elif isinstance(event, WasExcluded):
            self._become_nobody()
            self.engine.handle_excluded(event.reason, now)
        elif isinstance(event, WasRefused):
            for request in event.requests:
                self._joins.handle_answer(request)
        else:
            assert_never(event)

    def _handle_view(self, view: GroupView) -> None:
        """A group has a new view, or its subscription is complete."""
        changes, is_missing = self._joins.handle_view(
            view,
            self.directory.joined_batch,
            is_member=self.client.node in view.members,
            lost_batch=self._awaiting.lost_batch,
        )
        self._events += changes
        if is_missing:
            self.engine.environment.end_incarnation("too much arrived before a join was known")

    def _handle_subscribed(self, event: SubscriptionCompleted) -> None:
        groups = self.directory.groups
        answered = [groups[group] for group in event.groups.values() if group in groups]
        for view in (*self._known_to(self._joins.handle_answer(event.request)), *answered):
            self._handle_view(view)
        self._deliver_awaiting()
        self.engine.handle_subscribed(list(event.groups))
        for name, group in event.groups.items():
            if self._joins.is_used(name):
                joined = self._joins.by_name.get(name)
                sender = self.engine.outgoing.groups.sender_for(name)
                sender.echo = joined is not None and joined.echo
                self._events.append(GroupReady(name, group, sender))
        self.engine.outgoing.groups.refresh_lanes()

    def _known_to(self, patterns: tuple[str, ...]) -> list[GroupView]:
        """Return the views of groups that new patterns stand for, and that were known before.

        Other groups and patterns are not looked at: for them nothing has changed.
        """
        if not patterns:
            return []
        known = list(self.directory.groups.values())
        return [view for view in known if any(matches(each, view.name) for each in patterns)]

    def _become_nobody(self) -> None:
        """This incarnation is over; the next one is in the same groups, with other numbers."""
        self._gap = None
        self._queues.clear()
        self._awaiting.clear()
        self._events += self._joins.clear()

    # The fast path

    def _deliver(self, messages: Messages) -> None:
        group = messages.group
        if group is None:
            self._deliver_mixed(messages)
            return
        joined = self._routes.get(group)
        counters = self.engine.counters
        if joined is None or messages.batch < joined.since:
            self._pass_over(messages, joined)
            return
        counters.delivered_messages += len(messages.payloads)
        receiver = self.on_packet or joined.receiver
        if self._events:
            self._events.append(MessagesArrived(receiver, messages))
        else:
            receiver(messages)

    def _pass_over(self, messages: Messages, joined: Joined | None) -> None:
        """Drop messages of a group that this node is not in, unless it may be already.

        Messages with envelopes come by here, too: no route has their number, so that
        plain ones need not be told from them.

        A sender may have heard of a join before whoever joins. If the region stays as it
        is, nothing but the batch shows that a message was committed to a newer view.
        """
        number = messages.groups[0] if messages.group is None else messages.group
        if number >= GROUPS_MAX:
            joined = self._routes.get(plain_group(number))
            if joined is not None and messages.batch >= joined.since:
                self._deliver_enveloped(messages, joined)
                return
        joins = self._joins
        is_joining = len(self._routes) < len(joins.by_name) or bool(joins.patterns)
        if joined is None and is_joining and messages.batch > self._known_batch():
            self._awaiting.add(messages)
        else:
            self.engine.counters.unwanted_messages += len(messages.payloads)

    def _deliver_enveloped(self, messages: Messages, joined: Joined) -> None:
        """Take envelopes off and hand messages over; what does not parse is dropped."""
        counters = self.engine.counters
        opened, envelopes, bad = open_for(messages, joined, self.directory.nodes)
        counters.bad_envelopes += bad
        counters.delivered_messages += len(envelopes)
        if not envelopes:
            return
        receiver = self.on_packet or joined.receiver
        on_envelopes = joined.on_envelopes
        if on_envelopes is not None and self.on_packet is None:
            self._hand_over(lambda taken: on_envelopes(taken, envelopes), opened)
        else:
            self._hand_over(receiver, opened)

    def _deliver_awaiting(self) -> None:
        """Views or routes have changed: look again at messages that came before them."""
        for messages in self._awaiting.take():
            self._deliver(messages)

    def _deliver_mixed(self, messages: Messages) -> None:
        """Split a packet of several groups among its receivers, keeping each one's order.

        Runs on every packet of a merged region, so what was not joined costs one
        look-up a group and no more.
        """
        counters = self.engine.counters
        on_packet = self.on_packet
        if (
            on_packet is not None
            and messages.batch >= self._joins.newest_batch
            and self._routed.issuperset(messages.groups)
        ):
            counters.delivered_messages += len(messages.payloads)
            self._hand_over(on_packet, messages)
            return
        routes = self._routes
        sender, batch = messages.sender, messages.batch
        by_group: dict[int, tuple[list[bytes], list[int]]] = {}
        for group, sequence, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            found = by_group.get(group)
            if found is None:
                by_group[group] = ([payload], [sequence])
            else:
                found[0].append(payload)
                found[1].append(sequence)
        parts: Iterable[tuple[int, tuple[list[bytes], list[int]]]] = by_group.items()
        if max(by_group) >= GROUPS_MAX:
            parts = in_runs(messages)
        for group, (payloads, sequences) in parts:
            joined = routes.get(group)
            groups = [group] * len(payloads)
            part = Messages(sender, batch, payloads, None, 0, groups, sequences)
            if joined is None or batch < joined.since:
                self._pass_over(part, joined)
                continue
            counters.delivered_messages += len(payloads)
            self._hand_over(on_packet or joined.receiver, part)

    def _hand_over(self, receiver: Receiver, messages: Messages) -> None:
        if self._events:
            self._events.append(MessagesArrived(receiver, messages))
        else:
            receiver(messages)
