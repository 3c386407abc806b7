"""A node of a scope as the engine's trials see one: the verbs and counts of their nodes."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.scopes.dissemination.packets import Gap, Packet
from quicksilver.scopes.gateway.forms import ENVELOPED
from quicksilver.scopes.management.events import SessionInstalled, TopicFailed, TopicLeft
from quicksilver.scopes.node_parts import NodeEvent, WindowOpened
from quicksilver.sim.weather import Weather
from quicksilver.trials.as_scopes.plan import SCOPE, topic_of
from quicksilver.trials.payloads import envelope_for, has_envelope
from quicksilver.trials.scopes.cluster import SETTLED_S, NodeLife
from quicksilver.wire.envelope import encode_enveloped, parse_enveloped

if TYPE_CHECKING:
    from quicksilver.trials.as_scopes.cluster import TwinCluster

NEVER = float("inf")

INFORMED_S = 3.0
"""So long after a manager reaches a node again it has told it who is in its topics: connections
that were lost are noticed, and made again."""


class TwinHost:
    """The process of a node, as far as faults have to do with it."""

    def __init__(self, life: NodeLife) -> None:
        self._life = life

    @property
    def weather(self) -> Weather:
        return self._life.host.weather

    def set_slowness(self, factor: float) -> None:
        """Nothing: see ``plan.FAULTS_LEFT_OUT``."""

    def thaw(self) -> None:
        self._life.host.thaw()


class _Unused:
    """A part of the application that scopes have no use for."""

    def start(self) -> None:
        pass


class TwinNode:
    """One life of one node."""

    def __init__(self, cluster: TwinCluster, index: int, life: NodeLife, number: int) -> None:
        """``number`` stands for this life where the engine would have an identifier."""
        self.cluster = cluster
        self.index = index
        self.life = life.life - 1
        self.id = number
        self.scoped = life
        self.host = TwinHost(life)
        self.joined: set[str] = set()
        self.opened: set[str] = set()
        self.ready: set[str] = set()
        """Groups whose root knows of this node: so long does ``join`` wait."""
        self.sent: defaultdict[str, int] = defaultdict(int)
        self.planned: defaultdict[str, int] = defaultdict(int)
        self.delivered: Counter[int] = Counter()
        self.exclusions = 0
        self.member_since: dict[int, int] = {}
        """By group: its stay, from one join to the next leave or gap that it was told of."""
        self.values = self.asking = _Unused()
        self._stays = 0
        self._rooted: set[str] = set()
        self._outbox: defaultdict[str, deque[bytes]] = defaultdict(deque)
        """What there was no room to publish yet."""
        self.flushes: dict[int, tuple[dict[str, int], Callable[[], None]]] = {}
        """Up to which number messages have to be everywhere."""
        self._flush_number = 0
        self._told_since = cluster.now
        life.informed_at = cluster.now

    def __repr__(self) -> str:
        return f"node {self.index}.{self.life}"

    @property
    def is_dead(self) -> bool:
        return self.scoped.host.is_dead

    # Application verbs

    def join(self, *groups: str) -> None:
        self.joined.update(groups)
        self._change(groups)

    def open(self, *groups: str) -> None:
        self.opened.update(groups)
        self._change(groups)

    def leave(self, *groups: str) -> None:
        self.joined.difference_update(groups)
        self.ready.difference_update(set(groups) - self.opened)
        self._change(groups)

    def send(self, group: str, *payloads: bytes) -> None:
        def put() -> None:
            self._outbox[group].extend(payloads)
            self._publish(group)

        self.scoped.host.do(put)

    def flush(self, done: Callable[[], None]) -> None:
        """Call back when all that was sent is on every member."""

        def begin() -> None:
            self._flush_number += 1
            goals = {
                group: self.sent[group] + len(self._outbox[group])
                for group in sorted(self.joined | self.opened)
            }
            self.flushes[self._flush_number] = goals, done

        self.scoped.host.do(begin)

    def freeze(self, seconds: float) -> None:
        self.scoped.is_disturbed = True
        self.scoped.host.freeze(seconds)

    def crash(self) -> None:
        if not self.is_dead:
            self.scoped.host.kill()
            self.cluster.watching.on_crashed(self.cluster.as_sim_node(self))

    # In the process

    def _change(self, groups: tuple[str, ...]) -> None:
        def change() -> None:
            for group in groups:
                self._want(group)

        self.scoped.host.do(change)

    def _want(self, group: str) -> None:
        life, topic = self.scoped, topic_of(group)
        is_joined = group in self.joined
        if is_joined and topic not in life.joined:
            life.joined.add(topic)
            life.stays[topic] = life.stays.get(topic, 0) + 1
            life.settled_at[topic] = NEVER
            self._begin_stay(group)
        elif not is_joined and topic in life.joined:
            life.joined.discard(topic)
            life.settled_at.pop(topic, None)
            life.machine.forget_topic(topic)
            self.member_since.pop(self.cluster.group_id(group), None)
            self.cluster.watching.on_left(self.cluster.as_sim_node(self), (group,))
        publishes = is_joined or group in self.opened
        if not publishes:
            for goals, _ in self.flushes.values():
                goals.pop(group, None)  # Whoever leaves waits for nobody.
        life.node.want(topic, publishes=publishes, subscribes=is_joined, now=self.cluster.now)
        if publishes and topic in self._rooted:
            self.ready.add(group)
            self._publish(group)

    def _begin_stay(self, group: str) -> None:
        self._stays += 1
        self.member_since[self.cluster.group_id(group)] = self._stays

    def _publish(self, group: str) -> None:
        """Publish what waits, as far as there is room."""
        topic, outbox = topic_of(group), self._outbox[group]
        every = self.cluster.features.enveloped_every
        while outbox and group in self.joined | self.opened:
            if not self.scoped.node.may_publish(topic):
                return
            payload = outbox.popleft()
            first = self.sent[group]
            self.sent[group] = first + 1
            self.cluster.watching.on_sent(self.cluster.as_sim_node(self), group, first, (payload,))
            if has_envelope(first, every):
                message = encode_enveloped(envelope_for(payload), payload)
                self.cluster.scopes.put(self.scoped, topic, [message], ENVELOPED)
            else:
                self.cluster.scopes.put(self.scoped, topic, [payload])

    # What the node delivers and tells

    def handle_packet(self, packet: Packet) -> None:
        cluster = self.cluster
        node = cluster.as_sim_node(self)
        group = cluster.group_id(packet.topic.removeprefix(f"{SCOPE}/"))
        payloads = list(packet.bundle.split())
        if packet.attributes.items() >= ENVELOPED.items():
            opened = [parse_enveloped(message) for message in payloads]
            good = [each for each in opened if each is not None]
            payloads = [payload for _, payload in good]
            cluster.watching.on_envelopes(node, [envelope for envelope, _ in good], payloads)
        self.delivered[group] += len(payloads)
        sender = cluster.number_of(packet.sender)
        for number, payload in enumerate(payloads, packet.number):
            cluster.watching.on_delivered(node, group, sender, number, payload, 0)

    def handle_gap(self, gap: Gap) -> None:
        """What it was told of is no hole."""
        group = gap.topic.removeprefix(f"{SCOPE}/")
        if group in self.joined:
            self._begin_stay(group)

    def handle_event(self, event: NodeEvent) -> None:
        match event:
            case SessionInstalled(topic):
                self._rooted.add(topic)
                group = topic.removeprefix(f"{SCOPE}/")
                if group in self.joined | self.opened:
                    self.ready.add(group)
                    self._publish(group)
            case TopicLeft(topic) | TopicFailed(topic):
                self._rooted.discard(topic)
            case WindowOpened(topic):
                self._publish(topic.removeprefix(f"{SCOPE}/"))
            case _:
                pass

    def look(self, *, is_told: bool) -> None:
        """Note in which topics it has to get everything from soon on, and which flushes are over.

        A join counts from when the manager knows of it: it may be away. Whoever was counted out
        is owed what is sent from when it is counted again, as with the engine. ``is_told``: whether
        the manager reaches this node; if not, messages go to those whom it knows of.
        """
        life, now = self.scoped, self.cluster.now
        if not is_told:
            self._told_since = NEVER
        elif self._told_since == NEVER:
            self._told_since = now
        if now >= self._told_since + INFORMED_S:
            life.informed_at = None
        elif life.informed_at is None:
            life.informed_at = now
        for topic, since in life.settled_at.items():
            is_member = self.cluster.is_member(life, topic)
            if since == NEVER and is_member:
                life.settled_at[topic] = now + SETTLED_S
            elif is_member is False and life.is_disturbed:
                life.settled_at[topic] = NEVER
        for number, (goals, done) in list(self.flushes.items()):
            stable = (life.node.promised.is_stable(topic_of(g), goal) for g, goal in goals.items())
            if not life.host.is_frozen and all(stable):
                del self.flushes[number]
                self.cluster.handle_flushed(self, goals)
                done()
