"""Scope managers that talk through lists instead of sockets, in virtual time."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

from quicksilver.scopes.dissemination.carrying import key_of
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import ChannelFrame, encode, parse_frame
from quicksilver.scopes.dissemination.packets import Packet
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    Dial,
    Event,
    SourceClosed,
    SourceOpened,
    TargetClosed,
)
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.routing import Channel

DELAY_S = 0.001


class Network:
    """Managers by name; what they say to each other is counted, and logged on request."""

    def __init__(self, copies_bytes_max: int = 1 << 20, **settings: float) -> None:
        self.now = 0.0
        self.copies_bytes_max = copies_bytes_max
        self.managers: dict[str, ScopeManager] = {}
        self.events: dict[str, list[Event]] = {}
        self.sources: dict[str, dict[Channel, None]] = {}
        """Channels that are open at each node, by its name."""
        self.log: list[str] = []
        self.said: Counter[tuple[str, str]] = Counter()
        """How many messages but signs of life went from one manager to another."""
        self.forwarders: dict[str, Forwarder] = {}
        """Of nodes, by name."""
        self.got: dict[str, list[tuple[str, int]]] = {}
        """Messages that nodes were given: who sent them, and their numbers."""
        self.is_slow: set[str] = set()
        """Nodes to which nothing gets through at the moment."""
        self._config = Config(**settings)
        self._conns = 0
        self._links: dict[str, int] = {}
        """The number of the links that each node makes."""
        self._ends: dict[int, tuple[str, int]] = {}
        """The other end of each connection: whose it is, and its number there."""
        self._queue: deque[tuple[int, say.Message | None]] = deque()
        """What is said, in order; None: a connection ends."""

    def add(
        self,
        name: str,
        *owners: str,
        policy: str = "star",
        is_node: bool = False,
        starts: int = 1,
    ) -> ScopeManager:
        """Start a manager, or start it again; its address is its name."""
        config = self._config
        if not is_node:
            config = replace(config, grace_s=10.0, settle_s=2.0 if starts > 1 else 0.0)
        manager = ScopeManager(
            name=name,
            address=name,
            owners=owners,
            policy_of=lambda _: parse_policy(policy),
            place=Link("tcp", name, name) if is_node else None,
            config=config,
            first_number=1000 * (starts - 1),
            now=self.now,
        )
        self.managers[name] = manager
        if is_node:
            self.forwarders[name] = Forwarder(
                scope=owners[0] if owners else name,
                node=name,
                life=starts,
                copies_bytes_max=self.copies_bytes_max,
            )
            self.got[name] = []
            self._links[name] = len(self.events)
        self.events.setdefault(name, [])
        self.sources[name] = {}
        self.settle()
        return manager

    def attach(self, name: str, address: str, conn: int, first: say.Message) -> None:
        """Let somebody connect to a manager by hand, with a first message."""
        theirs = conn + 1
        self._ends[conn] = (address, theirs)
        self._ends[theirs] = (name, conn)
        self.managers[address].handle_accepted(theirs, self.now)
        self.tell(conn, first)

    def tell(self, conn: int, message: say.Message) -> None:
        """Say something on a connection that was made by hand."""
        self._queue.append((conn, message))
        self.settle()

    def kill(self, name: str) -> None:
        """End a manager; its connections break."""
        del self.managers[name]
        self.forwarders.pop(name, None)
        self.sources.pop(name, None)
        mine = [conn for conn, (owner, _) in self._ends.items() if owner == name]
        for theirs in mine:
            # ``theirs`` is the number at the peer of an end that is at ``name``.
            peer, _ = self._ends[self._ends[theirs][1]]
            self._ends.pop(self._ends.pop(theirs)[1], None)
            if peer in self.managers:
                self.managers[peer].handle_closed(theirs, self.now)
        for forwarder in self.forwarders.values():
            forwarder.handle_link_closed(self._links.get(name, -1))
        self._break(name)
        self.settle()

    def _break(self, name: str, closed: Channel | None = None) -> None:
        """Messages do not arrive at a node, or not along a channel: whoever sends notices."""
        if closed is None:
            for forwarder in self.forwarders.values():
                forwarder.handle_link_lost(Link("tcp", name, name))
            return
        for node, channels in list(self.sources.items()):
            for channel in [each for each in channels if each.target[-1] == name]:
                if key_of(closed) == key_of(channel):
                    self.managers[node].handle_link_lost(channel, self.now)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while True:
            self.settle()
            due = [t for m in self.managers.values() if (t := m.next_timeout()) is not None]
            if not due or min(due) > end:
                break
            self.now = max(self.now, min(due))
            for manager in list(self.managers.values()):
                manager.handle_timeout(self.now)
        self.now = end

    def settle(self) -> None:
        """Deliver until nobody has anything to say."""
        for _ in range(100_000):
            if not self._step():
                return
        raise AssertionError("managers never stop talking")

    def _step(self) -> bool:
        is_busy = False
        for name in list(self.managers):
            manager = self.managers[name]
            while (dial := manager.poll_dial()) is not None:
                is_busy = True
                self._dial(name, dial)
            while (out := manager.poll_transmit()) is not None:
                is_busy = True
                self._queue.append(out)
            while (closing := manager.poll_close()) is not None:
                self._queue.append((closing, None))
            while (event := manager.poll_event()) is not None:
                self._note(name, event)
        while self._queue:
            is_busy = True
            conn, message = self._queue.popleft()
            if conn not in self._ends:
                continue
            if message is None:
                self._close(conn)
                continue
            peer, theirs = self._ends[conn]
            sender = self._ends[theirs][0]
            if not isinstance(message, say.Alive):
                self.said[sender, peer] += 1
                self.log.append(f"{sender} to {peer}: {describe(message)}")
            frame = say.parse(say.encode(message))
            assert frame == message
            self.managers[peer].handle_message(theirs, message, self.now)
        return self._carry() or is_busy

    def _close(self, conn: int) -> None:
        """A manager ends a connection: the other end notices."""
        peer, theirs = self._ends.pop(conn)
        del self._ends[theirs]
        self.managers[peer].handle_closed(theirs, self.now)

    def _carry(self) -> bool:
        """Move messages of topics over links, a frame at a time."""
        is_busy = False
        for name, forwarder in list(self.forwarders.items()):
            while name not in self.is_slow and (out := forwarder.poll_transmit()) is not None:
                is_busy = True
                self._deliver(name, *out)
            while (delivery := forwarder.poll_delivery()) is not None:
                if isinstance(delivery, Packet):
                    for number in range(delivery.number, delivery.stop):
                        self.got[name].append((delivery.sender.node, number))
            while (lost := forwarder.poll_lost()) is not None:
                is_busy = True
                self.managers[name].handle_link_lost(lost, self.now)
        return is_busy

    def _deliver(self, name: str, where: Link, frame: ChannelFrame) -> None:
        forwarder, target = self.forwarders[name], self.forwarders.get(where.node)
        if target is None:
            forwarder.handle_link_lost(where)
            return
        parsed = parse_frame(encode(frame))
        assert parsed == frame
        target.handle_frame(self._links[name], frame, self.now)
        while (answer := target.poll_answer()) is not None:
            forwarder.handle_answer(where, answer[1])

    def _dial(self, name: str, dial: Dial) -> None:
        target = self.managers.get(dial.address)
        if target is None:
            self.managers[name].handle_dialled(dial, None, self.now)
            return
        ours, theirs = self._conns + 1, self._conns + 2
        self._conns += 2
        self._ends[ours] = (dial.address, theirs)
        self._ends[theirs] = (name, ours)
        target.handle_accepted(theirs, self.now)
        self.managers[name].handle_dialled(dial, ours, self.now)

    def _note(self, name: str, event: Event) -> None:
        self.events[name].append(event)
        if name in self.forwarders:
            self.forwarders[name].handle_event(event)
        if isinstance(event, SourceOpened):
            self.sources[name][event.channel] = None
        elif isinstance(event, SourceClosed):
            self.sources[name].pop(event.channel, None)
        elif isinstance(event, TargetClosed):
            self._break(name, event.channel)

    def publish(self, node: str, topic: str) -> Counter[str]:
        """Let a node send a message; return how often others have got it when all is quiet."""
        number = self.forwarders[node].publish(topic, [b"x"], None, self.now)
        self.settle()
        return Counter(
            name for name, got in self.got.items() for each in got if each == (node, number)
        )


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
        case say.DomainView(topic, _, view, members):
            return f"view {view} of {topic}: {' '.join(peer.scope for peer in members)}"
        case say.Orders(_, sources, targets):
            send = ", ".join(f"send {source.channel}" for source in sources)
            take = ", ".join(f"take {channel}" for channel in targets)
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
