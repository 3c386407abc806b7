"""The manager of one scope, as a machine without sockets or clock.

A node's own manager, a network's and a campus's are the same: each admits members, gathers
what they want of topics, asks its owners for what it cannot give by itself, and has its
members forward messages as its policy says (dissertation 3.2.2 to 3.2.5, 3.2.10). A manager
knows its members and, for its own domains, their peers one level up; nothing more.

No message of any topic passes through a manager, and what it arranged goes on while it is
away. Whatever an owner wants of a member it says as a whole (``messages.Orders``), so that
either may start again at any time.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from quicksilver.scopes import messages as say
from quicksilver.scopes.carrying import Carrier
from quicksilver.scopes.channels import Link
from quicksilver.scopes.events import (
    Dial,
    Event,
    MemberGone,
    MemberJoined,
    OwnerJoined,
    OwnerLost,
    PeersChanged,
    PolicyRefused,
    TopicFailed,
)
from quicksilver.scopes.messages import ABOVE_MAX, PROTOCOL_VERSION, Message, Orders, Referral
from quicksilver.scopes.names import find_scope_name_problem, find_topic_name_problem, root_of
from quicksilver.scopes.policies.base import Policy
from quicksilver.scopes.routing import Channel
from quicksilver.scopes.topics import Part, Topic
from quicksilver.stdx.timers import TimerTable

MEMBERS_MAX = 10_000
TOPICS_MAX = 10_000
"""Members and topics of one scope."""

STRANGERS_MAX = 1_000
SENDERS_MAX = 10_000
"""Connections that have not said what they are for, and connections of nodes that ask for
channels that end here."""

ENDS_MAX = 10_000
"""Ends of channels that an owner may give to a member, for one topic."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """How one manager behaves; managers may differ."""

    alive_s: float = 0.5
    """How often members and owners say that they are there."""
    silent_s: float = 3.0
    """Whoever says nothing for so long is taken for gone."""
    grace_s: float = 0.5
    """How long owners keep this scope after its connection has ended. A scope of many nodes
    goes on without its manager: there it is longer, and a restart moves nothing."""
    grace_s_max: float = 60.0
    """What members may ask for as theirs."""
    settle_s: float = 0.0
    """A manager that starts again waits so long for its members before it gives orders."""
    retry_s: float = 0.2
    retry_s_max: float = 5.0
    """How soon an owner or a channel is tried again, at first and in the end."""

    def pause_s(self, tries: int) -> float:
        """Return how long to wait after so many tries."""
        return min(self.retry_s_max, self.retry_s * 2.0 ** min(tries, 16))


@dataclass(slots=True)
class _Member:
    name: str
    conn: int | None
    """None: its connection has ended, and it may come back."""
    address: str
    is_member: bool
    grace_s: float
    heard_at: float
    joined_at: float
    confirmed: dict[str, float]
    """When it last said what it wants, by topic."""
    told: dict[str, Orders]
    """The orders that it has."""


@dataclass(slots=True)
class _Owner:
    """One that this scope is a member of, or tries to be."""

    address: str
    conn: int | None = None
    name: str = ""
    """Empty until it has answered."""
    above: tuple[str, ...] = ()
    heard_at: float = 0.0
    tries: int = 0


@dataclass(frozen=True, slots=True)
class _RetryOwner:
    address: str


@dataclass(frozen=True, slots=True)
class _ForgetMember:
    name: str


@dataclass(frozen=True, slots=True)
class _ForgetParts:
    """What a member wanted before it came back and has not said again."""

    name: str


@dataclass(frozen=True, slots=True)
class _SayAlive:
    pass


@dataclass(frozen=True, slots=True)
class _Settle:
    pass


_Timer = _RetryOwner | _ForgetMember | _ForgetParts | _SayAlive | _Settle


class ScopeManager:
    """Manages one scope.

    The caller's duty: after every input take messages until ``poll_transmit`` returns None,
    dials until ``poll_dial`` does, and events until ``poll_event`` does; call
    ``handle_timeout`` at ``next_timeout``. Connections are numbered by the caller, and no
    number is used again. Nothing that a peer says raises.
    """

    def __init__(
        self,
        *,
        name: str,
        address: str,
        owners: tuple[str, ...],
        policy_of: Callable[[str], Policy],
        place: Link | None,
        config: Config | None = None,
        first_number: int = 0,
        now: float,
    ) -> None:
        """``owners``: addresses of their managers. ``policy_of`` gives the forwarding policy of
        a topic. ``place``: where messages are sent to this scope if it is a node, else None.
        ``first_number``: views and domains are numbered above it, so that a manager which
        starts again never repeats one.
        """
        problem = find_scope_name_problem(name)
        assert problem is None, problem
        self.name = name
        self.address = address
        self.counters: Counter[str] = Counter()
        self._config = config if config is not None else Config()
        self._policy_of = policy_of
        self._place = place
        self._members: dict[str, _Member] = {}
        self._by_conn: dict[int, str] = {}
        """Members by connection."""
        self._strangers: dict[int, None] = {}
        """Connections that have not said what they are for …"""
        self._senders: dict[int, None] = {}
        """… and those of nodes that work the sources of channels that end here."""
        self._owners = {each: _Owner(each) for each in owners}
        self._topics: dict[str, Topic] = {}
        self._first_number = first_number
        self._domains = first_number
        self._asked: dict[str, tuple[str, tuple[bool, bool]]] = {}
        """What owners were last asked for, by topic: which owner, and for what."""
        self._is_settled = self._config.settle_s <= 0.0
        self._out: deque[tuple[int, Message]] = deque()
        self._dials: deque[Dial] = deque(Dial(each) for each in owners)
        self._events: deque[Event] = deque()
        self._timers: TimerTable[_Timer] = TimerTable()
        self._timers.set(_SayAlive(), now + self._config.alive_s)
        if not self._is_settled:
            self._timers.set(_Settle(), now + self._config.settle_s)
        self._carrier = Carrier(self._config.pause_s, self._out, self._dials, self._events)
        """Works the sources of channels, if this scope is a node."""

    # What the scope's own applications want, if it is a node

    def subscribe(self, topic: str, *, publishes: bool, subscribes: bool) -> None:
        """Say what the applications of this node want of a topic; neither: nothing."""
        assert self._place is not None
        self._handle_part(self.name, topic, Part(0, publishes, subscribes))

    # Inputs

    def handle_accepted(self, conn: int, now: float) -> None:
        """Somebody has connected."""
        if len(self._strangers) >= STRANGERS_MAX:
            self._refuse(conn, "this manager has too many strangers: try again later")
        else:
            self._strangers[conn] = None

    def handle_dialled(self, address: str, conn: int | None, now: float) -> None:
        """A connection that was wanted is there, or could not be made (None)."""
        owner = self._owners.get(address)
        if owner is None or owner.conn is not None:
            self._carrier.handle_dialled(address, conn, now)
        elif conn is None:
            self._retry_owner(owner, "nobody answers there", now)
        else:
            owner.conn, owner.heard_at = conn, now
            self._out.append(
                (
                    conn,
                    say.Register(
                        PROTOCOL_VERSION,
                        self.name,
                        self.address,
                        is_member=True,
                        grace_s=self._config.grace_s,
                    ),
                )
            )

    def handle_closed(self, conn: int, now: float) -> None:
        """A connection has ended."""
        self._strangers.pop(conn, None)
        self._senders.pop(conn, None)
        name = self._by_conn.pop(conn, None)
        if name is not None:
            member = self._members[name]
            member.conn = None
            self._timers.set(_ForgetMember(name), now + member.grace_s)
        elif (owner := self._owner_at(conn)) is not None:
            self._retry_owner(owner, "its connection ended", now)
        else:
            self._carrier.handle_closed(conn, now)

    def handle_message(self, conn: int, message: Message, now: float) -> None:
        """A peer has said something."""
        if (name := self._by_conn.get(conn)) is not None:
            self._handle_member(self._members[name], message, now)
        elif (owner := self._owner_at(conn)) is not None:
            self._handle_owner(owner, message, now)
        elif conn in self._strangers:
            self._handle_stranger(conn, message, now)
        elif conn in self._senders and isinstance(message, say.RequestChannel):
            self._answer_request(conn, message.channel)
        elif not self._carrier.handle_message(conn, message, now):
            self.counters["unexpected"] += 1

    def handle_bad_frame(self, conn: int, now: float) -> None:
        """Something came that no manager says."""
        self.counters["malformed"] += 1
        if self._strangers.pop(conn, self) is not self:
            self._refuse(conn, "that was not understood")

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel that this node works does not reach its target: ask anew where it is."""
        self._carrier.handle_link_lost(channel, now)

    def handle_timeout(self, now: float) -> None:
        for timer in self._timers.pop_due(now):
            match timer:
                case _SayAlive():
                    self._say_alive(now)
                    self._timers.set(timer, now + self._config.alive_s)
                case _RetryOwner(address):
                    if self._owners[address].conn is None:
                        self._dials.append(Dial(address))
                case _ForgetMember(name):
                    if self._members[name].conn is None:
                        self._forget_member(name, "its connection ended")
                case _ForgetParts(name):
                    self._forget_unconfirmed(name)
                case _Settle():
                    self._is_settled = True
                    for topic in self._topics.values():
                        self._give_orders(topic)
                case _:
                    assert_never(timer)
        self._carrier.handle_timeout(now)

    # Outputs

    def poll_transmit(self) -> tuple[int, Message] | None:
        """Return whom to say what, or None."""
        return self._out.popleft() if self._out else None

    def poll_dial(self) -> Dial | None:
        return self._dials.popleft() if self._dials else None

    def poll_event(self) -> Event | None:
        return self._events.popleft() if self._events else None

    def next_timeout(self) -> float | None:
        soonest = self._timers.next()
        other = self._carrier.next_timeout()
        return other if soonest is None or (other is not None and other < soonest) else soonest

    def topics(self) -> list[Topic]:
        return list(self._topics.values())

    def above(self) -> tuple[str, ...]:
        """Return the names of this scope's owners, and of theirs."""
        names: dict[str, None] = {}
        for owner in self._owners.values():
            if owner.name:
                names[owner.name] = None
                names.update(dict.fromkeys(owner.above))
        return tuple(names)[:ABOVE_MAX]

    # Strangers

    def _refuse(self, conn: int, reason: str) -> None:
        self.counters["refused"] += 1
        self._out.append((conn, say.Refused(reason)))

    def _handle_stranger(self, conn: int, message: Message, now: float) -> None:
        match message:
            case say.Register():
                del self._strangers[conn]
                problem = self._find_register_problem(message)
                if problem is None:
                    self._admit(conn, message, now)
                else:
                    self._refuse(conn, problem)
            case say.RequestChannel(channel):
                if self._answer_request(conn, channel) and len(self._senders) < SENDERS_MAX:
                    self._senders[conn] = self._strangers.pop(conn)
            case _:
                self.counters["unexpected"] += 1

    def _find_register_problem(self, register: say.Register) -> str | None:
        name = register.name
        if register.version != PROTOCOL_VERSION:
            ours, theirs = PROTOCOL_VERSION, register.version
            return f"this manager speaks version {ours} of the protocol, not {theirs}"
        problem = find_scope_name_problem(name)
        if problem is not None:
            return problem
        if self._place is not None:
            return f"{self.name!r} is a node, and has no members"
        if name == self.name:
            return f"{name!r} cannot be a member of itself"
        if name in self.above():
            return f"{name!r} owns {self.name!r} already: a scope cannot own its owner"
        known = self._members.get(name)
        if known is not None and known.conn is not None:
            return f"{self.name!r} has a member {name!r} already"
        if known is None and len(self._members) >= MEMBERS_MAX:
            return f"{self.name!r} has {MEMBERS_MAX:,} members, which is the most"
        return None

    def _admit(self, conn: int, register: say.Register, now: float) -> None:
        name = register.name
        known = self._members.get(name)
        grace_s = max(0.0, min(register.grace_s, self._config.grace_s_max))
        member = _Member(
            name, conn, register.address, register.is_member, grace_s, now, now, {}, {}
        )
        self._members[name] = member
        self._by_conn[conn] = name
        self._out.append((conn, say.Registered(self.name, self.above())))
        if known is None:
            self._events.append(MemberJoined(name, register.is_member))
        else:
            # It may have forgotten what it was told, and what it wanted.
            self._timers.cancel(_ForgetMember(name))
            self._timers.set(_ForgetParts(name), now + self._config.silent_s)
            if (known.address, known.is_member) != (member.address, member.is_member):
                for topic in self._topics.values():
                    if name in topic.parts:
                        self._give_orders(topic)

    # Members

    def _handle_member(self, member: _Member, message: Message, now: float) -> None:
        member.heard_at = now
        match message:
            case say.Subscribe(topic, domain, publishes, subscribes):
                member.confirmed[topic] = now
                member.told.pop(topic, None)
                part = Part(domain, publishes, subscribes, member.is_member)
                self._handle_part(member.name, topic, part)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _forget_member(self, name: str, reason: str) -> None:
        member = self._members.pop(name)
        if member.conn is not None:
            del self._by_conn[member.conn]
        self._timers.cancel(_ForgetMember(name))
        self._timers.cancel(_ForgetParts(name))
        self._events.append(MemberGone(name, reason))
        for topic in list(self._topics.values()):
            if name in topic.parts:
                self._change_part(topic, name, None)

    def _forget_unconfirmed(self, name: str) -> None:
        member = self._members[name]
        for topic in list(self._topics.values()):
            if name in topic.parts and member.confirmed.get(topic.name, -1.0) < member.joined_at:
                self._change_part(topic, name, None)

    # Topics

    def _handle_part(self, member: str, name: str, part: Part) -> None:
        topic = self._topics.get(name)
        if topic is None:
            if not (part.publishes or part.subscribes):
                return
            problem = self._find_topic_problem(name)
            if problem is not None:
                self._refuse_topic(member, name, problem)
                return
            self._domains += 1
            topic = Topic(
                name,
                self.name,
                self._domains,
                self._policy_of(name),
                is_root=root_of(name) == self.name,
                view=self._first_number,
            )
            self._topics[name] = topic
        self._change_part(topic, member, part)

    def _find_topic_problem(self, name: str) -> str | None:
        problem = find_topic_name_problem(name)
        if problem is not None:
            return problem
        if len(self._topics) >= TOPICS_MAX:
            return f"{self.name!r} has {TOPICS_MAX:,} topics, which is the most"
        root = root_of(name)
        if root == self.name or root in self.above():
            return None
        if any(not owner.name for owner in self._owners.values()):
            return None  # One that has not answered yet may know.
        return f"no owner of {self.name!r} leads to {root!r}"

    def _refuse_topic(self, member: str, topic: str, reason: str) -> None:
        self.counters["topics_refused"] += 1
        if member == self.name:
            self._events.append(TopicFailed(topic, reason))
        else:
            self._tell(member, say.TopicRefused(topic, reason))

    def _change_part(self, topic: Topic, member: str, part: Part | None) -> None:
        if topic.handle_part(member, part):
            told = [peer.scope for peer in topic.peers()]
        else:
            told = [member] if member in topic.parts else []
        view = say.DomainView(topic.name, topic.domain, topic.view, topic.peers())
        for name in told:
            self._tell(name, view)
        self._ask_above(topic)
        if not topic.parts:
            topic.sources, topic.targets = (), ()
            del self._topics[topic.name]
        self._give_orders(topic)

    def _ask_above(self, topic: Topic) -> None:
        """Tell an owner what this scope wants of a topic, if that is news."""
        if topic.is_root:
            return
        wants = topic.wants()
        owner = self._owner_for(topic.name)
        asked = self._asked.get(topic.name)
        if owner is None or asked == (owner.name, wants) or (asked is None and not any(wants)):
            return
        assert owner.conn is not None
        self._out.append((owner.conn, say.Subscribe(topic.name, topic.domain, *wants)))
        if any(wants):
            self._asked[topic.name] = (owner.name, wants)
        else:
            self._asked.pop(topic.name, None)

    def _owner_for(self, topic: str) -> _Owner | None:
        """Return the owner that leads to a topic's root."""
        root = root_of(topic)
        there = [owner for owner in self._owners.values() if owner.conn is not None and owner.name]
        for owner in there:
            if owner.name == root:
                return owner
        return next((owner for owner in there if root in owner.above), None)

    def _give_orders(self, topic: Topic) -> None:
        """Work out what everybody has to do, and tell those for whom it has changed."""
        if self._place is not None:
            self._carrier.handle_orders(topic.name, topic.sources, topic.targets)
            return
        if not self._is_settled:
            return
        addresses = {name: member.address for name, member in self._members.items()}
        for name, work in topic.plan(addresses).items():
            orders = Orders(topic.name, tuple(work.sources), tuple(work.targets))
            member = self._members[name]
            if member.told.get(topic.name) != orders:
                member.told[topic.name] = orders
                self._tell(name, orders)
        for origin, problem in topic.problems().items():
            self._events.append(PolicyRefused(topic.name, origin, problem))

    def _tell(self, member: str, message: Message) -> None:
        known = self._members.get(member)
        if known is not None and known.conn is not None:
            self._out.append((known.conn, message))

    # Owners

    def _owner_at(self, conn: int) -> _Owner | None:
        for owner in self._owners.values():
            if owner.conn == conn:
                return owner
        return None

    def _handle_owner(self, owner: _Owner, message: Message, now: float) -> None:
        owner.heard_at = now
        match message:
            case say.Registered(name, above):
                owner.name, owner.tries = name, 0
                self._events.append(OwnerJoined(name))
                self._handle_above(owner, above, now)
            case say.Above(names):
                self._handle_above(owner, names, now)
            case say.Refused(reason):
                self._retry_owner(owner, reason, now)
            case say.TopicRefused(topic, reason):
                self._handle_topic_refused(topic, reason)
            case say.DomainView(topic, domain, view, members):
                if topic in self._topics:
                    self._events.append(PeersChanged(topic, owner.name, domain, view, members))
            case say.Orders():
                self._handle_orders(message)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _handle_above(self, owner: _Owner, names: tuple[str, ...], now: float) -> None:
        if self.name == owner.name or self.name in names:
            self._retry_owner(owner, f"{owner.name!r} belongs to {self.name!r} itself", now)
            owner.name, owner.above = "", ()
            return
        owner.above = names[:ABOVE_MAX]
        for member in list(self._members):
            self._tell(member, say.Above(self.above()))
        for topic in list(self._topics.values()):
            self._ask_above(topic)

    def _handle_topic_refused(self, name: str, reason: str) -> None:
        topic = self._topics.pop(name, None)
        if topic is None:
            return
        self._asked.pop(name, None)
        for member in topic.parts:
            self._refuse_topic(member, name, reason)

    def _handle_orders(self, orders: Orders) -> None:
        topic = self._topics.get(orders.topic)
        if topic is None:
            return
        is_mine = all(s.channel.source[-1:] == (self.name,) for s in orders.sources) and all(
            channel.target[-1:] == (self.name,) for channel in orders.targets
        )
        if not is_mine or len(orders.sources) + len(orders.targets) > ENDS_MAX:
            self.counters["orders_refused"] += 1
            return
        topic.sources, topic.targets = orders.sources, orders.targets
        self._give_orders(topic)

    def _retry_owner(self, owner: _Owner, reason: str, now: float) -> None:
        """An owner is out of reach; what it arranged stays."""
        owner.conn = None
        for topic, (name, _) in list(self._asked.items()):
            if name == owner.name:
                # It may have forgotten: it is asked again when it is back.
                del self._asked[topic]
        self._events.append(OwnerLost(owner.address, reason))
        pause_s = self._config.pause_s(owner.tries)
        self._timers.set(_RetryOwner(owner.address), now + pause_s)
        owner.tries += 1

    # Channels that end here

    def _answer_request(self, conn: int, channel: Channel) -> bool:
        """Tell a node where to send; False: no owner has announced such a channel."""
        topic = self._topics.get(channel.topic)
        known = None if topic is None else _find(topic.targets, channel)
        if topic is None or known is None or channel.target != known.target:
            self.counters["channels_refused"] += 1
            reason = f"{self.name!r} was not told of this channel"
            self._out.append((conn, say.ChannelRefused(channel, reason)))
            return False
        if self._place is not None:
            self._out.append((conn, say.OfferChannel(channel, self._place)))
            return True
        entry = topic.entry_of(known)
        if entry is None:
            reason = f"nobody in {self.name!r} can take it at the moment"
            self._out.append((conn, say.ChannelRefused(channel, reason)))
            return True
        where = Referral(self._members[entry].address)
        self._out.append((conn, say.OfferChannel(Topic.handed_on(channel, entry), where)))
        return True

    # Health

    def _say_alive(self, now: float) -> None:
        late = now - self._config.silent_s
        silent = f"it was silent for {self._config.silent_s:g} s"
        for name, member in list(self._members.items()):
            if member.conn is None:
                continue
            if member.heard_at < late:
                self._forget_member(name, silent)
            else:
                self._out.append((member.conn, say.Alive()))
        for owner in self._owners.values():
            if owner.conn is None:
                continue
            if owner.heard_at < late:
                self._retry_owner(owner, silent, now)
            else:
                self._out.append((owner.conn, say.Alive()))


def _find(targets: tuple[Channel, ...], asked: Channel) -> Channel | None:
    """Return the announced channel that is asked for, whoever works its source."""
    for channel in targets:
        if (channel.scope, channel.source[0], channel.origin) == (
            asked.scope,
            asked.source[0],
            asked.origin,
        ):
            return channel
    return None
