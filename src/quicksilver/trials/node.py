"""A node of a simulated cluster: a real engine, a simulated host, an application."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
)
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.engine import Engine
from quicksilver.sim.host import SimHost
from quicksilver.sim.model import HostModel
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import GroupId
from quicksilver.wire.packets import Messages

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster

RECONNECT_S = 0.1


class SimNode:
    """One life of one node: made by a start, ended by a crash.

    The application side follows ``node.core``: a message counts as delivered
    when this node was in its group's view as the message was committed.
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
        """The same, with what was handed to a process that has not run yet."""
        self.delivered: Counter[int] = Counter()
        """How many messages its application was given, by group identifier."""
        self.unwanted = 0
        """Messages of groups that it had not joined, dropped."""
        self.exclusions = 0
        self.joined: set[str] = set()
        """Groups that its application is in."""
        self.opened: set[str] = set()
        self.ready: set[str] = set()
        """Groups whose subscription is complete: what is sent from now on arrives."""
        self.member_since: dict[int, int] = {}
        """Groups that it is in, and the batch in which it came."""
        self.started_at = cluster.now
        self.engine = cluster.make_engine(
            name=f"n{index}.{life}",
            address=self.address,
            config=config,
            upcalls=self,
            seed=rng.bits64(),
            tracer=cluster.tracer,
        )
        self.host = SimHost(
            cluster.events,
            cluster.network,
            self.engine,
            index=index,
            address=self.address,
            model=model,
            rng=rng,
            send_control=self._send_control,
            on_drops=self._note_drops,
            memory=self.memory_bytes,
            shared_cpu=cluster.shared_cpu,
        )
        self._connection: int | None = None
        self._latest_connection = 0
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

    def memory_bytes(self) -> int:
        """Bytes of packets that the process holds: sent, kept for others, early."""
        engine = self.engine
        return engine.outgoing.pending_bytes() + engine.cache_budget.used + engine.ahead_budget.used

    # Application verbs

    def join(self, *groups: str) -> None:
        self.joined.update(groups)
        self.host.submit(lambda: self._subscribe(join=groups))

    def leave(self, *groups: str) -> None:
        self.joined.difference_update(groups)
        for group in groups:
            if group not in self.opened:
                self.ready.discard(group)
        self.cluster.tell("on_left", self, groups)
        self.host.submit(lambda: self._unsubscribe(groups))

    def open(self, *groups: str) -> None:
        self.opened.update(groups)
        self.host.submit(lambda: self._subscribe(open_=groups))

    def _subscribe(self, **changes: tuple[str, ...]) -> None:
        self.engine.subscribe(**changes)

    def _unsubscribe(self, groups: tuple[str, ...]) -> None:
        self.engine.subscribe(leave=groups)
        for group in groups:
            if group not in self.joined and group not in self.opened:
                self.engine.outgoing.forget_sender(group)

    def send(self, group: str, *payloads: bytes) -> None:
        """Queue messages, as an application thread does."""
        self.host.submit(lambda: self._put(group, payloads))

    def _put(self, group: str, payloads: tuple[bytes, ...]) -> None:
        outgoing = self.engine.outgoing
        sender = outgoing.sender_for(group)
        outgoing.refresh_lanes()
        first = self.sent[group]
        self.sent[group] = first + len(payloads)
        self.cluster.tell("on_sent", self, group, first, payloads)
        lane = sender.lane
        for payload in payloads:
            lane.outbox.put(sender, payload)
            lane.room -= len(payload)
        self.host.charge_sent(len(payloads))

    def send_from(self, group: str, source: Callable[[], bytes | None]) -> None:
        """Be asked for the next message whenever there is room for it."""

        def ask() -> bytes | None:
            payload = source()
            if payload is not None:
                first = self.sent[group]
                self.sent[group] = first + 1
                self.cluster.tell("on_sent", self, group, first, (payload,))
                self.host.charge_sent(1)
            return payload

        def install() -> None:
            outgoing = self.engine.outgoing
            sender = outgoing.sender_for(group)
            outgoing.refresh_lanes()
            outgoing.add_source(sender, ask)

        self.host.submit(install)

    def goodbye(self) -> None:
        """Leave the cluster politely."""
        self.host.submit(self.engine.goodbye)

    # Life

    def crash(self) -> None:
        """The process dies and loses its state."""
        if self.is_dead:
            return
        self.host.kill()
        if self._connection is not None:
            self.cluster.gms.disconnect(self._connection)
            self._connection = None
        self.cluster.tell("on_crashed", self)

    def freeze(self, seconds: float) -> None:
        self.host.freeze(seconds)

    # Upcalls

    def on_messages(self, messages: Messages) -> None:
        group = messages.group
        cluster = self.cluster
        if group is not None:
            count = len(messages.payloads)
            if not self._is_wanted(group, messages.batch):
                self.unwanted += count
                return
            self.delivered[group] += count
            self.host.charge_delivered(count)
            if cluster.watchers:
                for number, payload in enumerate(messages.payloads, messages.first):
                    cluster.tell(
                        "on_delivered",
                        self,
                        group,
                        messages.sender,
                        number,
                        payload,
                        messages.batch,
                    )
            return
        rows = zip(messages.groups, messages.sequences, messages.payloads, strict=True)
        for each, number, payload in rows:
            if not self._is_wanted(each, messages.batch):
                self.unwanted += 1
                continue
            self.delivered[each] += 1
            self.host.charge_delivered(1)
            if cluster.is_told:
                cluster.tell(
                    "on_delivered", self, each, messages.sender, number, payload, messages.batch
                )

    def on_event(self, event: ClientEvent) -> None:
        if isinstance(event, ViewsChanged):
            for view in event.groups:
                self._note_view(view.id)
                self.cluster.name_group(view.id, view.name)
            for group in event.groups_gone:
                self.member_since.pop(group, None)
        elif isinstance(event, SubscriptionCompleted):
            for name, group in event.groups.items():
                self.cluster.name_group(group, name)
                if name in self.joined or name in self.opened:
                    self.ready.add(name)
                    self.engine.outgoing.sender_for(name)
            self.engine.outgoing.refresh_lanes()
        elif isinstance(event, WasExcluded):
            self.exclusions += 1
            self.member_since.clear()
            self.ready.clear()
        self.cluster.tell("on_event", self, event)

    def _note_view(self, group: int) -> None:
        view = self.engine.client.directory.groups.get(GroupId(group))
        if view is not None and self.engine.node in view.members:
            self.member_since.setdefault(group, self.engine.batch)
        else:
            self.member_since.pop(group, None)

    def _is_wanted(self, group: int, batch: int) -> bool:
        """Whether this node was in the group when the message was committed."""
        if group not in self.member_since:
            self._note_view(group)
        return batch >= self.member_since.get(group, 1 << 62)

    # The stream to the GMS

    def _reconnect(self) -> None:
        if self.is_dead or self._connection is not None:
            return
        number = self.cluster.gms.connect(self)
        if number is None:
            self.cluster.events.after(RECONNECT_S, self._reconnect)
            return
        self._connection = number
        self.host.submit(lambda: self.engine.handle_control_opened(self.host.clock()))

    def _send_control(self, frame: bytes) -> bool:
        return self._connection is not None and self.cluster.gms.send(self._connection, frame)

    def handle_frame(self, connection: int, frame: bytes) -> None:
        """A frame of the GMS has arrived."""

        def take() -> None:
            if self._connection == connection:
                self.engine.handle_control_frame(frame, self.host.clock())

        self.host.submit(take)

    def handle_closed(self, connection: int, reason: str) -> None:
        """The stream to the GMS is gone."""

        def take() -> None:
            if self._connection != connection:
                return
            self._connection = None
            self.engine.handle_control_closed(reason, self.host.clock())
            self.cluster.events.after(RECONNECT_S, self._reconnect)

        self.host.submit(take)

    def _note_drops(self, drops: int) -> None:
        self.engine.kernel_drops = drops


EngineMaker = Callable[..., Engine]
