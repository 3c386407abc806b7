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
from dataclasses import replace
from typing import assert_never

from quicksilver.scopes.dissemination.carrying import Carrier
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.policies.base import Policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.deadlines import (
    Deadline,
    ForgetMember,
    ForgetParts,
    RetryOwner,
    SayAlive,
    Settle,
    WorkOut,
)
from quicksilver.scopes.management.events import (
    Dial,
    Event,
    MemberGone,
    MemberJoined,
    OrdersTooLarge,
    OwnerJoined,
    OwnerLost,
    PeersChanged,
    PolicyRefused,
    Purpose,
    TopicFailed,
    TopicLeft,
)
from quicksilver.scopes.management.members import Member, Members, Strangers
from quicksilver.scopes.management.messages import (
    ENDS_MAX,
    PROTOCOL_VERSION,
    REASON_MAX,
    Message,
    Orders,
    Referral,
    split_orders,
)
from quicksilver.scopes.management.owners import Owner, Owners, gather_orders, may_order
from quicksilver.scopes.management.topics import Part, Topic
from quicksilver.scopes.names import (
    find_scope_name_problem,
    find_topic_name_problem,
    root_of,
)
from quicksilver.scopes.posts import DomainId
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.timers import TimerTable

TOPICS_MAX = 10_000
SENDERS_MAX = 10_000
"""Topics of one scope, and connections of nodes that ask for channels that end here."""


