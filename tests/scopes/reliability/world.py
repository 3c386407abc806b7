"""Nodes in a tree of recovery domains, a network that loses messages, and a manager that is
right about who is where but slow to say so.

The tree is given by hand: ``Scope("campus", "ring", [Scope("lab", "star", ["a", "b"]), "c"])``.
Nodes have real holdings and real agents; what a node sends is given to some of the others by
chance, and recovery has to do the rest. Every value that is agreed on carries a certificate
(dissertation 3.2.15), and a checker looks at each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import msgspec

from quicksilver.recovery.pacing import Timing
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.holdings import Holdings, Name, Stream
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    Event,
    PeerFound,
)
from quicksilver.scopes.posts import AgentKey, DomainId, Post, Seat, key_of_post
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.reliability.records import Kind, Own, Record
from quicksilver.scopes.reliability.repairs import Config
from quicksilver.scopes.reliability.rounds import StreamRounds, Topic
from quicksilver.scopes.routing import begin
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet

TIMING = Timing(
    interval_s=0.05,
    trouble_interval_s=0.01,
    spacing_s=0.002,
    timeout_s_min=0.1,
    timeout_s_max=0.4,
    wake_s_min=0.06,
    in_flight_max=1,
)
TOPIC = "top/news"


@dataclass
class Scope:
    """A scope, the protocol of its domain, and its members: scopes and names of nodes."""

    name: str
    protocol: str
    members: list[Scope | str]


class Certified(StreamRounds):
    """Rounds whose values say how they came about."""

    world: World

    def _certified(self, record: Record, own: Own) -> Record:
        if own.kind is not Kind.REGULAR:
            return record
        mine = own.hidden
        if self.speaks_for_node:
            mine = ["node", self.post.path[-1]]
        hidden = [*(record.hidden or []), mine]  # type: ignore[misc]  # a list, by construction
        return msgspec.structs.replace(record, hidden=hidden)

    def _merged(self, one: Record, other: Record) -> Record:
        merged = super()._merged(one, other)
        hidden = [*(one.hidden or []), *(other.hidden or [])]  # type: ignore[misc]
        return msgspec.structs.replace(merged, hidden=hidden)

    def _sealed(self, record: Record, now: float) -> object:
        domain = self.post.domain
        return ["domain", domain.scope, self.post.view, now, record.hidden or []]

    def _handle_stable(self, name: Name, stable: int, topic: Topic) -> None:
        if topic.is_waited and stable == topic.agreed:
            self.world.check_certificate(name, stable, topic.hidden)


class Recorded(Holdings):
    """Holdings that remember where streams began."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self.begun: dict[Name, int] = {}

    def begin(self, topic: str, sender: Sender, first: int) -> Stream:
        stream = super().begin(topic, sender, first)
        if not stream.is_begun:
            self.begun[Name(topic, sender)] = stream.low
        return stream

    def skip(self, topic: str, sender: Sender, first: int) -> list[Packet]:
        stream = self.find(topic, sender)
        if stream is not None and not stream.is_begun:
            self.begun[Name(topic, sender)] = max(first, stream.low)
        return super().skip(topic, sender, first)


