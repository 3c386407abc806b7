"""All agents of one node, as its manager has posted them.

At the bottom are agents that speak for the node itself. Above are those that speak for domains
which are led here: each has, as its lower interface, what its domain's leader has found. A
domain that serves several topics may be a member of several domains above, so stacks may fork
(dissertation 3.2.12, Figure 3.31)::

            topic X          topic Y
               |                |
               └── region XY ───┘
                       |
                     node

A new view of a domain begins with new rounds and keeps what was agreed on. An agent that was
posted elsewhere begins with nothing: until its domain had a complete round it has no word, and
the domain above waits for it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import Timing
from quicksilver.recovery.rounds import (
    TO_ALL,
    Ask,
    Gift,
    Receipt,
    Report,
    Rumours,
    Token,
    Wake,
)
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    Event,
    PeerFound,
    PeerLost,
    TopicLeft,
)
from quicksilver.scopes.posts import AgentKey, DomainId, Post, key_of_post, spoken_for
from quicksilver.scopes.reliability.frames import (
    AskBody,
    Body,
    Copies,
    Frame,
    GiftBody,
    Here,
    Item,
    NotHere,
    Pull,
    ReceiptBody,
    ReportBody,
    RumoursBody,
    TokenBody,
    WakeBody,
    encode,
    parse_frame,
)
from quicksilver.scopes.reliability.kinds import make_agent, parse_protocol
from quicksilver.scopes.reliability.lower import LowerState, NodeState, Subscribes
from quicksilver.scopes.reliability.records import Gathered
from quicksilver.scopes.reliability.repairs import Config, Repairs
from quicksilver.scopes.reliability.rounds import StreamRounds
from quicksilver.scopes.routing import Channel

AGENTS_MAX = 10_000
PEERS_MAX = 100_000
"""Agents of one node, and other agents whose place is known."""

OUTPUTS_MAX = 10_000
"""Messages that wait; past it new ones are dropped, as the network might."""

LOCAL_MAX = 1000
"""Messages between agents of this node that are handled at once."""

TIMING = Timing(
    interval_s=0.1,
    trouble_interval_s=0.02,
    spacing_s=0.005,
    timeout_s_min=0.2,
    timeout_s_max=2.0,
    wake_s_min=0.15,
    in_flight_max=1,
    learns_late=True,
)
"""For domains whose members are within some tens of milliseconds of each other."""


@dataclass(slots=True)
class Counts:
    """What all agents of a node did."""

    tokens_released: int = 0
    roll_calls: int = 0


@dataclass(slots=True)
class Above:
    """The agents that speak for a domain, one for each domain above it."""

    agents: list[Agent[Gathered]] = field(default_factory=list)

    def handle_news(self, now: float, *, urgent: bool) -> None:
        for agent in self.agents:
            agent.handle_news(now, urgent=urgent)

    def expect_token(self, now: float) -> None:
        for agent in self.agents:
            agent.expect_token(now)


@dataclass(slots=True)
class Hosted:
    """An agent, and its rounds."""

    post: Post
    rounds: StreamRounds
    agent: Agent[Gathered]

    @property
    def is_leader(self) -> bool:
        return self.rounds.seat == 0


class Agents:
    """The agents of one node.

    The caller's duty: say with ``handle_arrived`` that there are new messages of a stream, and
    after every input take messages until ``poll_message`` returns None, repairs until
    ``poll_repair`` does (they go to ``Forwarder.handle_repair``), and marks until
    ``poll_given_up`` and ``poll_begun`` do (they go to ``Forwarder.pass_over`` and
    ``Forwarder.skip``).
    """

    def __init__(
        self,
        *,
        lower: LowerState,
        subscribes: Subscribes,
        seed: int,
        timing: Timing = TIMING,
        config: Config | None = None,
        make_rounds: type[StreamRounds] = StreamRounds,
    ) -> None:
        self.state = NodeState(lower, subscribes)
        self.repairs = Repairs(self.state, config or Config())
        self.hosted: dict[AgentKey, Hosted] = {}
        self.counts = Counts()
        self.counters: Counter[str] = Counter()
        self._seed = seed
        self._timing = timing
        self._make_rounds = make_rounds
        self._where: dict[AgentKey, Link] = {}
        self._by_domain: dict[DomainId, list[Hosted]] = {}
        self._outputs: deque[tuple[Link | External, bytes]] = deque()
        self._sought: dict[AgentKey, None] = {}
        """Agents that something was to be said to, and whose place is not known."""
        self._local: deque[Frame] = deque(maxlen=OUTPUTS_MAX)
        """Between two agents of this node in the same domain."""
        self._moved: dict[AgentKey, None] = {}
        """Agents of other nodes that are perhaps not where they were."""
        self._stable: deque[tuple[str, Sender, int]] = deque(maxlen=OUTPUTS_MAX)
        self._now = 0.0

    # Inputs

    def handle_event(self, event: Event, now: float) -> None:
        """The node's manager says which agents are here, and where others are."""
        self._now = now
        match event:
            case AgentPosted(post):
                self._post(post, now)
            case AgentWithdrawn(domain, member):
                if self.hosted.pop(AgentKey(domain, member), None) is not None:
                    self.repairs.forget(AgentKey(domain, member))
                    self._link(now)
            case PeerFound(domain, member, where):
                if len(self._where) < PEERS_MAX:
                    self._where[AgentKey(domain, member)] = where
                    self._introduce(domain, (member,))
            case PeerLost(domain, member):
                self._where.pop(AgentKey(domain, member), None)
            case TopicLeft(topic):
                self.state.forget_topic(topic)
            case _:
                pass
        self._settle(now)

    def handle_subscribed(self, topic: str, now: float) -> None:
        """Applications of this node want a topic from now on."""
        self.state.note_subscribed(topic, now)

    def handle_arrived(self, topic: str, sender: Sender, now: float) -> None:
        """There are new messages of a stream at this node, its own included."""
        self._now = now
        if self.state.handle_arrived(Name(topic, sender)):
            self._tell_bottom(topic, now)

    def handle_message(self, origin: str, data: bytes, now: float) -> None:
        """An agent says something; ``origin`` is the node that proved to have sent it."""
        self._now = now
        frame = parse_frame(data)
        if frame is None:
            self.counters["not_understood"] += 1
            return
        if isinstance(frame.body, Here) and self._take_place(origin, frame.domain, frame.body):
            return
        hosted = self._addressee(frame)
        if hosted is None:
            self._refuse(origin, frame)
            return
        peer = AgentKey(frame.domain, hosted.post.seats[frame.origin].member)
        where = self._where.get(peer)
        if isinstance(frame.body, NotHere):
            if where is not None and where.node == origin:
                self._doubt(peer)
            return
        if where is None or (where.node != origin and not where.address):
            # It cannot be dialled, or was not found yet: answer where the question came from.
            # It may have moved since it last asked.
            if peer in self._where or len(self._where) < PEERS_MAX:
                self._where[peer] = Link("", "", origin)
        elif where.node != origin:
            self.counters["strangers"] += 1
            self._doubt(peer)
            return
        self._dispatch(hosted, frame, now)
        self._settle(now)

    def _introduce(self, domain: DomainId, members: Collection[str]) -> None:
        """If agents of this node cannot be dialled, let peers know the way to them.

        Others may have something to say to them first.
        """
        for hosted in self._by_domain.get(domain, ()):
            if hosted.post.seats[hosted.rounds.seat].address:
                continue
            for place, seat in enumerate(hosted.post.seats):
                where = self._where.get(AgentKey(domain, seat.member))
                if seat.member in members and where is not None and where.address:
                    self._send(hosted, place, Here(hosted.rounds.key.member))

    def _take_place(self, origin: str, domain: DomainId, here: Here) -> bool:
        """An agent that cannot be dialled says where it is; False: nothing of its domain is."""
        for hosted in self._by_domain.get(domain, ()):
            seats = [seat for seat in hosted.post.seats if seat.member == here.member]
            if any(not seat.address for seat in seats) and len(self._where) < PEERS_MAX:
                self._where[AgentKey(domain, here.member)] = Link("", "", origin)
        return domain in self._by_domain

    def _refuse(self, origin: str, frame: Frame) -> None:
        """Tell a node that the agent which it wants is not here, or not any more.

        It may have been posted elsewhere without a new view, and be one that waits to be asked.
        """
        is_other_view = frame.domain in self._by_domain and any(
            hosted.post.view != frame.view for hosted in self._by_domain[frame.domain]
        )
        if is_other_view or isinstance(frame.body, NotHere):
            return
        if len(self._outputs) < OUTPUTS_MAX:
            answer = Frame(frame.domain, frame.view, frame.to, frame.origin, NotHere())
            self._outputs.append((Link("", "", origin), encode(answer)))

    def _doubt(self, peer: AgentKey) -> None:
        """An agent may have been posted elsewhere: its manager is asked, and nobody believed."""
        if len(self._moved) < OUTPUTS_MAX:
            self._moved[peer] = None

    def handle_timeout(self, now: float) -> None:
        self._now = now
        self.state.handle_timeout(now)
        for hosted in list(self.hosted.values()):
            hosted.agent.handle_timeout(now)
        self._settle(now)

    # Outputs

    def next_timeout(self) -> float | None:
        times = [hosted.agent.next_timeout() for hosted in self.hosted.values()]
        times.append(self.state.next_timeout())
        return min((time for time in times if time is not None), default=None)

    def poll_message(self) -> tuple[Link | External, bytes] | None:
        """Return what is to be sent where.

        A link without an address is to a node that has made one to this node, or will.
        """
        if not self._outputs:
            self._collect()
            for _ in range(LOCAL_MAX):
                if not self._local:
                    break
                self._handle_local(self._local.popleft())
        return self._outputs.popleft() if self._outputs else None

    def poll_sought(self) -> AgentKey | None:
        """Return an agent whose place the manager is to find out: what was said to it is lost.

        In a large domain an agent talks to some of the others only.
        """
        key = next(iter(self._sought), None)
        if key is not None:
            del self._sought[key]
        return key

    def poll_repair(self) -> tuple[Channel, Packet] | None:
        """Return messages that were missing here, and the way that they came."""
        repairs = self.repairs.repairs
        return repairs.popleft() if repairs else None

    def poll_stable(self) -> tuple[str, Sender, int] | None:
        """Return a stream and a mark: all nodes that are waited for have everything below.

        The node's holdings know already; this is for those who wait for it.
        """
        return self._stable.popleft() if self._stable else None

    def poll_moved(self) -> AgentKey | None:
        """Return an agent of another node that is perhaps not where it was, or None.

        The manager is to be told (``ScopeManager.handle_peer_lost``).
        """
        return self._moved.popitem()[0] if self._moved else None

    def poll_given_up(self) -> tuple[str, Sender, int] | None:
        """Return a stream and a mark below which no node has what is missing here."""
        given_up = self.state.given_up
        return given_up.popleft() if given_up else None

    def poll_begun(self) -> tuple[str, Sender, int] | None:
        """Return a stream and where it begins for this node: what comes before is not for it."""
        begun = self.state.begun
        return begun.popleft() if begun else None

    # Posts

    def _post(self, post: Post, now: float) -> None:
        key = key_of_post(post)
        old = self.hosted.get(key)
        if old is not None and (old.post == post or old.post.view > post.view):
            return
        seat = next((i for i, each in enumerate(post.seats) if each.member == key.member), None)
        if seat is None or (old is None and len(self.hosted) >= AGENTS_MAX):
            self.counters["bad_posts"] += 1
            return
        if parse_protocol(post.protocol) is None:
            self.counters["unknown_protocols"] += 1
        rounds = self._make_rounds(post, seat, self.state, self.repairs)
        if old is not None:
            rounds.become_viewed(old.rounds)
            self.repairs.forget(key)
        agent = make_agent(
            post.protocol,
            node=seat,
            domain=Domain((post.domain.number, post.view), tuple(range(len(post.seats)))),
            rounds=rounds,
            timing=self._timing,
            counters=self.counts,
            seed=self._seed,
        )
        self.hosted[key] = Hosted(post, rounds, agent)
        self._link(now)
        self._introduce(post.domain, {seat.member for seat in post.seats})
        for topic in post.topics:
            self.state.note_joined(topic, now)
            self.state.scan(topic)
        agent.handle_news(now, urgent=True)
        agent.expect_token(now)

    def _link(self, now: float) -> None:
        """Connect the upper interface of each agent to the agents that speak for its domain."""
        self._by_domain = {}
        for hosted in self.hosted.values():
            self._by_domain.setdefault(hosted.post.domain, []).append(hosted)
            hosted.agent.above = None
            hosted.rounds.lower = None
        for hosted in self.hosted.values():
            below = spoken_for(hosted.post)
            if below is None:
                continue
            for lower in self._by_domain.get(below, []):
                if lower.is_leader:
                    hosted.rounds.lower = lower.rounds
                    above = lower.agent.above
                    if not isinstance(above, Above):
                        above = lower.agent.above = Above()
                    above.agents.append(hosted.agent)

    # News

    def _tell_bottom(self, topic: str, now: float) -> None:
        for hosted in self.hosted.values():
            if hosted.rounds.speaks_for_node and topic in hosted.rounds.served:
                hosted.agent.handle_news(now, urgent=False)
                hosted.agent.expect_token(now)

    def _settle(self, now: float) -> None:
        """Tell agents what other agents of this node have found."""
        risen = self.state.risen
        if risen:
            for name in list(risen):
                self._stable.append((*name, self.state.stable(name)))
                for hosted in self.hosted.values():
                    if hosted.is_leader and name.topic in hosted.rounds.served:
                        hosted.rounds.wake(name)
            risen.clear()
        for hosted in self.hosted.values():
            if hosted.rounds.is_woken:
                hosted.rounds.is_woken = False
                hosted.agent.handle_news(now, urgent=False)
                hosted.agent.expect_token(now)

    # Messages

    def _addressee(self, frame: Frame) -> Hosted | None:
        """Return the agent that a message is for, if it is of the same view."""
        for hosted in self._by_domain.get(frame.domain, ()):
            if hosted.post.view != frame.view:
                self.counters["other_views"] += 1
                return None
            if hosted.rounds.seat == frame.to:
                if 0 <= frame.origin < len(hosted.post.seats) and frame.origin != frame.to:
                    return hosted
                break
        self.counters["not_here"] += 1
        return None

    def _dispatch(self, hosted: Hosted, frame: Frame, now: float) -> None:
        agent = hosted.agent
        domain, origin, body = agent.domain.name, frame.origin, frame.body
        members = range(len(hosted.post.seats))
        match body:
            case TokenBody(round_, leader, skipped, content, is_confirmed):
                if leader in members:
                    agent.handle_token(
                        Token(domain, round_, leader, origin, skipped, content, is_confirmed), now
                    )
            case WakeBody():
                agent.handle_wake(Wake(domain, origin), now)
            case ReceiptBody(leader, round_):
                agent.handle_receipt(Receipt(domain, origin, leader, round_), now)
            case ReportBody(round_, leader, absent, content):
                agent.handle_message(Report(domain, round_, leader, origin, absent, content), now)
            case RumoursBody(round_, leader, skipped, content, reports):
                if leader in members:
                    agent.handle_message(
                        Rumours(domain, round_, leader, origin, skipped, content, reports), now
                    )
            case AskBody(item):
                agent.handle_message(Ask(domain, origin, item), now)
            case GiftBody(item, copies, waited_s):
                agent.handle_message(Gift(domain, origin, item, copies, waited_s), now)
            case Pull():
                found = self.repairs.handle_pull(hosted.rounds, origin, body, now)
                if found is not None:
                    self._send(hosted, origin, found)
            case Copies():
                self.repairs.handle_copies(hosted.rounds, origin, body)

    def _collect(self) -> None:
        """Take what agents have to say."""
        for hosted in self.hosted.values():
            while (out := hosted.agent.poll_message(self._now)) is not None:
                to, message = out
                body = _body_of(message)
                peers = range(len(hosted.post.seats)) if to == TO_ALL else (to,)
                for peer in peers:
                    if peer != hosted.rounds.seat:
                        self._send(hosted, peer, body)
        pulls = self.repairs.pulls
        while pulls:
            key, member, pull = pulls.popleft()
            asking = self.hosted.get(key)
            if asking is not None:
                self._send(asking, member, pull)

    def _handle_local(self, frame: Frame) -> None:
        hosted = self._addressee(frame)
        if hosted is not None:
            self._dispatch(hosted, frame, self._now)
            self._settle(self._now)
            self._collect()

    def _send(self, hosted: Hosted, to: int, body: Body) -> None:
        post = hosted.post
        key = AgentKey(post.domain, post.seats[to].member)
        where = self._where.get(key)
        frame = Frame(post.domain, post.view, hosted.rounds.seat, to, body)
        if key in self.hosted:
            self._local.append(frame)
        elif where is None:
            self.counters["unreachable"] += 1
            if len(self._sought) < OUTPUTS_MAX:
                self._sought[key] = None
        elif len(self._outputs) >= OUTPUTS_MAX:
            self.counters["dropped"] += 1
        else:
            self._outputs.append((where, encode(frame)))


def _body_of(message: Message[Gathered]) -> Body:
    match message:
        case Token():
            return TokenBody(
                message.round,
                message.leader,
                message.skipped,
                message.content,
                message.is_confirmed,
            )
        case Wake():
            return WakeBody()
        case Receipt():
            return ReceiptBody(message.leader, message.round)
        case Report():
            return ReportBody(message.round, message.leader, message.absent, message.content)
        case Rumours():
            return RumoursBody(
                message.round,
                message.leader,
                message.skipped,
                message.content,
                message.reports,
            )
        case Ask(item=item):
            assert isinstance(item, Item)
            return AskBody(item)
        case Gift(item=item, content=content):
            assert isinstance(item, Item)
            assert isinstance(content, Copies)
            return GiftBody(item, content, message.waited_s)