class ScopeManager:
    """Manages one scope.

    The caller's duty: after every input take messages until ``poll_transmit`` returns None,
    then connections to end until ``poll_close`` does, dials until ``poll_dial`` does, and events
    until ``poll_event`` does; call ``handle_timeout`` at ``next_timeout``. Connections are
    numbered by the caller, and no number is used again. Nothing that a peer says raises.
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
        self._members = Members(
            name,
            silent_s=self._config.silent_s,
            yield_s=self._config.yield_s,
            grace_s_max=self._config.grace_s_max,
        )
        self._strangers = Strangers(self._config.silent_s)
        self._senders: dict[int, None] = {}
        """Connections of nodes that work the sources of channels that end here."""
        self._owners = Owners(owners)
        self._topics: dict[str, Topic] = {}
        self._first_number = first_number
        self._domains = first_number
        self._changed: dict[str, set[str]] = {}
        """Topics whose orders are to be worked out, and members that said what they want."""
        self._is_settled = self._config.settle_s <= 0.0
        self._out: deque[tuple[int, Message]] = deque()
        self._closes: deque[int] = deque()
        self._dials: deque[Dial] = deque(Dial(each, Purpose.OWNER) for each in owners)
        self._events: deque[Event] = deque()
        self._timers: TimerTable[Deadline] = TimerTable()
        self._timers.set(SayAlive(), now + self._config.alive_s)
        if not self._is_settled:
            self._timers.set(Settle(), now + self._config.settle_s)
        self._carrier = Carrier(
            self._config.pause_s,
            self._config.answer_s,
            self._out,
            self._closes,
            self._dials,
            self._events,
        )
        """Works the sources of channels, if this scope is a node."""

    # What the scope's own applications want, if it is a node

    def subscribe(self, topic: str, *, publishes: bool, subscribes: bool, now: float) -> None:
        """Say what the applications of this node want of a topic; neither: nothing."""
        assert self._place is not None
        self._handle_part(self.name, topic, Part(0, publishes, subscribes), now)

    # Inputs

    def handle_accepted(self, conn: int, now: float) -> None:
        """Somebody has connected."""
        oldest = self._strangers.add(conn, now)
        if oldest is not None:
            self._refuse(oldest, "this manager has too many strangers: try again later")

    def handle_dialled(self, dial: Dial, conn: int | None, now: float) -> None:
        """A connection that was wanted is there, or could not be made (None)."""
        if dial.purpose is Purpose.CHANNEL:
            self._carrier.handle_dialled(dial.address, conn, now)
            return
        owner = self._owners.by_address[dial.address]
        assert owner.conn is None
        if conn is None:
            self._retry_owner(owner, "nobody answers there", now)
            return
        owner.conn, owner.heard_at = conn, now
        register = say.Register(
            PROTOCOL_VERSION,
            self.name,
            self.address,
            is_member=True,
            grace_s=self._config.grace_s,
        )
        self._out.append((conn, register))

    def handle_closed(self, conn: int, now: float) -> None:
        """A connection has ended, and not because ``poll_close`` said so."""
        self._strangers.discard(conn)
        self._senders.pop(conn, None)
        member = self._members.at(conn)
        if member is not None:
            self._lose_member(member, "its connection ended", now)
        elif (owner := self._owners.at(conn)) is not None:
            owner.conn = None
            self._retry_owner(owner, "its connection ended", now)
        else:
            self._carrier.handle_closed(conn, now)

    def handle_message(self, conn: int, message: Message, now: float) -> None:
        """A peer has said something."""
        if (member := self._members.at(conn)) is not None:
            self._handle_member(member, message, now)
        elif (owner := self._owners.at(conn)) is not None:
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
        if self._strangers.discard(conn):
            self._refuse(conn, "that was not understood")

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel that this node works does not reach its target: ask anew where it is."""
        self._carrier.handle_link_lost(channel, now)

    def handle_peer_lost(self, domain: DomainId, member: str, now: float) -> None:
        """The agent of a member of a domain cannot be reached: ask anew where it is."""
        self.counters["peers_lost"] += 1

    def handle_timeout(self, now: float) -> None:
        for timer in self._timers.pop_due(now):
            match timer:
                case SayAlive():
                    self._say_alive(now)
                    self._timers.set(timer, now + self._config.alive_s)
                case RetryOwner(address):
                    self._dials.append(Dial(address, Purpose.OWNER))
                case ForgetMember(name):
                    self._forget_member(name, now)
                case ForgetParts(name):
                    # It may have been forgotten a moment ago.
                    if name in self._members.by_name:
                        self._forget_unconfirmed(self._members.by_name[name], now)
                case Settle():
                    self._is_settled = True
                    for topic in self._topics.values():
                        self._note_change(topic, now)
                case WorkOut():
                    self._work_out(now)
                case _:
                    assert_never(timer)
        self._carrier.handle_timeout(now)

    # Outputs

    def poll_transmit(self) -> tuple[int, Message] | None:
        """Return whom to say what, or None."""
        return self._out.popleft() if self._out else None

    def poll_close(self) -> int | None:
        """Return a connection to end, after what is to be said on it; or None."""
        return self._closes.popleft() if self._closes else None

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
        return self._owners.above()

    # Strangers

    def _refuse(self, conn: int, reason: str) -> None:
        self.counters["refused"] += 1
        self._out.append((conn, say.Refused(reason[:REASON_MAX])))
        self._closes.append(conn)

    def _handle_stranger(self, conn: int, message: Message, now: float) -> None:
        match message:
            case say.Register():
                self._strangers.discard(conn)
                if self._place is None:
                    problem = self._members.find_problem(message, self.above(), now)
                else:
                    problem = f"{self.name!r} is a node, and has no members"
                if problem is None:
                    self._admit(conn, message, now)
                else:
                    self._refuse(conn, problem)
            case say.RequestChannel(channel):
                if self._answer_request(conn, channel) and len(self._senders) < SENDERS_MAX:
                    self._strangers.discard(conn)
                    self._senders[conn] = None
            case _:
                self.counters["unexpected"] += 1

    def _admit(self, conn: int, register: say.Register, now: float) -> None:
        name = register.name
        known = self._members.admit(conn, register, now)
        self._out.append((conn, say.Registered(self.name, self.above())))
        if known is None:
            self._events.append(MemberJoined(name, register.is_member))
            return
        if known.conn is not None:
            self._closes.append(known.conn)
        # It may have forgotten what it was told, and what it wanted.
        self._timers.cancel(ForgetMember(name))
        self._timers.set(ForgetParts(name), now + self._config.silent_s)
        if (known.address, known.is_member) == (register.address, register.is_member):
            return
        for topic in self._topics.values():
            part = topic.parts.get(name)
            if part is not None:
                topic.handle_part(name, replace(part, is_member=register.is_member))
                self._note_change(topic, now)

    # Members

    def _handle_member(self, member: Member, message: Message, now: float) -> None:
        member.heard_at = now
        match message:
            case say.Subscribe(topic, domain, publishes, subscribes):
                member.told.pop(topic, None)
                part = Part(domain, publishes, subscribes, member.is_member)
                self._handle_part(member.name, topic, part, now)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _lose_member(self, member: Member, reason: str, now: float) -> None:
        """A member is out of reach; it may come back for a while."""
        self._members.handle_away(member, reason)
        self._timers.set(ForgetMember(member.name), now + member.grace_s)

    def _forget_member(self, name: str, now: float) -> None:
        member = self._members.forget(name)
        self._timers.cancel(ForgetParts(name))
        self._events.append(MemberGone(name, member.why_away))
        for topic in self._topics.values():
            if name in topic.parts:
                topic.handle_part(name, None)
                self._note_change(topic, now)

    def _forget_unconfirmed(self, member: Member, now: float) -> None:
        for topic in self._topics.values():
            if member.name in topic.parts and topic.name not in member.confirmed:
                topic.handle_part(member.name, None)
                member.told.pop(topic.name, None)
                self._note_change(topic, now)

    # Topics

    def _handle_part(self, member: str, name: str, part: Part, now: float) -> None:
        topic = self._topics.get(name)
        wants_any = part.publishes or part.subscribes
        if topic is None:
            if not wants_any:
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
        if wants_any and not topic.has_room(member):
            reason = f"{self.name!r} has too many members with {name!r}: divide it"
            self._refuse_topic(member, name, reason)
            return
        topic.handle_part(member, part)
        known = self._members.by_name.get(member)
        if known is not None and wants_any:
            known.confirmed.add(name)
        elif known is not None:
            known.confirmed.discard(name)
        self._note_change(topic, now).add(member)

    def _find_topic_problem(self, name: str) -> str | None:
        problem = find_topic_name_problem(name)
        if problem is not None:
            return problem
        if len(self._topics) >= TOPICS_MAX:
            return f"{self.name!r} has {TOPICS_MAX:,} topics, which is the most"
        root = root_of(name)
        if root == self.name or root in self.above():
            return None
        if any(not owner.name for owner in self._owners.by_address.values()):
            return None  # One that has not answered yet may know.
        return f"no owner of {self.name!r} leads to {root!r}"

    def _refuse_topic(self, member: str, topic: str, reason: str) -> None:
        self.counters["topics_refused"] += 1
        reason = reason[:REASON_MAX]
        if member == self.name:
            self._events.append(TopicFailed(topic, reason))
        else:
            self._tell(member, say.TopicRefused(topic, reason))

    def _note_change(self, topic: Topic, now: float) -> set[str]:
        """Have it worked out soon what members have to do for a topic.

        Return those members who are told of the view in any case. To work it out for every
        change would take time that grows with the square of the members.
        """
        if WorkOut() not in self._timers:
            self._timers.set(WorkOut(), now + self._config.collect_s)
        return self._changed.setdefault(topic.name, set())

    def _work_out(self, now: float) -> None:
        changed, self._changed = self._changed, {}
        for name, asking in changed.items():
            topic = self._topics[name]
            if topic.update_view():
                told = [peer.scope for peer in topic.peers()]
            else:
                told = sorted(member for member in asking if member in topic.parts)
            view = say.DomainView(name, topic.domain, topic.view, topic.peers())
            for member in told:
                self._tell(member, view)
            self._ask_above(topic)
            if topic.parts:
                self._give_orders(topic, now)
            else:
                self._leave_topic(topic, now)

    def _leave_topic(self, topic: Topic, now: float) -> None:
        """Nobody here takes part any more."""
        del self._topics[topic.name]
        self._changed.pop(topic.name, None)
        self._owners.asked.pop(topic.name, None)
        for member in self._members.by_name.values():
            member.told.pop(topic.name, None)
            member.confirmed.discard(topic.name)
        if self._place is not None:
            self._carrier.handle_orders(topic.name, (), (), now)
            self._events.append(TopicLeft(topic.name))

    def _ask_above(self, topic: Topic) -> None:
        """Tell an owner what this scope wants of a topic, if that is news."""
        if topic.is_root:
            return
        wants = topic.wants()
        owner = self._owners.for_topic(topic.name) if any(wants) else None
        asked = self._owners.asked.get(topic.name)
        if asked is not None and asked[0] is not owner:
            old, _ = self._owners.asked.pop(topic.name)
            assert old.conn is not None
            nothing = say.Subscribe(topic.name, topic.domain, publishes=False, subscribes=False)
            self._out.append((old.conn, nothing))
            topic.sources, topic.targets = (), ()
        if owner is not None and asked != (owner, wants):
            assert owner.conn is not None
            self._out.append((owner.conn, say.Subscribe(topic.name, topic.domain, *wants)))
            self._owners.asked[topic.name] = owner, wants

    def _give_orders(self, topic: Topic, now: float) -> None:
        """Work out what everybody has to do, and tell those for whom it has changed."""
        if self._place is not None:
            self._carrier.handle_orders(topic.name, topic.sources, topic.targets, now)
            return
        if not self._is_settled:
            return
        for name, work in topic.plan(self._members.addresses()).items():
            orders = Orders(topic.name, tuple(work.sources), tuple(work.targets))
            member = self._members.by_name[name]
            ends = len(orders.sources) + len(orders.targets)
            if ends > ENDS_MAX:
                self._events.append(OrdersTooLarge(topic.name, name, ends))
            elif member.told.get(topic.name) != orders:
                member.told[topic.name] = orders
                for part in split_orders(orders):
                    self._tell(name, part)
        for origin, problem in topic.problems().items():
            self._events.append(PolicyRefused(topic.name, origin, problem))

    def _tell(self, member: str, message: Message) -> None:
        known = self._members.by_name.get(member)
        if known is not None and known.conn is not None:
            self._out.append((known.conn, message))

    # Owners

    def _handle_owner(self, owner: Owner, message: Message, now: float) -> None:
        owner.heard_at = now
        match message:
            case say.Registered(name, above):
                is_new = not owner.is_joined
                self._handle_above(owner, name, above, now)
                if is_new and owner.conn is not None:
                    owner.is_joined, owner.tries = True, 0
                    self._events.append(OwnerJoined(name))
            case say.Above(names):
                self._handle_above(owner, owner.name, names, now)
            case say.Refused(reason):
                self._retry_owner(owner, reason, now)
            case say.TopicRefused(topic, reason):
                if self._owners.serves(owner, topic):
                    self._handle_topic_refused(topic, reason, now)
            case say.DomainView(topic, domain, view, members):
                if self._owners.serves(owner, topic):
                    self._events.append(PeersChanged(topic, owner.name, domain, view, members))
            case say.Orders():
                self._handle_orders(owner, message, now)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _handle_above(self, owner: Owner, name: str, names: tuple[str, ...], now: float) -> None:
        problem = next(filter(None, map(find_scope_name_problem, (name, *names))), None)
        if problem is None and (self.name == name or self.name in names):
            problem = f"{name!r} belongs to {self.name!r} itself"
        if problem is not None:
            owner.name, owner.above = "", ()
            self._retry_owner(owner, problem, now)
            return
        before = self.above()
        owner.name, owner.above = name, names
        if self.above() != before:
            for member in self._members.by_name:
                self._tell(member, say.Above(self.above()))
        for topic in self._topics.values():
            self._note_change(topic, now)

    def _handle_topic_refused(self, name: str, reason: str, now: float) -> None:
        topic = self._topics[name]
        for member in topic.parts:
            self._refuse_topic(member, name, reason)
        self._leave_topic(topic, now)

    def _handle_orders(self, owner: Owner, part: Orders, now: float) -> None:
        topic = self._topics.get(part.topic)
        if topic is None or not self._owners.serves(owner, part.topic):
            self.counters["orders_refused"] += 1
            return
        orders = gather_orders(owner, part)
        if orders is None:
            return
        if not may_order(self.name, orders, is_node=self._place is not None):
            self.counters["orders_refused"] += 1
            return
        topic.sources, topic.targets = orders.sources, orders.targets
        self._note_change(topic, now)

    def _retry_owner(self, owner: Owner, reason: str, now: float) -> None:
        """An owner is out of reach. What it arranged stays until another one is asked."""
        if owner.conn is not None:
            self._closes.append(owner.conn)
        for topic in self._owners.handle_lost(owner):
            self._note_change(self._topics[topic], now)
        self._events.append(OwnerLost(owner.address, reason))
        pause_s = self._config.pause_s(owner.tries)
        self._timers.set(RetryOwner(owner.address), now + pause_s)
        owner.tries += 1

    # Channels that end here

    def _answer_request(self, conn: int, channel: Channel) -> bool:
        """Tell a node where to send; False: no owner has announced such a channel."""
        topic = self._topics.get(channel.topic)
        known = None if topic is None else topic.find_target(channel)
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
        where = Referral(self._members.by_name[entry].address)
        self._out.append((conn, say.OfferChannel(Topic.handed_on(channel, entry), where)))
        return True

    # Health

    def _say_alive(self, now: float) -> None:
        silent = f"it was silent for {self._config.silent_s:g} s"
        for conn in self._strangers.pop_late(now):
            self._refuse(conn, "nobody has said what this connection is for")
        for member in self._members.silent(now):
            assert member.conn is not None
            self._closes.append(member.conn)
            self._lose_member(member, silent, now)
        for conn in self._members.connected():
            self._out.append((conn, say.Alive()))
        for owner in self._owners.by_address.values():
            if owner.conn is None:
                continue
            if owner.heard_at < now - self._config.silent_s:
                self._retry_owner(owner, silent, now)
            else:
                self._out.append((owner.conn, say.Alive()))
