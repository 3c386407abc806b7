"""A node of a simulated cluster: a real session, a simulated host, an application."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

from quicksilver.core.ports import ControlClosed, ControlEvent, ControlFrame, ControlOpened
from quicksilver.membership.directory import Directory, GroupView
from quicksilver.membership.events import (
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
    WasRefused,
    Welcomed,
)
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.events import (
    EmptinessChanged,
    FlushEnded,
    GroupReady,
    GroupUnmatched,
    GroupViewChanged,
    MessagesArrived,
    MessagesUnconfirmed,
    MessagesWaiting,
    SessionEvent,
)
from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.session import Session
from quicksilver.sim.disk import SimDisk
from quicksilver.sim.host import SimHost
from quicksilver.sim.model import HostModel
from quicksilver.stdx.backoff import Backoff
from quicksilver.stdx.rand import Rng
from quicksilver.trials.asking import AskingPart
from quicksilver.trials.payloads import envelope_for
from quicksilver.trials.values import ValuesPart
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.ids import GroupId
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster

RECONNECT_S = 0.05


class SimNode:
    """One life of one node: made by a start, ended by a crash.

    Everything between the application and the network is the session that real
    nodes run. What is here is the application: what it asked for, what it was
    given, and what it may expect, by which the checks judge the session.
    """

    def __init__(
        self,
        cluster: Cluster,
        index: int,
        life: int,
        *,
        config: EngineConfig,
        model: HostModel,
        rng: Rng,
    ) -> None:
        self.cluster = cluster
        self.index = index
        self.life = life
        self.config = config
        port = 7000 + life if cluster.fresh_ports else 7000
        self.address = (f"10.{index // 62500}.{index // 250 % 250}.{index % 250 + 1}", port)
        self.sent: defaultdict[str, int] = defaultdict(int)
        """How many messages its application sent, by group."""
        self.planned: defaultdict[str, int] = defaultdict(int)
        """How many it was told to send, those included that its process has not sent yet."""
        self.delivered: Counter[int] = Counter()
        """How many messages its application was given, by group identifier."""
        self.exclusions = 0
        self.excluded_for: list[str] = []
        """Why each of them happened."""
        self.joined: set[str] = set()
        """Groups that its application is in."""
        self.opened: set[str] = set()
        self.ready: set[str] = set()
        """Groups whose subscription is complete: what is sent from now on arrives."""
        self.member_since: dict[int, int] = {}
        """Groups that the GMS counts it in, and the batch in which it came: what is
        committed from then on it may expect."""
        self._member_again: dict[int, int] = {}
        """Groups that it left, and the first batch after that. It may come back before any
        view shows that it was away: messages of a batch from before are not for it then."""
        self.started_at = cluster.now
        self.session = Session(
            name=f"n{index}.{life}",
            address=self.address,
            config=config,
            seed=rng.bits64(),
            tracer=cluster.tracer,
            has_multicast=index not in cluster.without_multicast,
        )
        self.engine = self.session.engine
        self.host = SimHost(
            cluster.events,
            cluster.network,
            self.session,
            index=index,
            address=self.address,
            model=model,
            rng=rng,
            control=self,
            on_events=self._take_events,
            memory=self.memory_bytes,
            shared_cpu=cluster.shared_cpu,
        )
        self.disk = SimDisk(self.host, cluster.events, config.keep_disk_bytes_max)
        if config.keep_disk_bytes_max:
            self.engine.environment.disk = self.disk
        self.senders: dict[str, GroupSender] = {}
        """How groups are sent to, from when they are ready until they are left."""
        self._early: defaultdict[str, list[tuple[bytes, ...]]] = defaultdict(list)
        """What is to be sent to groups that are not ready yet."""
        self._leaves: dict[int, tuple[str, ...]] = {}
        """Requests to leave that were not answered, and …"""
        self._leaving: Counter[str] = Counter()
        """… the groups in them: a view of these may still be of the old membership."""
        self._requests: dict[int, Callable[[], None]] = {}
        self._flushes: dict[int, Callable[[], None]] = {}
        self.values = ValuesPart(self)
        self.asking = AskingPart(self)
        self._connection: int | None = None
        last_s = min(1.0, cluster.gms.settings.failure_timeout_s / 4)
        self._backoff = Backoff(RECONNECT_S, last_s, rng.derive("reconnect").bits64())
        self._control: deque[tuple[int, ControlEvent]] = deque()
        """What came on connections to the GMS and was not read yet."""
        if not cluster.stands:
            self._reconnect()

    def __repr__(self) -> str:
        return f"node {self.index}.{self.life}"

    # State

    @property
    def is_dead(self) -> bool:
        return self.host.is_dead

    @property
    def id(self) -> int:
        """This incarnation as the GMS numbered it; 0 while there is none."""
        return self.engine.node

    @property
    def unwanted(self) -> int:
        """Messages of groups that it had not joined, dropped."""
        return self.engine.counters.unwanted_messages

    def memory_bytes(self) -> int:
        """Bytes of packets that the process holds: sent, kept for others, early."""
        engine = self.engine
        return (
            self.session.pending_bytes()
            + engine.environment.copies.used
            + engine.environment.waiting.used
        )

    # Application verbs

    def join(self, *groups: str, echo: bool = False) -> None:
        self.change(join=groups, echo=echo)

    def leave(self, *groups: str) -> None:
        self.change(leave=groups)

    def become_standing(
        self, directory: Directory, news: tuple[Welcomed, ViewsChanged], group: str
    ) -> None:
        """Be in a group as if the GMS had said so, with a directory shared by all nodes."""
        self.joined.add(group)
        session, client = self.session, self.session.client
        session.directory = client.directory = self.engine.environment.directory = directory
        client.node, client.cluster = news[0].node, news[0].cluster

        def begin() -> None:
            request = session.subscribe(join={group: self._receive})
            (view,) = news[1].groups
            for event in (*news, SubscriptionCompleted(request, {group: view.id})):
                session.handle_news(event, self.host.clock())

        self.host.submit(begin)

    def open(self, *groups: str) -> None:
        self.change(open_=groups)

    def change(
        self,
        *,
        join: tuple[str, ...] = (),
        leave: tuple[str, ...] = (),
        open_: tuple[str, ...] = (),
        echo: bool = False,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Change memberships in one request; call back when it took effect."""
        self.joined.difference_update(leave)
        self.joined.update(join)
        self.opened.update(open_)
        self.ready.difference_update(set(leave) - self.opened)
        if leave:
            self._leaving.update(leave)
            for group in [g for g in self.member_since if self.cluster.group_name(g) in leave]:
                del self.member_since[group]
                self._member_again[group] = self._next_batch()

        features = self.cluster.features
        by_pattern = self.index in features.by_pattern
        # Of a queue a node takes its part, and for the checks a pattern brings all of it.
        tapped = tuple(each for each in join if by_pattern or each in features.queued)
        named = () if by_pattern else join
        opening = (*open_, *(each for each in join if by_pattern and each not in self.opened))
        closing = tuple(each for each in leave if by_pattern and each not in self.opened)

        def request() -> None:
            number = self.session.subscribe(
                join={
                    each: self._take if each in features.queued else self._receive for each in named
                },
                leave=() if by_pattern else leave,
                open_=opening,
                close=closing,
                echo=frozenset(join) if echo else frozenset(),
                on_envelopes={
                    each: self._receive_enveloped for each in named if each not in tapped
                },
                match=dict.fromkeys(tapped, self._receivers),
                unmatch=[each for each in leave if by_pattern or each in features.queued],
                queues={each: "w" for each in named if each in features.queued},
            )
            if done is not None:
                self._requests[number] = done
            if leave:
                self._leaves[number] = leave
                self.cluster.watching.on_left(self, leave)
            for name in leave:
                if name not in self.opened:
                    self.senders.pop(name, None)

        self.host.submit(request)

    def send(self, group: str, *payloads: bytes) -> None:
        """Queue messages, as an application thread does."""
        self.host.submit(lambda: self._put(group, payloads))

    def _put(self, group: str, payloads: tuple[bytes, ...]) -> None:
        sender = self.senders.get(group)
        if sender is None:
            self._early[group].append(payloads)
            return
        first = self.sent[group]
        self.sent[group] = first + len(payloads)
        self.cluster.watching.on_sent(self, group, first, payloads)
        every = self.cluster.features.enveloped_every
        for place, payload in enumerate(payloads):
            if every and (first + place) % every == 0:
                self.session.send_enveloped(sender, envelope_for(payload), payload)
            else:
                self.session.send(sender, payload)
        self.host.charge_sent(len(payloads))

    def send_from(self, group: str, source: Callable[[], bytes | None]) -> None:
        """Be asked for the next message whenever there is room for it."""

        def ask() -> bytes | None:
            payload = source()
            if payload is not None:
                first = self.sent[group]
                self.sent[group] = first + 1
                self.cluster.watching.on_sent(self, group, first, (payload,))
                self.host.charge_sent(1)
            return payload

        self.host.submit(lambda: self.session.send_from(self.senders[group], ask))

    def room(self, group: str) -> int:
        """How many more bytes may be queued for a group; below 0 the application waits."""
        sender = self.senders.get(group)
        return -1 if sender is None else sender.lane.room

    def flush(self, done: Callable[[], None]) -> None:
        """Call back when all that was sent is on every surviving member, or cannot be."""

        def request() -> None:
            number = self.session.flush()
            self._flushes[number] = done
            self.cluster.watching.on_flushing(self, number)

        self.host.submit(request)

    def goodbye(self) -> None:
        """Leave the cluster politely."""
        self.host.submit(self.session.goodbye)

    # Life

    def crash(self) -> None:
        """The process dies and loses its state."""
        if self.is_dead:
            return
        self.host.kill()
        if self._connection is not None:
            self.cluster.gms.disconnect(self._connection)
            self._connection = None
        self.cluster.watching.on_crashed(self)

    def move(self, ip: str) -> None:
        """The machine gets another address; its stream to the GMS belonged to the old one."""
        self.address = (ip, self.address[1])
        self.host.move(self.address)
        if self._connection is not None:
            self.cluster.gms.sever(self._connection)

    def freeze(self, seconds: float) -> None:
        self.host.freeze(seconds)

    # What the session delivers and reports

    def _receivers(self, _: str) -> Receivers:
        return self._receive, self._receive_enveloped

    def _receive_enveloped(self, messages: Messages, envelopes: Sequence[Envelope]) -> None:
        self.cluster.watching.on_envelopes(self, envelopes, messages.payloads)
        self._receive(messages)

    def _take(self, messages: Messages) -> None:
        """Take what is this node's of a queue."""
        tell = self.cluster.watching.on_taken
        for group, number, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            tell(self, group, messages.sender, number, payload)

    def queue_unsure(self) -> int:
        """Return how many messages of queues it could not tell whose they were."""
        return self.session.queue_unsure()

    def _receive(self, messages: Messages) -> None:
        count = len(messages.payloads)
        group = messages.group
        self.host.charge_delivered(count)
        if group is not None:
            self.delivered[group] += count
            sequences: Sequence[int] = range(messages.first, messages.first + count)
        else:
            # Of several groups in one packet the session makes one call for each.
            group = GroupId(messages.groups[0])
            self.delivered[group] += count
            sequences = messages.sequences
        if self.cluster.watchers:
            tell = self.cluster.watching.on_delivered
            sender, batch = messages.sender, messages.batch
            for number, payload in zip(sequences, messages.payloads, strict=True):
                tell(self, group, sender, number, payload, batch)

    def _take_events(self) -> None:
        while (event := self.session.poll_event()) is not None:
            self._handle_event(event)

    def _handle_event(self, event: SessionEvent) -> None:
        if isinstance(event, MessagesArrived):
            event.deliver()
            return
        if isinstance(event, FlushEnded):
            self.cluster.watching.on_event(self, event)
            self._flushes.pop(event.number)()
            return
        if isinstance(event, ViewsChanged):
            for view in event.groups:
                self.cluster.name_group(view.id, view.name)
                if self._is_in(view):
                    joined = self.cluster.gms.member_since(self.engine.node, view.id)
                    again = self._member_again.get(view.id, 0)
                    self.member_since.setdefault(view.id, max(joined or self.engine.batch, again))
                else:
                    self.member_since.pop(view.id, None)
            for group in event.groups_gone:
                self.member_since.pop(group, None)
        elif isinstance(event, GroupReady):
            self.cluster.name_group(event.group, event.name)
            if event.name in self.joined or event.name in self.opened:
                self.ready.add(event.name)
            self.senders[event.name] = event.sender
        elif isinstance(event, WasExcluded):
            self.exclusions += 1
            self.excluded_for.append(event.reason)
            self.member_since.clear()
            self.ready.clear()
        elif isinstance(event, SubscriptionCompleted):
            self._handle_subscribed(event)
        elif isinstance(
            event,
            Welcomed
            | WasRefused
            | GroupViewChanged
            | GroupUnmatched
            | MessagesUnconfirmed
            | EmptinessChanged
            | MessagesWaiting,
        ):
            pass
        else:
            assert_never(event)
        self.values.handle_event(event)
        self.asking.handle_event(event)
        self.cluster.watching.on_event(self, event)
        if isinstance(event, GroupReady):
            for payloads in self._early.pop(event.name, []):
                self._put(event.name, payloads)
        elif isinstance(event, SubscriptionCompleted) and event.request in self._requests:
            self._requests.pop(event.request)()

    def is_leaving(self, group: str) -> bool:
        """Whether a request to leave a group was not answered yet."""
        return self._leaving[group] > 0

    def _is_in(self, view: GroupView) -> bool:
        """Whether a view has this node because its application wants to be in the group."""
        wanted = view.name in self.joined and not self._leaving[view.name]
        return wanted and self.engine.node in view.members

    def _next_batch(self) -> int:
        """Return the first batch that nobody has yet; this node need not hear of all of them."""
        return 1 + max(node.engine.batch for node in self.cluster.alive())

    def _handle_subscribed(self, event: SubscriptionCompleted) -> None:
        self._leaving.subtract(self._leaves.pop(event.request, ()))
        for group in event.groups.values():
            view = self.session.directory.groups.get(group)
            if view is not None and self._is_in(view):
                self.member_since.setdefault(group, self._next_batch())

    # The stream to the GMS

    def _reconnect(self) -> None:
        if self.is_dead or self._connection is not None:
            return
        number = self.cluster.gms.connect(self)
        if number is None:
            self._reconnect_later()
            return
        self._backoff.reset()
        self._connection = number
        self.session.handle_address(self.address, self.host.clock())
        self._arrive(number, ControlOpened())

    def handle_frame(self, connection: int, frame: bytes) -> None:
        """A frame of the GMS has arrived."""
        self._arrive(connection, ControlFrame(frame))

    def handle_closed(self, connection: int, reason: str) -> None:
        """The stream to the GMS is gone."""
        self._arrive(connection, ControlClosed(reason))

    def _arrive(self, connection: int, event: ControlEvent) -> None:
        self._control.append((connection, event))
        self.host.handle_control()

    def is_control_open(self) -> bool:
        return self._connection is not None

    def send_control(self, frame: bytes) -> None:
        assert self._connection is not None
        self.cluster.gms.send(self._connection, frame)

    def close_control(self, reason: str, now: float) -> None:
        if self._connection is not None:
            self.cluster.gms.disconnect(self._connection)
            self._arrive(self._connection, ControlClosed(reason))

    def poll_control_event(self, now: float) -> ControlEvent | None:
        while self._control:
            connection, event = self._control.popleft()
            if connection != self._connection:
                continue
            if isinstance(event, ControlClosed):
                self._connection = None
                self._reconnect_later()
            return event
        return None

    def _reconnect_later(self) -> None:
        self.cluster.events.after(self._backoff.next_wait(), self._reconnect)
