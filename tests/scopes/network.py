"""Scope managers and nodes that talk through lists instead of sockets, in virtual time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Packet
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    Event,
    MechanismClosed,
    MechanismOpened,
    PeerFound,
    PeerLost,
    SourceClosed,
    SourceOpened,
)
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.node_parts import MakeAgents, WindowOpened, make_agents
from quicksilver.scopes.posts import AgentKey, Post, key_of_post
from quicksilver.scopes.routing import Channel
from quicksilver.scopes.sessions.multiplexer import KeyMissing

DELAY_S = 0.001


class Network:
    """Managers by name; what they say to each other is counted, and logged on request.

    Names are addresses, and whoever is not a node is driven as a bare manager.
    """

    def __init__(self, copies_bytes_max: int = 1 << 20, **settings: float) -> None:
        self.now = 0.0
        self.copies_bytes_max = copies_bytes_max
        self.managers: dict[str, ScopeManager] = {}
        """Those of nodes too. Whoever puts another one in a node's place mutes the node."""
        self.nodes: dict[str, ScopeNode] = {}
        self.events: dict[str, list[Event]] = {}
        self.sources: dict[str, dict[Channel, None]] = {}
        """Channels that are open at each node, by its name."""
        self.saved: dict[str, dict[str, bytes]] = {}
        """What managers have on disk, by name."""
        self.addresses: dict[str, str] = {}
        """Who listens where."""
        self.agents: dict[str, dict[AgentKey, Post]] = {}
        """What each node hosts …"""
        self.peers: dict[str, dict[AgentKey, str]] = {}
        """… and at which nodes it has found other agents."""
        self.log: list[str] = []
        self.said: Counter[tuple[str, str]] = Counter()
        """How many messages but signs of life went from one manager to another."""
        self.frames: Counter[tuple[str, str]] = Counter()
        """How many frames went over links from one node to another."""
        self.got: dict[str, list[tuple[str, int]]] = {}
        """Messages that nodes were given: who sent them, and their numbers."""
        self.missing_keys: dict[str, list[KeyMissing]] = {}
        """What nodes have said of keys that they do not have."""
        self.hears: dict[str, set[External]] = {}
        """Mechanisms that nodes listen to."""
        self.is_lost: Callable[[str, bytes], bool] = lambda name, data: False
        """Whether a datagram does not reach a node."""
        self._config = Config(**settings)
        self._owners: dict[str, tuple[str, ...]] = {}
        self._hidden: set[str] = set()
        """Scopes that cannot be dialled from outside of them."""
        self._conns = 0
        self._ends: dict[int, tuple[str, int]] = {}
        """The other end of each connection: whose it is, and its number there."""
        self._queue: deque[tuple[int, bytes | None]] = deque()
        """What is said, in order; None: a connection ends."""

    @property
    def forwarders(self) -> dict[str, Forwarder]:
        return {name: node.forwarder for name, node in self.nodes.items()}

    def add(
        self,
        name: str,
        *owners: str,
        policy: str = "star",
        recovery: str = "none",
        is_node: bool = False,
        is_dialable: bool = True,
        starts: int = 1,
        address: str = "",
        protocol: str = "tcp",
        make_agents: MakeAgents = make_agents,
        **settings: str,
    ) -> ScopeManager:
        """Start a manager, or start it again with its records; its address is its name."""
        config = replace(self._config, **settings)  # type: ignore[arg-type]  # of that name
        self.addresses[address or name] = name
        self._owners[name] = owners
        at = address or name
        if not is_dialable:
            self._hidden.add(name)
        if is_node:
            node = ScopeNode(
                name=name,
                address=at,
                is_dialable=is_dialable,
                owners=owners,
                life=starts,
                now=self.now,
                scope=owners[0] if owners else name,
                place=Link(protocol, name, name),
                config=config,
                copies_bytes_max=self.copies_bytes_max,
                make_agents=make_agents,
            )
            manager = node.manager
            self.nodes[name] = node
            self.got[name] = []
            self.hears[name] = set()
        else:
            manager = ScopeManager(
                name=name,
                address=at,
                is_dialable=is_dialable,
                owners=owners,
                policy_of=lambda _: parse_policy(policy),
                recovery_of=lambda _: recovery,
                place=None,
                config=replace(config, grace_s=20.0),
                saved=self.saved.setdefault(name, {}),
                now=self.now,
            )
        self.managers[name] = manager
        self.agents[name] = {}
        self.peers[name] = {}
        self.events.setdefault(name, [])
        self.sources[name] = {}
        self.settle()
        return manager

    def attach(self, name: str, address: str, conn: int, first: say.Message) -> None:
        """Let somebody connect to a manager by hand, with a first message."""
        theirs = conn + 1
        self._ends[conn] = (address, theirs)
        self._ends[theirs] = (name, conn)
        self._driven(address).handle_accepted(theirs, self.now)
        self.tell(conn, first)

    def tell(self, conn: int, message: say.Message) -> None:
        """Say something on a connection that was made by hand."""
        self._queue.append((conn, say.encode(message)))
        self.settle()

    def kill(self, name: str) -> None:
        """End a manager or a node; its connections break."""
        del self.managers[name]
        self.nodes.pop(name, None)
        self.sources.pop(name, None)
        self.hears.pop(name, None)
        for theirs in [conn for conn, (owner, _) in self._ends.items() if owner == name]:
            # ``theirs`` is the number at the peer of an end that is at ``name``.
            self.cut(theirs)
        self.settle()

    def hang(self, name: str) -> None:
        """A node or manager stops; its connections stay."""
        self.managers[name] = _Hung()  # type: ignore[assignment]  # enough of a manager

    def cut(self, conn: int) -> None:
        """A connection breaks, and both ends that are there notice."""
        peer, theirs = self._ends.pop(conn)
        owner, _ = self._ends.pop(theirs)
        for name, end in ((owner, conn), (peer, theirs)):
            if name in self.managers:
                self._driven(name).handle_closed(end, self.now)

    def conns(self, one: str, other: str) -> list[int]:
        """Return the connections between two, as the first numbers them."""
        return [
            conn
            for conn, (peer, theirs) in self._ends.items()
            if peer == other and self._ends[theirs][0] == one
        ]

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            self.settle()
            due = [t for name in self.managers if (t := self._driven(name).next_timeout())]
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            for name in list(self.managers):
                self._driven(name).handle_timeout(self.now)
        self.now = end

    def settle(self) -> None:
        """Deliver until nobody has anything to say."""
        for _ in range(100_000):
            if not self._step():
                return
        raise AssertionError("managers never stop talking")

    def _driven(self, name: str) -> ScopeNode | ScopeManager:
        """Return the machine that stands for a name."""
        node, manager = self.nodes.get(name), self.managers[name]
        return node if node is not None and node.manager is manager else manager

    def _step(self) -> bool:
        is_busy = False
        for name in list(self.managers):
            is_busy |= self._take_from(name)
        while self._queue:
            is_busy = True
            conn, data = self._queue.popleft()
            if conn not in self._ends:
                continue
            peer, theirs = self._ends[conn]
            if data is None:
                del self._ends[conn], self._ends[theirs]
                self._driven(peer).handle_closed(theirs, self.now)
            else:
                self._deliver(conn, data)
        return is_busy

    def _take_from(self, name: str) -> bool:
        machine = self._driven(name)
        while isinstance(machine, ScopeManager) and (saved := machine.poll_saved()) is not None:
            if saved.value is None:
                del self.saved[name][saved.name]
            else:
                self.saved[name][saved.name] = saved.value
        is_busy = self._take_dials(name)
        while (out := machine.poll_transmit()) is not None:
            is_busy = True
            conn, said = out
            self._queue.append((conn, said if isinstance(said, bytes) else say.encode(said)))
        while (closing := machine.poll_close()) is not None:
            is_busy = True
            self._queue.append((closing, None))
        is_busy |= self._take_dials(name)  # Frames of agents have asked for some.
        if isinstance(machine, ScopeNode):
            while (datagram := machine.poll_datagram()) is not None:
                is_busy = True
                self._throw(name, *datagram)
            while (delivery := machine.poll_delivery()) is not None:
                if isinstance(delivery, Packet):
                    for number in range(delivery.number, delivery.stop):
                        self.got[name].append((delivery.sender.node, number))
        while (event := machine.poll_event()) is not None:
            if isinstance(event, KeyMissing):
                self.missing_keys.setdefault(name, []).append(event)
            elif not isinstance(event, WindowOpened):
                self._note(name, event)
        return is_busy

    def _take_dials(self, name: str) -> bool:
        machine = self._driven(name)
        is_busy = False
        while (dial := machine.poll_dial()) is not None:
            is_busy = True
            self._dial(name, dial if isinstance(dial, str) else dial.address, dial)
        return is_busy

    def _deliver(self, conn: int, data: bytes) -> None:
        """A frame arrives."""
        peer, theirs = self._ends[conn]
        sender = self._ends[theirs][0]
        message = say.parse(data)
        if message is None:
            self.frames[sender, peer] += 1
        else:
            assert say.encode(message) == data
            if not isinstance(message, say.Alive):
                self.said[sender, peer] += 1
            if not isinstance(message, say.Alive | say.Confirm | say.PostsTold):
                self.log.append(f"{sender} to {peer}: {describe(message)}")
        source = self._driven(sender) if sender in self.managers else None
        if isinstance(source, ScopeNode):
            source.handle_sent(conn, len(data), self.now)
        target = self._driven(peer)
        if isinstance(target, ScopeNode):
            target.handle_frame(theirs, data, self.now)
        elif message is None:
            assert peer in self.nodes, "frames of links go to nodes"
        else:
            target.handle_message(theirs, message, self.now)

    def _throw(self, name: str, where: Link | External, data: bytes) -> None:
        """A datagram is sent to a node, or to all who listen to a mechanism."""
        for peer, node in self.nodes.items():
            if self._driven(peer) is not node:
                continue
            is_for = (
                where in self.hears[peer] if isinstance(where, External) else (peer == where.node)
            )
            if is_for and not self.is_lost(peer, data):
                node.handle_datagram(data, self.now)

    def _dial(self, name: str, address: str, dial: object) -> None:
        machine = self._driven(name)
        ours: int | None = None
        there = self.addresses.get(address, "")
        # What is hidden can be dialled from inside.
        around = {scope for scope in self._hidden if self._is_inside(there, scope)}
        is_open = all(self._is_inside(name, scope) for scope in around)
        if there in self.managers and is_open:
            ours, theirs = self._conns + 1, self._conns + 2
            self._conns += 2
            self._ends[ours] = (there, theirs)
            self._ends[theirs] = (name, ours)
            self._driven(there).handle_accepted(theirs, self.now)
        machine.handle_dialled(dial, ours, self.now)  # type: ignore[arg-type]  # its own dial

    def _is_inside(self, name: str, scope: str) -> bool:
        owners = self._owners.get(name, ())
        return name == scope or any(self._is_inside(each, scope) for each in owners)

    def _note(self, name: str, event: Event) -> None:
        self.events[name].append(event)
        match event:
            case AgentPosted(post):
                self.agents[name][key_of_post(post)] = post
            case AgentWithdrawn(domain, member):
                del self.agents[name][AgentKey(domain, member)]
            case PeerFound(domain, member, where):
                self.peers[name][AgentKey(domain, member)] = where.node
            case PeerLost(domain, member):
                del self.peers[name][AgentKey(domain, member)]
        if isinstance(event, SourceOpened):
            self.sources[name][event.channel] = None
        elif isinstance(event, SourceClosed):
            self.sources[name].pop(event.channel, None)
        elif isinstance(event, MechanismOpened):
            self.hears[name].add(event.where)
        elif isinstance(event, MechanismClosed):
            self.hears[name].clear()

    def want(self, node: str, topic: str, what: str) -> None:
        """Let a node want something of a topic: p, to publish; s, to subscribe."""
        self.nodes[node].want(topic, publishes="p" in what, subscribes="s" in what, now=self.now)

    def publish(self, node: str, topic: str) -> Counter[str]:
        """Let a node send a message; return how often others have got it when all is quiet."""
        number = self.forwarders[node].publish(topic, [b"x"], None, self.now)
        self.settle()
        return Counter(
            name for name, got in self.got.items() for each in got if each == (node, number)
        )


