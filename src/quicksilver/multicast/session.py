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

from collections import Counter, deque
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
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.engine import Engine
from quicksilver.multicast.events import (
    FlushEnded,
    GapFound,
    GroupReady,
    GroupViewChanged,
    MessagesArrived,
    MessagesUnconfirmed,
    Receiver,
    SessionEvent,
)
from quicksilver.multicast.levels import Level
from quicksilver.multicast.sending.behind import Behind
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane, Source
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.trace.records import Tracer
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import Messages

Told = tuple[int, int, tuple[NodeId, ...]]
"""The view that was told last: its group, number and members, which the directory has as
well: a set of them would take a hundred bytes a member."""

NOTHING_TOLD: Told = (0, 0, ())


AWAITING_BYTES = 64
"""What a message that waits costs besides its bytes."""


class _Joined:
    """A group that the application is in."""

    __slots__ = ("echo", "group", "name", "receiver", "since", "told")

    def __init__(self, name: str, receiver: Receiver, *, echo: bool) -> None:
        self.name = name
        self.receiver = receiver
        self.echo = echo
        """True when the application wants to hear its own messages."""
        self.group = 0
        """The group's number while messages are routed to the receiver, else 0."""
        self.since = 0
        """The batch in which this node came: older messages are not for it."""
        self.told = NOTHING_TOLD


