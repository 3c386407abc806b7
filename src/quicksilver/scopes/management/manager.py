"""The manager of one scope, as a machine without sockets or clock.

A node's own manager, a network's and a campus's are the same: each admits members, gathers
what they want of topics, asks its owners for what it cannot give by itself, has its members
forward messages as its policy says, and hands recovery agents down to them (dissertation
3.2.2 to 3.2.5, 3.2.10 to 3.2.13). A manager knows its members and, for its own domains, their
peers one level up; nothing more.

No message of any topic passes through a manager, and what it arranged goes on while it is
away. Whatever an owner wants of a member it says as a whole (``messages.Orders``), so that
either may start again at any time.

This module speaks with peers and keeps time; ``arranging`` works out what follows for topics.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from quicksilver.scopes.dissemination.carrying import Carrier
from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.dissemination.policies.base import Policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.answers import answer_agent, answer_channel
from quicksilver.scopes.management.arranging import Arranger, Choices, Node
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.deadlines import (
    Deadline,
    Dissolve,
    ForgetMember,
    ForgetParts,
    ForgetTopics,
    RetryOwner,
    SayAlive,
    Settle,
    SettleOwners,
    WorkOut,
)
from quicksilver.scopes.management.events import (
    Dial,
    Event,
    MemberGone,
    MemberJoined,
    OwnerJoined,
    OwnerLost,
    Purpose,
)
from quicksilver.scopes.management.hosting import Hosting
from quicksilver.scopes.management.inspection import Account, answer_inspect
from quicksilver.scopes.management.locating import EndKey, Locator
from quicksilver.scopes.management.members import Member, Members, Strangers
from quicksilver.scopes.management.messages import (
    PROTOCOL_VERSION,
    REASON_MAX,
    Flavour,
    Message,
)
from quicksilver.scopes.management.owners import Owner, Owners, gather_orders
from quicksilver.scopes.management.saving import Saved, SavedMember, Savings
from quicksilver.scopes.management.sessions import find_flavour_problem
from quicksilver.scopes.management.topics import NO_RECOVERY, Part, Topic
from quicksilver.scopes.names import find_scope_name_problem
from quicksilver.scopes.posts import DomainId
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.timers import TimerTable

VISITORS_MAX = 10_000
"""Connections of those who ask for channels, for agents or for an account of the scope."""

SETTLE_MORE_S = 0.1
"""Once all members of a manager that started again have said what they want of a topic: for
what they want of others."""


def recover_nothing(topic: str) -> str:
    return NO_RECOVERY


def plain_flavour(topic: str) -> Flavour:
    return Flavour()


class ScopeManager:
    """Manages one scope.

    The caller's duty: after every input write records until ``poll_saved`` returns None; only
    then take messages until ``poll_transmit`` does, connections to end until ``poll_close``
    does, dials until ``poll_dial`` does, and events until ``poll_event`` does; call
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
        recovery_of: Callable[[str], str] = recover_nothing,
        flavour_of: Callable[[str], Flavour] = plain_flavour,
        place: Link | None,
        is_dialable: bool = True,
        config: Config | None = None,
        saved: Mapping[str, bytes] | None = None,
        now: float,
    ) -> None:
        """``address``: where this manager listens. ``is_dialable``: whether its owners and their
        other members reach it there; its own members must. ``owners``: addresses of their
        managers. ``policy_of`` gives the forwarding policy of a topic,
        ``recovery_of`` the recovery protocol (``none``: this scope recovers nothing), and
        ``flavour_of`` what the first session of a topic promises that is rooted here.
        ``place``: where messages are sent to this scope if it is a node, else None. ``saved``:
        the records of the manager that was here before. Raises ``BadRecordError`` if they
        cannot be read, and ``BadRangeError`` if the configured addresses are none.
        """
        problem = find_scope_name_problem(name)
        assert problem is None, problem
        self.name = name
        self.address = address
        self._is_dialable = is_dialable
        self._config = config = config if config is not None else Config()
        self._place = place
        self._savings = Savings(saved or {})
        self._members = Members(
            name,
            silent_s=config.silent_s,
            yield_s=config.yield_s,
            grace_s_max=config.grace_s_max,
        )
        self._strangers = Strangers(config.silent_s)
        self.count_traffic: Callable[[], Mapping[str, int]] = dict
        """Of a node: what it has carried, for whoever asks for an account of it."""
        self._visitors: dict[int, None] = {}
        self._owners = Owners(owners)
        self._out: deque[tuple[int, Message]] = deque()
        self._closes: deque[int] = deque()
        self._dials: deque[Dial] = deque(Dial(each, Purpose.OWNER) for each in owners)
        self._events: deque[Event] = deque()
        self._timers: TimerTable[Deadline] = TimerTable()
        self._timers.set(SayAlive(), now + config.alive_s)
        self._locator = Locator(
            config.pause_s, config.answer_s, self._out, self._closes, self._dials
        )
        self._carrier = Carrier(self._locator, self._events)
        """Ends of channels, if this scope is a node …"""
        self._hosting = Hosting(self._locator, self._events, is_dialable=is_dialable)
        """… and agents."""
        self._arranger = Arranger(
            name,
            address,
            None if place is None else Node(self._carrier, self._hosting),
            self._members,
            self._owners,
            Choices(policy_of, recovery_of, flavour_of),
            config,
            self._savings,
            self._out,
            self._events,
        )
        self.counters: Counter[str] = self._arranger.counters
        self._restore(now)

    def _restore(self, now: float) -> None:
        """Take back which members the manager before this one had."""
        config = self._config
        for name in self._savings.names("member/"):
            member = self._savings.get(f"member/{name}", SavedMember)
            assert member is not None
            self._members.restore(name, member, now)
            self._timers.set(ForgetMember(name), now + max(member.grace_s, config.settle_s))
        if self._members.by_name:
            self._arranger.is_settled = self._arranger.is_owner_settled = False
            self._timers.set(Settle(), now + config.settle_s)
        self._timers.set(ForgetTopics(), now + config.grace_s_max)

    # What the scope's own applications and agents want, if it is a node

    def subscribe(self, topic: str, *, publishes: bool, subscribes: bool, now: float) -> None:
        """Say what the applications of this node want of a topic; neither: nothing."""
        assert self._place is not None
        self._arranger.handle_part(self.name, topic, Part(0, publishes, subscribes))
        self._schedule(now)

    def want_peers(self, domain: DomainId, members: Iterable[str], now: float) -> None:
        """Say which peers the agents of this node have to do with as well, in a domain.

        In a domain of not more than ``hosting.PEERS_ASKED_MAX`` all are searched for anyway.
        """
        self._hosting.want_peers(domain, members, now)

    # What the administrator of the scope wants

    def change_session(self, topic: str, flavour: Flavour, now: float) -> str | None:
        """Begin a new session of a topic that is rooted here; return why not, or None.

        While an earlier change goes on the new one waits; only the last one that waits counts.
        """
        problem = find_flavour_problem(flavour)
        if problem is None:
            problem = self._arranger.change_session(topic, flavour)
        self._schedule(now)
        return problem

    def nominate(self, topic: str, session: int, term: int, sender: Sender, now: float) -> None:
        """At a node: offer to say the order of a session, in place of who was chosen before."""
        self._arranger.handle_nominated(say.Nominate(topic, session, term, sender))
        self._schedule(now)

    # Inputs

    def handle_accepted(self, conn: int, now: float) -> None:
        """Somebody has connected."""
        oldest = self._strangers.add(conn, now)
        if oldest is not None:
            self._refuse(oldest, "this manager has too many strangers: try again later")

    def handle_dialled(self, dial: Dial, conn: int | None, now: float) -> None:
        """A connection that was wanted is there, or could not be made (None)."""
        if dial.purpose is Purpose.CHANNEL:
            self._locator.handle_dialled(dial.address, conn, now)
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
            self.address if self._is_dialable else "",
            is_member=True,
            grace_s=self._config.grace_s,
        )
        self._out.append((conn, register))

    def handle_closed(self, conn: int, now: float) -> None:
        """A connection has ended, and not because ``poll_close`` said so."""
        self._strangers.discard(conn)
        self._visitors.pop(conn, None)
        member = self._members.at(conn)
        if member is not None:
            self._lose_member(member, "its connection ended", now)
        elif (owner := self._owners.at(conn)) is not None:
            owner.conn = None
            self._retry_owner(owner, "its connection ended", now)
        else:
            self._locator.handle_closed(conn, now)

    def handle_message(self, conn: int, message: Message, now: float) -> None:
        """A peer has said something."""
        if (member := self._members.at(conn)) is not None:
            self._handle_member(member, message, now)
        elif (owner := self._owners.at(conn)) is not None:
            self._handle_owner(owner, message, now)
        elif conn in self._strangers:
            self._handle_stranger(conn, message, now)
        elif conn in self._visitors:
            self._answer(conn, message)
        elif self._locator.handle_message(conn, message, now):
            self._tell_found()
        else:
            self.counters["unexpected"] += 1
        self._schedule(now)

    def handle_bad_frame(self, conn: int, now: float) -> None:
        """Something came that no manager says."""
        self.counters["malformed"] += 1
        if self._strangers.discard(conn):
            self._refuse(conn, "that was not understood")

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel that this node works does not reach its other end: ask anew where it is."""
        self._carrier.handle_link_lost(channel, now)

    def handle_peer_lost(self, domain: DomainId, member: str, now: float) -> None:
        """Another agent of a domain is not where it was found: ask anew."""
        self._hosting.handle_peer_lost(domain, member, now)

    def handle_flushed(self, topic: str, number: int, now: float) -> None:
        """This node has delivered all of a session that is flushed."""
        self._arranger.handle_flushed(topic, number)
        self._schedule(now)

    def handle_timeout(self, now: float) -> None:
        for timer in self._timers.pop_due(now):
            match timer:
                case SayAlive():
                    self._say_alive(now)
                    self._timers.set(timer, now + self._config.alive_s)
                case RetryOwner(address):
                    self._dials.append(Dial(address, Purpose.OWNER))
                case ForgetMember(name):
                    self._forget_member(name)
                case ForgetParts(name):
                    # It may have been forgotten a moment ago.
                    if name in self._members.by_name:
                        self._forget_unconfirmed(self._members.by_name[name])
                case Settle():
                    self._arranger.is_settled = True
                    self._arranger.note_all()
                    self._timers.set(SettleOwners(), now + self._config.settle_s)
                case SettleOwners():
                    self._arranger.is_owner_settled = True
                    self._arranger.note_all()
                case ForgetTopics():
                    self._arranger.forget_saved_topics()
                case Dissolve():
                    for topic in self._arranger.domains.dissolve(now):
                        self._arranger.note_change(topic)
                case WorkOut():
                    self._arranger.work_out(now)
                    self._schedule_dissolve()
                case _:
                    assert_never(timer)
        self._locator.handle_timeout(now)
        self._schedule(now)

    def finish(self, now: float) -> None:
        """This process is about to end: say what was to be worked out soon.

        Owners keep a scope for a while after its manager has ended, with what it wanted last.
        """
        if WorkOut() in self._timers:
            self._timers.cancel(WorkOut())
            self._arranger.work_out(now)

    # Outputs

    def poll_saved(self) -> Saved | None:
        """Return a record that must be written before anything else is sent, or None."""
        return self._savings.poll()

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
        other = self._locator.next_timeout()
        return other if soonest is None or (other is not None and other < soonest) else soonest

    def find_topic(self, name: str) -> Topic | None:
        return self._arranger.topics.get(name)

    def topics(self) -> list[Topic]:
        return list(self._arranger.topics.values())

    def above(self) -> tuple[str, ...]:
        """Return the names of this scope's owners, and of theirs."""
        return self._owners.above()

    def _schedule(self, now: float) -> None:
        """Have changes worked out soon, all together."""
        if not self._arranger.is_settled:
            deadline = self._timers.deadline(Settle())
            if self._members.is_complete() and (deadline or 0.0) > now + SETTLE_MORE_S:
                self._timers.set(Settle(), now + SETTLE_MORE_S)
            return
        has_work = self._arranger.changed or self._arranger.has_new_posts
        if has_work and WorkOut() not in self._timers:
            self._timers.set(WorkOut(), now + self._config.collect_s)

    def _schedule_dissolve(self) -> None:
        due = self._arranger.domains.next_timeout()
        if due is not None:
            self._timers.set(Dissolve(), due)

    # Strangers, and those who only ask

    def _refuse(self, conn: int, reason: str) -> None:
        self.counters["refused"] += 1
        self._out.append((conn, say.Refused(reason[:REASON_MAX])))
        self._closes.append(conn)

    def _handle_stranger(self, conn: int, message: Message, now: float) -> None:
        if isinstance(message, say.Register):
            self._strangers.discard(conn)
            if self._place is None:
                problem = self._members.find_problem(message, self.above(), now)
            else:
                problem = f"{self.name!r} is a node, and has no members"
            if problem is None:
                self._admit(conn, message, now)
            else:
                self._refuse(conn, problem)
        elif self._answer(conn, message) and len(self._visitors) < VISITORS_MAX:
            self._strangers.discard(conn)
            self._visitors[conn] = None

    def _answer(self, conn: int, message: Message) -> bool:
        """Answer somebody who asks; False: it is none of his business, or no question."""
        addresses = self._members.addresses()
        answer: Message
        match message:
            case say.RequestChannel(channel):
                topic = self._arranger.topics.get(channel.topic)
                answer, is_known = answer_channel(self.name, self._place, topic, addresses, message)
            case say.RequestAgent():
                posts, handing = self._hosting.posts(), self._arranger.handing
                answer, is_known = answer_agent(
                    self.name, self._place, posts, handing, addresses, message
                )
            case say.ChangeSession(name, flavour):
                problem = find_flavour_problem(flavour)
                problem = problem or self._arranger.change_session(name, flavour)
                answer, is_known = say.SessionAsked(name, (problem or "")[:REASON_MAX]), True
            case say.Inspect():
                answer, is_known = answer_inspect(self._account(), message), True
            case _:
                self.counters["unexpected"] += 1
                return False
        self.counters["questions_refused"] += not is_known
        self._out.append((conn, answer))
        return is_known

    def _account(self) -> Account:
        return Account(
            self.name,
            self.address,
            self._is_dialable,
            self._members,
            self._owners,
            self._arranger,
            None if self._place is None else Node(self._carrier, self._hosting),
            self.count_traffic,
        )

    def _tell_found(self) -> None:
        while (found := self._locator.poll_found()) is not None:
            if isinstance(found.wanted, EndKey):
                self._carrier.handle_found(found)
            else:
                self._hosting.handle_found(found)

    # Members

    def _admit(self, conn: int, register: say.Register, now: float) -> None:
        name = register.name
        known = self._members.admit(conn, register, now)
        member = self._members.by_name[name]
        saved = SavedMember(member.address, member.is_member, member.grace_s)
        self._savings.put(f"member/{name}", saved)
        self._out.append((conn, say.Registered(self.name, self.above(), self._owners.knows_all())))
        # It may have forgotten what it was told, and what it wanted.
        patience_s = max(self._config.silent_s, member.grace_s)
        self._timers.set(ForgetParts(name), now + patience_s)
        if known is None:
            self._events.append(MemberJoined(name, register.is_member))
        else:
            if known.conn is not None:
                self._closes.append(known.conn)
            self._timers.cancel(ForgetMember(name))
            if (known.address, known.is_member) != (register.address, register.is_member):
                self._arranger.handle_member_changed(member)

    def _handle_member(self, member: Member, message: Message, now: float) -> None:
        member.heard_at = now
        match message:
            case say.Subscribe(topic, domain, publishes, subscribes):
                member.told.pop(topic, None)
                part = Part(domain, publishes, subscribes, member.is_member)
                self._arranger.handle_part(member.name, topic, part)
            case say.Confirm():
                self._arranger.handle_confirm(member.name, message)
            case say.Nominate():
                self._arranger.handle_nominated(message)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _lose_member(self, member: Member, reason: str, now: float) -> None:
        """A member is out of reach; it may come back for a while."""
        self._members.handle_away(member, reason)
        self._timers.set(ForgetMember(member.name), now + member.grace_s)

    def _forget_member(self, name: str) -> None:
        member = self._members.forget(name)
        self._savings.put(f"member/{name}", None)
        self._timers.cancel(ForgetParts(name))
        self._events.append(MemberGone(name, member.why_away))
        self._arranger.forget_member(name)

    def _forget_unconfirmed(self, member: Member) -> None:
        self._arranger.forget_unconfirmed(member)
        if not member.has_posts:
            self._arranger.tell_posts(member)

    # Owners

    def _handle_owner(self, owner: Owner, message: Message, now: float) -> None:
        owner.heard_at = now
        match message:
            case say.Registered(name, above, is_all):
                is_new = not owner.is_joined
                self._handle_above(owner, name, above, now, is_all=is_all)
                if is_new and owner.conn is not None:
                    owner.is_joined, owner.tries = True, 0
                    self._arranger.held.handle_owner_joined(owner.address)
                    self._events.append(OwnerJoined(name))
            case say.Above(names, is_all):
                self._handle_above(owner, owner.name, names, now, is_all=is_all)
            case say.Refused(reason):
                self._retry_owner(owner, reason, now)
            case say.TopicRefused(topic, reason):
                if self._owners.serves(owner, topic):
                    self._arranger.handle_topic_refused(topic, reason, now)
            case say.Orders(topic):
                if not self._owners.serves(owner, topic):
                    self.counters["orders_refused"] += 1
                elif (orders := gather_orders(owner, message)) is not None:
                    self._arranger.handle_orders(orders)
            case say.PostAgent() | say.ReviseAgent() | say.WithdrawAgent() | say.PostsTold():
                self._arranger.handle_posts(owner, message)
            case say.Alive():
                pass
            case _:
                self.counters["unexpected"] += 1

    def _handle_above(
        self, owner: Owner, name: str, names: tuple[str, ...], now: float, *, is_all: bool
    ) -> None:
        problem = next(filter(None, map(find_scope_name_problem, (name, *names))), None)
        if problem is None and (self.name == name or self.name in names):
            problem = f"{name!r} belongs to {self.name!r} itself"
        if problem is None and self._owners.is_taken(name, owner):
            problem = f"another owner is named {name!r}, and topics have one root"
        if problem is not None:
            owner.name, owner.above = "", ()
            self._retry_owner(owner, problem, now)
            return
        before = self.above(), self._owners.knows_all()
        owner.name, owner.above, owner.knows_all = name, names, is_all
        after = self.above(), self._owners.knows_all()
        if after != before:
            for conn in self._members.connected():
                self._out.append((conn, say.Above(*after)))
        self._arranger.note_all()

    def _retry_owner(self, owner: Owner, reason: str, now: float) -> None:
        """An owner is out of reach. What it arranged stays until another one is asked."""
        if owner.conn is not None:
            self._closes.append(owner.conn)
        for topic in self._owners.handle_lost(owner):
            self._arranger.note_change(topic)
        self._events.append(OwnerLost(owner.address, reason))
        pause_s = self._config.pause_s(owner.tries)
        self._timers.set(RetryOwner(owner.address), now + pause_s)
        owner.tries += 1
        self._schedule(now)

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