class _Hung:
    """Takes everything and does nothing."""

    address = "nowhere"

    def handle_accepted(self, *_: object) -> None: ...

    def handle_message(self, *_: object) -> None: ...

    def handle_closed(self, *_: object) -> None: ...

    def handle_timeout(self, *_: object) -> None: ...

    def poll_transmit(self) -> None: ...

    def poll_close(self) -> None: ...

    def poll_dial(self) -> None: ...

    def poll_event(self) -> None: ...

    def next_timeout(self) -> None: ...


def describe(message: say.Message) -> str:
    """Return a message as a line of a transcript."""
    match message:
        case say.Register(_, name):
            return f"register {name}"
        case say.Registered():
            return "registered"
        case say.Subscribe(topic, _, publishes, subscribes):
            what = [w for w, on in (("publisher", publishes), ("subscriber", subscribes)) if on]
            return f"{' and '.join(what) or 'nothing'} in {topic}"
        case say.PostAgent(post):
            seats = " ".join(seat.member for seat in post.seats)
            return f"host {':'.join(post.path)} among {seats}"
        case say.ReviseAgent(_, member, _, _, gone, come):
            new = " ".join(seat.member for seat in come)
            return f"{member} is among {new} and not {' '.join(gone)}"
        case say.WithdrawAgent(_, member):
            return f"do not host {member}"
        case say.Orders(_, sources, targets):
            send = ", ".join(f"send {source.channel}" for source in sources)
            take = ", ".join(f"take {target.channel}" for target in targets)
            return " and ".join(filter(None, (send, take))) or "do nothing"
        case say.RequestChannel(channel):
            return f"request {channel}"
        case say.OfferChannel(channel, say.Referral(address)):
            return f"{channel}: ask {address}"
        case say.OfferChannel(channel, Link() as link):
            return f"{channel} goes to {link.node}"
        case say.TopicRefused(_, reason) | say.ChannelRefused(_, reason) | say.Refused(reason):
            return f"refused: {reason}"
        case _:
            return repr(message)