class AwaitingMessages:
    """Messages of views that the GMS has not told this node of yet, in order of arrival."""

    def __init__(self, bytes_max: int) -> None:
        self.lost_batch = -1
        """The newest batch of which messages found no room: who is in a group since then,
        or before, may lack some of them."""
        self._messages: list[Messages] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def add(self, messages: Messages) -> None:
        """Keep messages; past the limit all that is kept is given up."""
        self._bytes += sum(map(len, messages.payloads)) + AWAITING_BYTES * len(messages.payloads)
        self._messages.append(messages)
        if self._bytes > self._bytes_max:
            self.lost_batch = max(self.lost_batch, *(each.batch for each in self.take()))

    @property
    def bytes(self) -> int:
        """What is kept takes so much."""
        return self._bytes

    def take(self) -> list[Messages]:
        """Return all that is kept; what must still wait is added again."""
        messages, self._messages, self._bytes = self._messages, [], 0
        return messages

    def clear(self) -> None:
        """The incarnation is over: nothing is owed to the next one."""
        self.take()
        self.lost_batch = -1


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
        self._joined: dict[str, _Joined] = {}
        self._opened: dict[str, Told] = {}
        """Groups that the application sends to, whether or not it is in them."""
        self._routes: dict[int, _Joined] = {}
        """Joined groups by number, once this node is in their view."""
        self._routed: set[int] = set()
        """The same numbers, and …"""
        self._newest_join = 0
        """… the batch in which the newest of them came: for packets of many groups."""
        self._member_since: dict[int, int] = {}
        """Groups whose view has this node, and the batch from which on it did. A sender
        whose views did not change since may name that batch for ever."""
        self._leaves: dict[int, tuple[str, ...]] = {}
        """Requests to leave that were not answered, and …"""
        self._leaving: Counter[str] = Counter()
        """… the groups in them: a view of these may still be of the old membership."""
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
    ) -> int:
        """Change memberships; ``SubscriptionCompleted`` carries the number returned.

        ``join`` names the receivers of messages; of the groups in ``echo`` they get
        this node's own as well. ``open_`` and ``close`` are about sending without
        being a member; ``behind`` says of groups that are joined or opened what to do about
        members that do not keep up. What is left goes first. To join a group again replaces its
        receiver. Nothing of a group reaches its receiver once this has returned with
        it in ``leave``.

        Raises:
            BadGroupNameError: for a name that no GMS accepts; nothing has changed then.
        """
        joining = join or {}
        leaving, closing, opening = tuple(leave), tuple(close), tuple(open_)
        number = self.client.subscribe(
            join=tuple(joining), leave=leaving, open=opening, close=closing
        )
        if leaving:
            self._leaves[number] = leaving
            self._leaving.update(leaving)
        for name in leaving:
            self._leave(name)
        for name in closing:
            self._opened.pop(name, None)
            self._forget_unused(name)
        for name, receiver in joining.items():
            known = self._joined.get(name)
            if known is None:
                self._joined[name] = _Joined(name, receiver, echo=name in echo)
            else:
                known.receiver, known.echo = receiver, name in echo
        for name in opening:
            # Whoever opens it again has not heard of its view.
            self._opened[name] = NOTHING_TOLD
        for name, choice in (behind or {}).items():
            self.engine.outgoing.groups.set_behind(name, choice)
        return number

    def _leave(self, name: str) -> None:
        joined = self._joined.pop(name, None)
        if joined is not None:
            self._unroute(joined)
            self._paused.discard(name)
            if name in self._opened and joined.echo:
                self.engine.outgoing.groups.sender_for(name).echo = False
                self.engine.outgoing.groups.refresh_lanes()
            self._forget_unused(name)

    def _forget_unused(self, name: str) -> None:
        if name not in self._joined and name not in self._opened:
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

    def pause(self, name: str) -> None:
        """The application is behind with a group: leave data in the kernel."""
        if name in self._joined:
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
            self.engine.handle_complete(client.complete_batch, is_answer=True)

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
            if isinstance(event, FlushEnded | MessagesUnconfirmed):
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
            for group in event.groups_gone:
                self._member_since.pop(group, None)
                if (joined := self._routes.get(group)) is not None:
                    self._unroute(joined)
            self._deliver_awaiting()
            self.engine.handle_views(event, now)
        elif isinstance(event, Welcomed):
            self.engine.handle_welcomed(event)
        elif isinstance(event, WasExcluded):
            self._become_nobody()
            self.engine.handle_excluded(event.reason, now)
        elif isinstance(event, WasRefused):
            for request in event.requests:
                self._forget_leave(request)
        else:
            assert_never(event)

    def _handle_view(self, view: GroupView) -> None:
        """A group has a new view, or its subscription is complete."""
        joined = self._joined.get(view.name)
        is_member = self.client.node in view.members
        if is_member:
            self._member_since.setdefault(view.id, self.directory.batch)
        else:
            self._member_since.pop(view.id, None)
        if joined is not None:
            if not is_member:
                self._unroute(joined)
            elif view.name not in self._leaving:
                self._route(joined, view.id)
                joined.told = self._tell(view, joined.told, is_member=True)
        told = self._opened.get(view.name)
        if told is not None:
            self._opened[view.name] = self._tell(view, told, is_member=False)

    def _route(self, joined: _Joined, group: int) -> None:
        """From now on a group's messages go to its receiver."""
        if joined.group == group:
            return
        self._unroute(joined)
        joined.since = self._member_since[group]
        if joined.since <= self._awaiting.lost_batch:
            # Nothing of it may reach the application: some of it is lost.
            self.engine.environment.end_incarnation("too much arrived before a join was known")
            return
        joined.group = group
        self._newest_join = max(self._newest_join, joined.since)
        self._routes[group] = joined
        self._routed.add(group)

    def _unroute(self, joined: _Joined) -> None:
        if joined.group:
            del self._routes[joined.group]
            self._routed.discard(joined.group)
            joined.group = 0

    def _tell(self, view: GroupView, told: Told, *, is_member: bool) -> Told:
        """Tell a view unless it was; return what was told last."""
        group, number, before = told
        if group != view.id:
            # The group ended, and another one has its name.
            number, before = 0, ()
        if view.view <= number:
            return told
        new, old = frozenset(view.members), frozenset(before)
        came, went = tuple(sorted(new - old)), tuple(sorted(old - new))
        self._events.append(GroupViewChanged(view, came, went, is_member))
        return (view.id, view.view, view.members)

    def _handle_subscribed(self, event: SubscriptionCompleted) -> None:
        self._forget_leave(event.request)
        for group in event.groups.values():
            view = self.directory.groups.get(group)
            if view is not None:
                self._handle_view(view)
        self._deliver_awaiting()
        self.engine.handle_subscribed(list(event.groups))
        for name, group in event.groups.items():
            joined = self._joined.get(name)
            if joined is not None or name in self._opened:
                sender = self.engine.outgoing.groups.sender_for(name)
                sender.echo = joined is not None and joined.echo
                self._events.append(GroupReady(name, group, sender))
        self.engine.outgoing.groups.refresh_lanes()

    def _forget_leave(self, request: int) -> None:
        """A request was answered or given up: views are of the new membership."""
        for name in self._leaves.pop(request, ()):
            self._leaving[name] -= 1
            if not self._leaving[name]:
                del self._leaving[name]

    def _become_nobody(self) -> None:
        """This incarnation is over; the next one is in the same groups, with other numbers."""
        self._gap = None
        self._awaiting.clear()
        self._newest_join = 0
        self._member_since.clear()
        for joined in self._joined.values():
            self._unroute(joined)
            joined.told = NOTHING_TOLD
        self._opened = dict.fromkeys(self._opened, NOTHING_TOLD)

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

    def _pass_over(self, messages: Messages, joined: _Joined | None) -> None:
        """Drop messages of a group that this node is not in, unless it may be already.

        A sender may have heard of a join before whoever joins. If the region stays as it
        is, nothing but the batch shows that a message was committed to a newer view.
        """
        is_joining = len(self._routes) < len(self._joined)
        if joined is None and is_joining and messages.batch > self.directory.batch:
            self._awaiting.add(messages)
        else:
            self.engine.counters.unwanted_messages += len(messages.payloads)

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
            and messages.batch >= self._newest_join
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
        for group, (payloads, sequences) in by_group.items():
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
