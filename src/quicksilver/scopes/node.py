"""One node of a scope: its manager, what it forwards and its agents, as one machine.

A host gives it numbered connections that carry frames in order, whoever made them, and
datagrams. Managers and links use the same kind of connection, so a node listens at one port:
the first frame tells what a connection is for (``dissemination.frames``). The node says what is
to be dialled and by itself finds out what for.

It has no sockets, clock or threads: hosts on real networks, simulators and tests drive the same
class, and the bare ``ScopeManager`` for scopes that are no nodes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from quicksilver.scopes.connections import Connections
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.forwarder import WINDOW_BYTES, Forwarder
from quicksilver.scopes.dissemination.frames import (
    AgentSays,
    Attach,
    CloseChannel,
    Frame,
    Have,
    Probe,
    encode,
    find_intact,
    is_link_frame,
    parse_datagram,
    parse_frame,
)
from quicksilver.scopes.dissemination.outlets import LOSSY_PROTOCOL
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.exchange import take_recovered, tell_arrived
from quicksilver.scopes.link_uses import LinkUses
from quicksilver.scopes.links import Links
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    Dial,
    Event,
    OwnerJoined,
    SourceClosed,
    SourceOpened,
    TargetOpened,
    TopicFailed,
)
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.node_parts import (
    MakeAgents,
    NodeEvent,
    NotJoinedError,
    WindowOpened,
    make_agents,
)
from quicksilver.scopes.promised import Promised
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.routing import Channel
from quicksilver.scopes.sessions.control import is_control
from quicksilver.scopes.sessions.keys import KeyRing
from quicksilver.scopes.sessions.multiplexer import Multiplexer
from quicksilver.scopes.sessions.stays import Stays

COPIES_BYTES = 64 << 20
"""Memory for copies and for messages that came early."""

CHECK_S = 2.0
"""How often links are looked after."""


class ScopeNode:
    """A node of a scope.

    The caller's duty: after every input take frames until ``poll_transmit`` returns None, then
    connections to end until ``poll_close`` does, addresses to dial until ``poll_dial`` does,
    datagrams, deliveries and events likewise; call ``handle_timeout`` at ``next_timeout``; say
    with ``handle_sent`` how many bytes of frames have left. Connections are numbered by the
    caller, and no number is used again; one that the node has ended is not told to it any more.
    Nothing that a peer says raises.
    """

    def __init__(
        self,
        *,
        name: str,
        address: str,
        owners: tuple[str, ...],
        life: int,
        now: float,
        is_dialable: bool = True,
        scope: str | None = None,
        place: Link | None = None,
        config: Config | None = None,
        copies_bytes_max: int = COPIES_BYTES,
        window_bytes: int = WINDOW_BYTES,
        seed: int = 0,
        make_agents: MakeAgents = make_agents,
        keys: KeyRing | None = None,
    ) -> None:
        """``address``: where the host listens. ``is_dialable``: whether others can connect there.

        ``owners``: addresses of managers. ``scope``: the name of the scope that this node is a
        member of; None: the first owner that answers says it, and until then nothing can be
        published. ``life``: higher each time that the node starts. ``place``: where messages
        are sent to this node, ``tcp`` at its address if None. ``seed``: of what agents draw by lot.
        ``keys``: what sessions with a key are read and sent with.
        """
        self.counters: Counter[str] = Counter()
        self.name = name
        self._is_lossy = place is not None and place.protocol == LOSSY_PROTOCOL
        self.manager = ScopeManager(
            name=name,
            address=address,
            is_dialable=is_dialable,
            owners=owners,
            policy_of=lambda _: parse_policy("star"),
            place=Link("tcp", address, name) if place is None else place,
            config=config,
            now=now,
        )
        self.manager.count_traffic = self._count_traffic
        self._forwarder: Forwarder | None = None
        """None until the node's scope is known."""
        self.agents: Agents | None = None
        self._promised: Promised | None = None
        self._sessions: Multiplexer | None = None
        self._keys = keys or KeyRing()
        self._stays = Stays()
        self._life = life
        self._copies_bytes_max = copies_bytes_max
        self._window_bytes = window_bytes
        self._seed = seed
        self._make_agents = make_agents
        self._silent_s = (config or Config()).silent_s
        self._wants: dict[str, tuple[bool, bool]] = {}
        """Topics, and whether the applications publish to them and subscribe to them."""
        self._conns = Connections()
        self._links = Links(self.counters)
        self._uses = LinkUses()
        self._events: deque[Event] = deque()
        self._check_at = now + CHECK_S
        self._now = now
        """Of the last input."""
        if scope is not None:
            self._become_member(scope)
        self._turn(now)

    @property
    def forwarder(self) -> Forwarder:
        """What this node carries. Raises ``NotJoinedError``."""
        if self._forwarder is None:
            raise NotJoinedError
        return self._forwarder

    @property
    def promised(self) -> Promised:
        """How it stands with this node's topics. Raises ``NotJoinedError``."""
        if self._promised is None:
            raise NotJoinedError
        return self._promised

    @property
    def sessions(self) -> Multiplexer:
        """The sessions of this node's topics. Raises ``NotJoinedError``."""
        if self._sessions is None:
            raise NotJoinedError
        return self._sessions

    # Application verbs

    def want(self, topic: str, *, publishes: bool, subscribes: bool, now: float) -> None:
        """Say what the applications want of a topic; ``TopicFailed`` may follow."""
        forwarder, agents = self._forwarder, self.agents
        if forwarder and agents and subscribes != self.subscribes(topic):
            if subscribes:
                forwarder.note_subscribed(topic, now)
                agents.handle_subscribed(topic, now)
            else:
                streams = forwarder.holdings.of_topic(topic).items()
                self._stays.handle_left(topic, {sender: stream.low for sender, stream in streams})
        if publishes or subscribes:
            self._wants[topic] = publishes, subscribes
        else:
            self._wants.pop(topic, None)
        self.manager.subscribe(topic, publishes=publishes, subscribes=subscribes, now=now)
        self._turn(now)

    def join(self, topic: str, now: float) -> None:
        """Subscribe to a topic, besides what was wanted of it."""
        publishes, _ = self._wants.get(topic, (False, False))
        self.want(topic, publishes=publishes, subscribes=True, now=now)

    def open(self, topic: str, now: float) -> None:
        """Be a publisher of a topic, besides what was wanted of it; ``publish`` does it as well."""
        self.want(topic, publishes=True, subscribes=self.subscribes(topic), now=now)

    def leave(self, topic: str, now: float) -> None:
        """Subscribe and publish no more."""
        self.want(topic, publishes=False, subscribes=False, now=now)

    def finish(self, now: float) -> None:
        """This process is about to end: leave all topics, so that nobody waits for this node."""
        for topic in self._wants:
            self.manager.subscribe(topic, publishes=False, subscribes=False, now=now)
        self._wants.clear()
        self.manager.finish(now)
        self._turn(now)

    def subscribes(self, topic: str) -> bool:
        """Whether the applications want the messages of a topic."""
        return self._wants.get(topic, (False, False))[1]

    def publish(
        self, topic: str, messages: Sequence[bytes], attributes: dict[str, str] | None, now: float
    ) -> int:
        """Send messages to a topic; return the number of the first (``Forwarder.publish``)."""
        sessions = self.sessions
        if not self._wants.get(topic, (False, False))[0]:
            self.open(topic, now)
        self._now = now
        return sessions.publish(topic, messages, attributes, now)

    def may_publish(self, topic: str) -> bool:
        """Whether there is room; if not, ``WindowOpened`` says when there is again."""
        return self._sessions is not None and self._sessions.may_publish(topic)

    def flush_mark(self, topic: str) -> int:
        """Return the number after the last message that was published here."""
        return self.sessions.flush_mark(topic)

    # Inputs

    def handle_accepted(self, conn: int, now: float) -> None:
        """Somebody has connected."""
        self._conns.handle_accepted(conn, now)
        self._turn(now)

    def handle_dialled(self, address: str, conn: int | None, now: float) -> None:
        """A connection to an address is there, or could not be made (None)."""
        purpose = self._conns.take_purpose(address)
        if isinstance(purpose, Dial):
            if conn is not None:
                self._conns.of_manager[conn] = None
            self.manager.handle_dialled(purpose, conn, now)
        elif self._links.handle_made(purpose, conn, now):
            if self._forwarder is not None:
                self._forwarder.handle_writable(purpose)
        elif conn is None:
            self._handle_link_lost(purpose, now)
        self._turn(now)

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        """A frame has come over a connection."""
        conns = self._conns
        if conn in conns.strangers:
            del conns.strangers[conn]
            if not is_link_frame(data):
                conns.of_manager[conn] = None
                self.manager.handle_accepted(conn, now)
            elif not self._links.handle_accepted(conn, now):
                conns.closes.append(conn)
        if conn in self._links:
            self._links.handle_heard(conn, now)
            frame = parse_frame(data)
            if frame is None:
                self.counters["malformed"] += 1
            else:
                self._handle_link_frame(conn, frame, now)
        elif conn in conns.of_manager:
            message = say.parse(data)
            if message is None:
                self.manager.handle_bad_frame(conn, now)
            else:
                self.manager.handle_message(conn, message, now)
        self._turn(now)

    def handle_closed(self, conn: int, now: float) -> None:
        """A connection has ended, and not because ``poll_close`` said so."""
        self._conns.strangers.pop(conn, None)
        if conn in self._conns.of_manager:
            del self._conns.of_manager[conn]
            self.manager.handle_closed(conn, now)
        elif conn in self._links:
            self._end_link(conn, now)
        self._turn(now)

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        """So many bytes of frames have left over a connection."""
        where = self._links.handle_sent(conn, size, now)
        if where is not None and self._forwarder is not None:
            self._forwarder.handle_writable(where)
        self._now = now

    def handle_datagram(
        self, data: bytes, now: float, holes: Sequence[tuple[int, int]] = ()
    ) -> None:
        """A datagram has come; ``holes``: where parts of it are missing (``pieces``)."""
        frame = parse_datagram(data)
        if frame is None or self._forwarder is None:
            self.counters["malformed"] += not holes
        elif not isinstance(frame, AgentSays):
            intact = find_intact(frame, data, holes) if holes else [frame]
            for each in intact:
                self._forwarder.handle_datagram(each, now)
        elif holes:
            pass  # What an agent says is understood as a whole, or not at all.
        elif frame.node != self.name and self.agents is not None:
            self.agents.handle_message(frame.node, frame.data, now)
        self._turn(now)

    def handle_timeout(self, now: float) -> None:
        self.manager.handle_timeout(now)
        if self._forwarder is not None:
            self._forwarder.handle_timeout(now)
        if self.agents is not None:
            self.agents.handle_timeout(now)
        if now >= self._check_at:
            self._check_at = now + CHECK_S
            self._check(now)
        self._turn(now)

    # Outputs

    def next_timeout(self) -> float | None:
        due = [self.manager.next_timeout()]
        if self._forwarder is not None:
            due.append(self._forwarder.next_timeout())
        if self.agents is not None:
            due.append(self.agents.next_timeout())
        if self._sessions is not None:
            due.append(self._sessions.next_timeout())
        if self._links or self._conns.strangers:
            due.append(self._check_at)
        return min((each for each in due if each is not None), default=None)

    def poll_transmit(self) -> tuple[int, bytes] | None:
        """Return which frame goes over which connection, or None."""
        links = self._links
        while True:
            while links.out:
                conn, data = links.out.popleft()
                if conn in links:
                    return conn, data
            while (said := self.manager.poll_transmit()) is not None:
                if said[0] in self._conns.of_manager:
                    return said[0], say.encode(said[1])
            if not self._poll_parts():
                return None

    def poll_close(self) -> int | None:
        """Return a connection to end, after what is to be said on it; or None."""
        if (closing := self.manager.poll_close()) is not None:
            self._conns.of_manager.pop(closing, None)
            return closing
        closes = self._links.closes or self._conns.closes
        return closes.popleft() if closes else None

    def poll_dial(self) -> str | None:
        """Return an address to connect to; the same one again is one more connection."""
        return self._conns.dials.popleft() if self._conns.dials else None

    def poll_datagram(self) -> tuple[Link | External, bytes] | None:
        """Return what goes as a datagram to a node, or to all who listen at an address."""
        return None if self._forwarder is None else self._forwarder.poll_datagram()

    def poll_delivery(self) -> Packet | Gap | None:
        """Return the next messages of topics that this node has joined, or None."""
        if self._sessions is None:
            return None
        deliveries = self._sessions.deliveries
        while deliveries:
            told = deliveries.popleft()
            lacking = self._stays.lacking(told) if self.subscribes(told.topic) else None
            if lacking is not None:
                return lacking
        return None

    def poll_event(self) -> NodeEvent | None:
        """Return what has happened; the node itself has done what follows from it."""
        if self._sessions is not None:
            if self._sessions.opened:
                return WindowOpened(self._sessions.opened.popleft())
            if self._sessions.events:
                return self._sessions.events.popleft()
        if self._forwarder is not None:
            topic = self._forwarder.poll_opened()
            if topic is not None:
                return WindowOpened(topic)
        return self._events.popleft() if self._events else None

    def poll_stable(self) -> tuple[str, Sender, int] | None:
        """Return below which number a stream has become stable, or None."""
        while self.agents is not None and (stable := self.agents.poll_stable()) is not None:
            if not is_control(stable[1]):
                return stable
        return None

    def frame_bytes_max(self, conn: int) -> int:
        """Return how long a frame of a connection may be."""
        return self._conns.frame_bytes_max(conn)

    # Parts

    def _count_traffic(self) -> dict[str, int]:
        return {} if self._forwarder is None else self._forwarder.count_traffic()

    def _become_member(self, scope: str) -> None:
        self._forwarder = Forwarder(
            scope=scope,
            node=self.name,
            life=self._life,
            copies_bytes_max=self._copies_bytes_max,
            window_bytes=self._window_bytes,
        )
        sessions = self._sessions = Multiplexer(
            self._forwarder,
            self.subscribes,
            lambda *asked: self.promised.is_stable(*asked),  # noqa: PLW0108  # made after this
            self._keys,
            self.counters,
        )
        self.agents = self._make_agents(
            self._forwarder,
            lambda topic: self.subscribes(topic) and sessions.repairs(topic),
            self._seed,
        )
        self._promised = Promised(
            self.manager, self._forwarder, self.agents, self._wants, is_lossy=self._is_lossy
        )

    def _turn(self, now: float) -> None:
        """Bring what parts have to tell each other to where it belongs."""
        self._now = now
        while self.manager.poll_saved() is not None:
            pass  # A node that starts again is a new one.
        is_busy = True
        while is_busy:
            is_busy = False
            while (event := self.manager.poll_event()) is not None:
                is_busy = True
                self._handle_event(event, now)
            if self._forwarder is not None:
                is_busy |= self._turn_parts(self._forwarder, now)
            if self._sessions is not None:
                is_busy |= self._turn_sessions(self._sessions, now)
        while (dial := self.manager.poll_dial()) is not None:
            self._conns.dial(dial.address, dial)
        self._note_dials()

    def _turn_sessions(self, sessions: Multiplexer, now: float) -> bool:
        sessions.advance(now)
        is_busy = bool(sessions.flushed or sessions.offers)
        while sessions.flushed:
            self.manager.handle_flushed(*sessions.flushed.popleft(), now)
        while sessions.offers:
            self.manager.nominate(*sessions.offers.popleft(), now)
        return is_busy

    def _turn_parts(self, forwarder: Forwarder, now: float) -> bool:
        is_busy = False
        while (lost := forwarder.poll_lost()) is not None:
            is_busy = True
            if self._uses.is_awaited(lost):
                forwarder.handle_event(SourceClosed(lost))  # Its target comes again.
            else:
                self.manager.handle_link_lost(lost, now)
        if self.agents is not None:
            take_recovered(forwarder, self.agents, now)
            while (moved := self.agents.poll_moved()) is not None:
                is_busy = True
                self.manager.handle_peer_lost(*moved, now)
            while (sought := self.agents.poll_sought()) is not None:
                is_busy = True
                self.manager.want_peers(sought.domain, [sought.member], now)
            tell_arrived(forwarder, self.agents, now)
        return is_busy

    def _handle_event(self, event: Event, now: float) -> None:
        if isinstance(event, OwnerJoined) and self._forwarder is None:
            self._become_member(event.owner)
        assert self._forwarder is not None or not isinstance(event, SourceOpened | TargetOpened)
        if isinstance(event, TopicFailed):
            self._wants.pop(event.topic, None)
        self._uses.handle_event(event)
        if self._forwarder is not None:
            self._forwarder.handle_event(event)
        if self._sessions is not None:
            self._sessions.handle_event(event, now)
        if self.agents is not None:
            self.agents.handle_event(event, now)
        if isinstance(event, TargetOpened) and event.where is not None:
            self._links.send(event.where, encode(Attach(event.channel)), now)
        self._events.append(event)

    # Links

    def _handle_link_frame(self, conn: int, frame: Frame, now: float) -> None:
        forwarder = self._forwarder
        if forwarder is None:
            self.counters["unexpected"] += 1
            return
        match frame:
            case Probe():
                self._links.answer_probe(conn)
            case AgentSays(node, data):
                self._links.handle_named(conn, node)
                if self.agents is None:
                    self.counters["unexpected"] += 1
                else:
                    self.agents.handle_message(node, data, now)
            case Attach(channel):
                self._handle_attach(conn, channel)
            case Have(channel) | CloseChannel(channel):
                where = self._links.find(conn)
                if where is not None and forwarder.find_link(channel) == where:
                    forwarder.handle_answer(where, frame)
                    return
                forwarder.handle_frame(conn, frame, now)
                if where is not None and self._uses.is_attached(where, channel):
                    self._uses.detach(channel)  # The source has ended it, or does not know it yet.
                    self.manager.handle_link_lost(channel, now)
            case _:
                forwarder.handle_frame(conn, frame, now)

    def _handle_attach(self, conn: int, channel: Channel) -> None:
        """The target of a channel that begins here has come by itself."""
        awaited = self._uses.find_awaited(channel)
        if awaited is None:
            self.counters["unknown_channels"] += 1
            self._links.put(conn, encode(CloseChannel(channel)))
            return
        where = self._links.attach(conn, channel.target[-1])
        assert self._forwarder is not None
        self._forwarder.handle_event(SourceOpened(channel, awaited.filters, where, awaited.waits))

    def _poll_parts(self) -> bool:
        """Move one frame of the agents or the forwarder to its link; False: there is none."""
        if self._forwarder is not None and self.agents is not None:
            tell_arrived(self._forwarder, self.agents, self._now)
        if self.agents is not None and (said := self.agents.poll_message()) is not None:
            self._send_agents(said[0], AgentSays(self.name, said[1]))
            return True
        if self._forwarder is None:
            return False
        answer = self._forwarder.poll_answer()
        if answer is not None:
            self._links.put(answer[0], encode(answer[1]))
            return True
        out = self._forwarder.poll_transmit()
        if out is None:
            return False
        where = out[0]
        self._links.send(where, encode(out[1]), self._now)
        self._note_dials()
        if self._links.is_full(where):
            self._forwarder.handle_blocked(where)
        return True

    def _send_agents(self, where: Link | External, frame: AgentSays) -> None:
        if isinstance(where, Link):
            self._links.send(where, encode(frame), self._now)
            self._note_dials()
        elif self._forwarder is not None:
            self._forwarder.send_datagram(where, frame)

    def _note_dials(self) -> None:
        while self._links.dials:
            where = self._links.dials.popleft()
            self._conns.dial(where.address, where)

    def _end_link(self, conn: int, now: float) -> None:
        where = self._links.handle_closed(conn)
        if self._forwarder is not None:
            self._forwarder.handle_link_closed(conn)
        if where is not None:
            self._handle_link_lost(where, now)

    def _handle_link_lost(self, where: Link, now: float) -> None:
        """A link that this node uses has ended, or could not be made."""
        if self._forwarder is not None:
            self._forwarder.handle_link_lost(where)
        channels, agents = self._uses.take_lost(where)
        for channel in channels:
            self.manager.handle_link_lost(channel, now)
        for domain, member in agents:
            self.manager.handle_peer_lost(domain, member, now)

    def _check(self, now: float) -> None:
        """Look after strangers and links."""
        self._conns.check(now, self._silent_s)
        is_needed = {where: self._is_needed(where) for where in self._links.used()}
        for conn in self._links.check(now, is_needed):
            self._end_link(conn, now)
            self._conns.closes.append(conn)

    def _is_needed(self, where: Link) -> bool:
        forwarder = self._forwarder
        return where in self._uses or (forwarder is not None and forwarder.has_link(where))