class Node:
    """One node: what it has, and its agents."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.holdings = Recorded(64 << 20)
        self.is_late = False
        """True: it joined later, and what was stable before is not for it."""
        self.sender = Sender("top", name, 1)
        self.next: dict[str, int] = {}
        self.is_down = False
        self.is_subscribed = True
        self.frozen_until = 0.0
        self.received: dict[Name, RangeSet] = {}
        self.gaps: dict[Name, RangeSet] = {}
        self.agents = world.agents_class(
            lower=self.holdings,
            subscribes=lambda _: self.is_subscribed,
            seed=world.seed,
            timing=TIMING,
            config=world.config,
            make_rounds=world.rounds_class,
        )
        self.posts: dict[AgentKey, Post] = {}
        """As the manager has told it, or is about to."""

    def take(self, packet: Packet, now: float) -> None:
        name = Name(packet.topic, packet.sender)
        taken = self.holdings.take(packet)
        for each in taken.fresh:
            self.received.setdefault(name, RangeSet()).add(each.number, each.stop)
        self.agents.handle_arrived(*name, now)

    def publish(self, count: int, now: float, topic: str = TOPIC) -> Packet:
        first = self.next.get(topic, 0)
        self.next[topic] = first + count
        messages = tuple(f"{self.name} {n}".encode() for n in range(first, first + count))
        packet = Packet.of(
            topic, self.sender, first, first, 0, begin("top", self.name), {}, messages
        )
        self.take(packet, now)
        return packet

    def low(self, name: Name) -> int:
        stream = self.holdings.find(*name)
        return 0 if stream is None else stream.low


@dataclass
class Stable:
    """What the checker remembers of a stream."""

    mark: int = 0
    domains: dict[str, tuple[int, float]] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    """Nodes that were counted, and are waited for ever since."""


class World:
    """Everything."""

    rounds_class: type[StreamRounds]

    def __init__(
        self,
        tree: Scope,
        *,
        seed: int = 1,
        loss: float = 0.0,
        topics: Sequence[str] = (TOPIC,),
        rounds_class: type[Certified] = Certified,
        agents_class: type[Agents] = Agents,
        config: Config | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Rng(seed)
        self.loss = loss
        self.topics = tuple(topics)
        self.config = config
        self.agents_class = agents_class
        self.rounds_class = type("CertifiedHere", (rounds_class,), {"world": self})
        self.now = 0.0
        self.root = tree
        self.scopes: dict[str, Scope] = {}
        self.views: dict[str, int] = {}
        self.seats: dict[str, tuple[str, ...]] = {}
        self.nodes: dict[str, Node] = {}
        self.messages = 0
        self.bytes = 0
        self.longest = 0
        self._flight: list[tuple[float, int, str, str, bytes | Event]] = []
        self._turn = 0
        self.stable: dict[Name, Stable] = {}
        self._marks: dict[tuple[str, Name], int] = {}
        self._add(tree)
        self.arrange(delay_s=0.0)

    def _add(self, scope: Scope) -> None:
        self.scopes[scope.name] = scope
        for member in scope.members:
            if isinstance(member, Scope):
                self._add(member)
            elif member not in self.nodes:
                self.nodes[member] = Node(member, self)

    # The manager

    def way(self, member: Scope | str) -> tuple[str, ...]:
        """Return who an agent of a member is handed to, down to a node; empty: nobody is left."""
        if isinstance(member, str):
            return () if self.nodes[member].is_down else (member,)
        for each in member.members:
            way = self.way(each)
            if way:
                return (member.name, *way)
        return ()

    def arrange(self, delay_s: float = 0.05) -> None:
        """Post agents for those who are there; each node hears of it at some time."""
        wanted: dict[str, dict[AgentKey, Post]] = {name: {} for name in self.nodes}
        places: list[PeerFound] = []
        for scope in self.scopes.values():
            here = [(member, self.way(member)) for member in scope.members]
            here = [(member, way) for member, way in here if way]
            seats = tuple(
                Seat(way[0], 1 if isinstance(member, Scope) else 0, way[-1]) for member, way in here
            )
            if not seats:
                continue
            names = tuple(seat.member for seat in seats)
            if self.seats.get(scope.name) != names:
                self.seats[scope.name] = names
                self.views[scope.name] = self.views.get(scope.name, 0) + 1
            domain = DomainId(scope.name, 1)
            for _, way in here:
                post = Post(
                    domain,
                    self.views[scope.name],
                    scope.protocol,
                    way,
                    seats,
                    self.topics,
                    scope is self.root,
                )
                wanted[way[-1]][key_of_post(post)] = post
                places.append(PeerFound(domain, way[0], Link("tcp", way[-1], way[-1])))
        for name, node in self.nodes.items():
            if node.is_down:
                continue
            delay = delay_s * self.rng.uniform()
            for key in [key for key in node.posts if key not in wanted[name]]:
                del node.posts[key]
                self._schedule(delay, "", name, AgentWithdrawn(*key))
            domains = {key.domain for key in wanted[name]}
            for place in places:
                if place.domain in domains:
                    self._schedule(delay, "", name, place)
            for key, post in wanted[name].items():
                if node.posts.get(key) != post:
                    node.posts[key] = post
                    self._schedule(delay, "", name, AgentPosted(post))

    def crash(self, *names: str, detect_s: float = 0.3) -> None:
        """Nodes stop; the manager finds out later."""
        for name in names:
            self.nodes[name].is_down = True
        self._schedule(detect_s, "", "", AgentWithdrawn(DomainId("", 0), ""))

    def join(self, scope: str, *names: str) -> None:
        for name in names:
            self.nodes.setdefault(name, Node(name, self)).is_late = True
            self.scopes[scope].members.append(name)
        self.arrange()

    def leave(self, scope: str, name: str) -> None:
        """The manager takes a node out, which goes on running."""
        self.scopes[scope].members.remove(name)
        self.arrange()

    # The network

    def _schedule(self, delay_s: float, origin: str, to: str, what: bytes | Event) -> None:
        self._turn += 1
        heappush(self._flight, (self.now + delay_s, self._turn, origin, to, what))  # type: ignore[misc]

    def publish(self, name: str, count: int, *, reach: float = 0.7, topic: str = TOPIC) -> None:
        """A node sends messages; each other node gets them with some probability."""
        packet = self.nodes[name].publish(count, self.now, topic)
        for node in self.nodes.values():
            if node.name != name and not node.is_down and self.rng.uniform() < reach:
                node.take(packet, self.now)
        self._pump(self.alive())

    def run(self, seconds: float) -> None:
        """Let time pass; a node is asked when something came for it, or its time has come."""
        end = self.now + seconds
        due = {name: node.agents.next_timeout() for name, node in self.nodes.items()}
        stirred = set(self.nodes)
        while True:
            alive = self.alive()
            times = [max(t, n.frozen_until) for n in alive if (t := due[n.name]) is not None]
            times += [at for at, *_ in self._flight[:1]]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            while self._flight and self._flight[0][0] <= self.now:
                _, _, origin, to, what = heappop(self._flight)
                self._arrive(origin, to, what)
                stirred.add(to)
            stirred |= {name for name, at in due.items() if at is not None and at <= self.now}
            awake = [n for n in alive if n.name in stirred and n.frozen_until <= self.now]
            for node in awake:
                node.agents.handle_timeout(self.now)
            self._pump(awake)
            for node in awake:
                due[node.name] = node.agents.next_timeout()
                stirred.discard(node.name)
        self.now = end

    def _arrive(self, origin: str, to: str, what: bytes | Event) -> None:
        if not to:
            self.arrange()
            return
        node = self.nodes[to]
        if node.is_down:
            return
        if node.frozen_until > self.now:
            self._schedule(node.frozen_until - self.now, origin, to, what)
        elif isinstance(what, bytes):
            node.agents.handle_message(origin, what, self.now)
        else:
            node.agents.handle_event(what, self.now)

    def _pump(self, nodes: list[Node]) -> None:
        """Take what nodes have to say."""
        for node in nodes:
            if node.frozen_until > self.now:
                continue
            while (repair := node.agents.poll_repair()) is not None:
                if not node.holdings.take_fetched(repair[1]):
                    node.take(repair[1], self.now)
            while (given_up := node.agents.poll_given_up()) is not None:
                topic, sender, mark = given_up
                name = Name(topic, sender)
                for each in node.holdings.pass_over(topic, sender, mark):
                    if isinstance(each, Gap):
                        node.gaps.setdefault(name, RangeSet()).add(each.first, each.last + 1)
                node.agents.handle_arrived(topic, sender, self.now)
            while (begun := node.agents.poll_begun()) is not None:
                node.holdings.skip(*begun)
            while (stable := node.agents.poll_stable()) is not None:
                self._check_mark(node, *stable)
            while (out := node.agents.poll_message()) is not None:
                where, data = out
                assert isinstance(where, Link)
                self.messages += 1
                self.bytes += len(data)
                self.longest = max(self.longest, len(data))
                if self.rng.uniform() >= self.loss:
                    self._schedule(0.001 + 0.003 * self.rng.uniform(), node.name, where.node, data)

    # What must hold

    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node.is_down]

    def members(self) -> list[Node]:
        """Return the nodes that are there and that the manager counts."""
        found: list[Node] = []

        def walk(scope: Scope) -> None:
            for member in scope.members:
                if isinstance(member, Scope):
                    walk(member)
                elif not self.nodes[member].is_down:
                    found.append(self.nodes[member])

        walk(self.root)
        return found

    def _check_mark(self, node: Node, topic: str, sender: Sender, mark: int) -> None:
        """What is stable never goes back, at any node."""
        key = node.name, Name(topic, sender)
        assert mark >= self._marks.get(key, 0), f"at {node.name} stable went back to {mark}"
        self._marks[key] = mark

    def check_certificate(self, name: Name, mark: int, certificate: object) -> None:
        """Everybody that a value was computed over has it; nobody that was counted before is
        forgotten; and of no domain an older state is used than before."""
        known = self.stable.setdefault(name, Stable())
        domains: dict[str, tuple[int, float]] = {}
        nodes: set[str] = set()
        _read(certificate, domains, nodes)
        members = {node.name for node in self.members()}
        # A leader that crashed as it found out took what it found with it.
        told = max(self.nodes[each].agents.state.stable(name) for each in members)
        assert mark >= told, f"{name} was stable up to {told}, now {mark}"
        for domain, at in domains.items():
            before = known.domains.get(domain)
            assert before is None or before <= at, f"{domain} went back from {before} to {at}"
        for each in sorted((nodes | known.nodes) & members):
            node = self.nodes[each]
            if node.is_subscribed:
                low = node.low(name)
                assert low >= mark, f"{name.sender.node} up to {mark} is stable, {each} has {low}"
        known.mark, known.nodes = max(mark, known.mark), (nodes | known.nodes) & members
        known.domains.update(domains)

    def names(self) -> list[Name]:
        found: dict[Name, None] = {}
        for node in self.nodes.values():
            found.update(dict.fromkeys(node.holdings.streams))
        return list(found)

    def check_everybody_has_all(self) -> None:
        """P(X) of 3.2.9: what one surviving node has all get, and only what nobody has is lost."""
        for name in self.names():
            held = RangeSet()
            for node in self.members():
                held = held.union(node.received.get(name, RangeSet()))
            for node in self.members():
                has = node.received.get(name, RangeSet())
                stream = node.holdings.find(*name)
                begun = node.holdings.begun.get(name, 0)
                if stream is None and node.is_late:
                    # All of it was stable, and nobody spoke of it any more.
                    begun = self.stable[name].mark
                assert begun <= (self.stable[name].mark if node.is_late else 0), "began too late"
                lacks = held.difference(has).clamped(begun, _high(held))
                assert not lacks, f"{node.name} lacks {lacks} of {name.sender.node}"
                lost = node.gaps.get(name, RangeSet()).intersection(held)
                assert not lost, f"{node.name} was told that {lost} are lost"
                assert stream is None or not stream.missing(_high(held))

    def check_all_is_stable(self) -> None:
        for name in self.names():
            for node in self.members():
                stream = node.holdings.find(*name)
                if stream is not None:  # else there is nothing of it for this node
                    told = f"{node.name}: {stream.stable} of {stream.high} of {name}"
                    assert stream.stable == stream.high, told


def _high(ranges: RangeSet) -> int:
    return ranges.last() + 1 if ranges else 0


def _read(certificate: object, domains: dict[str, tuple[int, float]], nodes: set[str]) -> None:
    match certificate:
        case ["node", str(name)]:
            nodes.add(name)
        case ["domain", str(scope), int(view), float(at), [*members]]:
            domains[scope] = (view, at)
            for member in members:
                _read(member, domains, nodes)
        case _:
            raise AssertionError(f"no certificate: {certificate!r}")
