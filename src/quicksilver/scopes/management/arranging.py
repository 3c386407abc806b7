"""What a scope arranges for its topics, out of what members want and owners order.

Changes are noted as they come and worked out together a moment later: to work out all for
every change would take time that grows with the square of the members. Then owners are asked,
and members are told, of what is new to them and of nothing else.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from quicksilver.scopes.dissemination.carrying import Carrier
from quicksilver.scopes.dissemination.policies.base import Policy, SharedPolicy
from quicksilver.scopes.dissemination.policies.trees import Star
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.domains import Domains
from quicksilver.scopes.management.events import (
    ChannelRefused,
    Event,
    OrdersTooLarge,
    PolicyRefused,
    PostRefused,
    TopicFailed,
    TopicLeft,
)
from quicksilver.scopes.management.handing import Handing, Held
from quicksilver.scopes.management.hosting import Hosting
from quicksilver.scopes.management.mechanisms import AddressRange, find_medium, find_regions
from quicksilver.scopes.management.members import Member, Members
from quicksilver.scopes.management.messages import (
    ENDS_MAX,
    NO_DOMAIN,
    REASON_MAX,
    Flavour,
    Message,
    Orders,
    split_orders,
)
from quicksilver.scopes.management.owners import Owner, Owners, find_orders_problem
from quicksilver.scopes.management.planning import Plan, plan_topic
from quicksilver.scopes.management.saving import Numbers, SavedTopic, Savings
from quicksilver.scopes.management.sessions import follow, handle_flushed
from quicksilver.scopes.management.topics import (
    NO_RECOVERY,
    Part,
    Topic,
    find_share_problem,
    find_topic_problem,
)
from quicksilver.scopes.names import root_of
from quicksilver.scopes.posts import AgentKey, DomainId, Post, find_post_problem

STEPS_MAX = 2_000
"""Members that are told of topics at one time, 0.2 s of work; the rest has its turn a moment
later. A member that crashes may have had many topics, and others want an answer."""

PROTOCOL_MAX = 64
"""Characters of the name of a recovery protocol."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the administrator of a scope chooses, topic by topic."""

    policy_of: Callable[[str], Policy]
    recovery_of: Callable[[str], str]
    flavour_of: Callable[[str], Flavour]


@dataclass(frozen=True, slots=True)
class Node:
    """The parts of a manager whose scope is a node."""

    carrier: Carrier
    hosting: Hosting


class Arranger:
    """The topics of one scope."""

    def __init__(
        self,
        name: str,
        address: str,
        node: Node | None,
        members: Members,
        owners: Owners,
        choices: Choices,
        config: Config,
        savings: Savings,
        out: deque[tuple[int, Message]],
        events: deque[Event],
    ) -> None:
        """What is to be said and told goes into the manager's own queues."""
        self.name = name
        self.counters: Counter[str] = Counter()
        self._node = node
        self._members = members
        self._owners = owners
        self._choices = choices
        self._config = config
        self._savings = savings
        self._numbers = Numbers(savings)
        self._out = out
        self._events = events
        self._addresses = AddressRange(config.multicast) if config.multicast else None
        self.topics: dict[str, Topic] = {}
        self.plans: dict[str, Plan] = {}
        """What members were told to do, by topic."""
        self.domains = Domains(
            name,
            address,
            lambda member: members.by_name[member].address,
            self._numbers,
            savings,
            config.dissolve_s,
        )
        self.held = Held()
        """Agents that owners gave to this scope."""
        self.handing = Handing(name)
        self.is_settled = self.is_owner_settled = True
        """False: a manager that has started again waits for its members, or for its owners."""
        self.changed: dict[str, None] = {}
        """Topics that are to be worked out …"""
        self.has_new_posts = False
        """… and whether agents are."""

    # What members want

    def handle_part(self, member: str, name: str, part: Part) -> None:
        """A member, or this node itself, wants something of a topic."""
        topic = self.topics.get(name)
        known = self._members.by_name.get(member)
        address = "" if known is None else known.address
        if topic is None:
            if not part.wants_any:
                return
            problem = self._find_topic_problem(name, known)
            if problem is not None:
                self._refuse_topic(member, name, problem)
                return
            topic = self._create_topic(name)
        if part.wants_any and not topic.has_room(member, address):
            reason = f"{self.name!r} has too many members with {name!r}: divide it"
            self._refuse_topic(member, name, reason)
            return
        self._set_part(topic, member, part)
        if known is not None and part.wants_any:
            known.confirmed.add(name)
            self.has_new_posts = self.has_new_posts or not known.has_posts
        elif known is not None:
            known.confirmed.discard(name)

    def handle_member_changed(self, member: Member) -> None:
        """A member has registered anew, and differs from what it was."""
        numbers = set()
        for topic in self.topics.values():
            part = topic.parts.get(member.name)
            if part is not None:
                numbers.add(part.domain)
                self._set_part(topic, member.name, replace(part, is_member=member.is_member))
        self.domains.handle_address(member.name, numbers)
        self.has_new_posts = True

    def forget_member(self, name: str) -> None:
        for topic in list(self.topics.values()):
            if name in topic.parts:
                self._set_part(topic, name, None)

    def forget_unconfirmed(self, member: Member) -> None:
        """A member that came back has not said again what it wanted of some topics."""
        for topic in list(self.topics.values()):
            if member.name in topic.parts and topic.name not in member.confirmed:
                self._set_part(topic, member.name, None)
                member.told.pop(topic.name, None)
        self.has_new_posts = True

    def handle_confirm(self, member: str, confirm: say.Confirm) -> None:
        """A member says how far it has come with the sessions of a topic."""
        topic = self.topics.get(confirm.topic)
        if topic is None or member not in topic.parts:
            self.counters["unexpected"] += 1
            return
        topic.sessions.progress[member] = confirm.installed, confirm.flushed
        self.note_change(topic.name)

    def _set_part(self, topic: Topic, member: str, part: Part | None) -> None:
        known = self._members.by_name.get(member)
        before = topic.party_of(member)
        topic.handle_part(member, part, "" if known is None else known.address)
        after = topic.party_of(member)
        if before != after:
            if after is not None:
                self._note_topic_domain(topic)
                self.domains.handle_party(topic.name, after, takes_part=True)
            if before is not None:
                self.domains.handle_party(topic.name, before, takes_part=False)
        self.note_change(topic.name)

    def _find_topic_problem(self, name: str, member: Member | None) -> str | None:
        knows_all = self._owners.knows_all()
        problem = find_topic_problem(name, self.name, self._owners.above(), knows_all=knows_all)
        if problem is None:
            own = 0 if member is None else len(member.confirmed)
            count = len(self._members.by_name)
            problem = find_share_problem(self.name, len(self.topics), count, own)
        return problem

    def _refuse_topic(self, member: str, topic: str, reason: str) -> None:
        self.counters["topics_refused"] += 1
        reason = reason[:REASON_MAX]
        if member == self.name:
            self._events.append(TopicFailed(topic, reason))
        else:
            self._tell(member, say.TopicRefused(topic, reason))

    def _choose(self, name: str) -> tuple[Policy, str, str]:
        """Return the policy and the recovery protocol of a topic, and what was wrong with them.

        They are the administrator's, and may be anybody's code.
        """
        try:
            policy = self._choices.policy_of(name)
            _ = policy.mechanism, isinstance(policy, SharedPolicy)
        except Exception as error:  # noqa: BLE001  # anybody's code
            problem = f"to choose it raised {type(error).__name__}: {error}; a star serves"
            return Star(), NO_RECOVERY, problem
        if self._node is not None:
            return policy, NO_RECOVERY, ""
        try:
            protocol = self._choices.recovery_of(name)
        except Exception as error:  # noqa: BLE001  # anybody's code
            problem = f"to choose how to recover raised {type(error).__name__}: {error}"
            return policy, NO_RECOVERY, problem
        return policy, protocol[:PROTOCOL_MAX], ""

    def _create_topic(self, name: str) -> Topic:
        policy, protocol, refused = self._choose(name)
        saved = self._savings.get(f"topic/{name}", SavedTopic) or SavedTopic()
        where, goes_to_regions = None, False
        if policy.mechanism is not None and self._node is None:
            if self._addresses is not None and policy.mechanism == "multicast":
                self._addresses.assign(name, saved.address)
            found = find_medium(policy.mechanism, name, protocol, self._addresses)
            goes_to_regions = found is None
            if isinstance(found, str):
                policy, refused = Star(), f"{found}; a star serves"
            else:
                where = found
        topic = Topic(name, policy, protocol, is_root=root_of(name) == self.name)
        topic.where, topic.refused, topic.goes_to_regions = where, refused, goes_to_regions
        topic.sessions.sessions, topic.sessions.pending = saved.sessions, saved.pending
        self.topics[name] = topic
        return topic

    # What owners want

    def handle_orders(self, orders: Orders) -> None:
        """The owner that was asked for a topic says what it wants."""
        topic = self.topics[orders.topic]
        problem = find_orders_problem(self.name, orders, is_node=self._node is not None)
        if problem is not None:
            self.counters["orders_refused"] += 1
            return
        topic.sources, topic.targets, topic.media = orders.sources, orders.targets, orders.media
        topic.sessions.handle_told(orders.sessions)
        topic.is_ordered, topic.is_recovered_above = True, orders.recovers
        topic.known_above = orders.is_publisher, orders.is_subscriber
        self._note_topic_domain(topic)
        self.note_change(topic.name)

    def handle_topic_refused(self, name: str, reason: str, now: float) -> None:
        topic = self.topics[name]
        for member in list(topic.parts):
            self._refuse_topic(member, name, reason)
            self._set_part(topic, member, None)
        self._leave_topic(topic, now)
        self.has_new_posts = True

    def handle_posts(
        self,
        owner: Owner,
        message: say.PostAgent | say.ReviseAgent | say.WithdrawAgent | say.PostsTold,
    ) -> None:
        """An owner hands an agent down, or takes it away."""
        self.has_new_posts = True
        match message:
            case say.PostAgent(post):
                self._take_post(owner, post)
            case say.ReviseAgent():
                self._take_post(owner, self.held.revise(owner.address, message))
            case say.WithdrawAgent(domain, member):
                self.held.handle_withdrawn(owner.address, AgentKey(domain, member))
            case say.PostsTold():
                owner.has_told_posts = True
                self.held.handle_told(owner.address)

    def _take_post(self, owner: Owner, post: Post | None) -> None:
        if post is None:
            problem: str | None = "the view that it revises is not here"
        else:
            problem = find_post_problem(post, self.name, owner.name)
            problem = problem or self.held.handle_posted(owner.address, post)
        if problem is not None:
            self.counters["posts_refused"] += 1
            self._events.append(PostRefused(owner.name, problem[:REASON_MAX]))

    def note_change(self, topic: str) -> None:
        self.changed[topic] = None

    def note_all(self) -> None:
        self.changed.update(dict.fromkeys(self.topics))
        self.has_new_posts = True

    def forget_saved_topics(self) -> None:
        """Nobody has come back for some of the topics that were here before."""
        for name in self._savings.names("topic/"):
            if name not in self.topics:
                self._savings.put(f"topic/{name}", None)

    # Sessions

    def change_session(self, name: str, flavour: Flavour) -> str | None:
        """Have a new session of a topic begin; return why not, or None."""
        topic = self.topics.get(name)
        if topic is None or not topic.is_root:
            return f"{name!r} is not rooted in {self.name!r}, or nobody takes part in it"
        topic.sessions.pending = flavour
        self.note_change(name)
        return None

    def handle_nominated(self, nominated: say.Nominate) -> None:
        """A node offers to say the order of a session: the root takes the first that does."""
        topic = self.topics.get(nominated.topic)
        sessions = None if topic is None else topic.sessions
        if sessions is None or not sessions.knows_term(nominated.session, nominated.term):
            self.counters["nominated_late"] += 1
            return
        asked = self._owners.asked.get(nominated.topic)
        if topic is not None and topic.is_root:
            sessions.choose(nominated.session, nominated.sender, self._numbers.next())
            self.note_change(topic.name)
        elif asked is not None and asked[0].conn is not None:
            self._out.append((asked[0].conn, nominated))

    def handle_flushed(self, name: str, number: int) -> None:
        topic = self.topics.get(name)
        if topic is not None and handle_flushed(topic.sessions, self.name, number):
            self.note_change(name)

    def _work_sessions(self, topic: Topic) -> None:
        """Let sessions go on as far as everybody has come, and say how far that is."""
        sessions = topic.sessions
        everybody = [m for m, part in topic.parts.items() if part.is_member]
        if topic.is_root:
            if not sessions.sessions:
                flavour = self._choices.flavour_of(topic.name)
                sessions.change(self._numbers.next(), flavour)
            progress = sessions.gather(everybody)
            while progress is not None and sessions.advance(progress):
                pass
            if sessions.pending is not None and not sessions.is_changing():
                sessions.change(self._numbers.next(), sessions.pending)
                sessions.pending = None
        if self._node is not None:
            self._events.extend(follow(topic.name, sessions, self.name))
        asked = self._owners.asked.get(topic.name)
        progress = sessions.gather(everybody)
        if asked is not None and progress not in (None, sessions.said):
            assert progress is not None
            assert asked[0].conn is not None
            self._out.append((asked[0].conn, say.Confirm(topic.name, *progress)))
            sessions.said = progress
        address = "" if topic.where is None else topic.where.name
        if topic.is_root or address:
            own = sessions.sessions if topic.is_root else ()
            record = SavedTopic(own, sessions.pending, address)
            self._savings.put(f"topic/{topic.name}", record)

    # Working it out

    def work_out(self, now: float) -> None:
        """Ask owners and tell members whatever is new to them."""
        if not self.is_settled:
            return
        changed, self.changed = self.changed, {}
        addresses = self._members.addresses()
        domains = self.domains.update(now)
        self._note_regions()
        changed.update(self.changed)
        self.changed = {}
        steps = 0
        for name in {**changed, **self.domains.pop_touched()}:
            topic = self.topics.get(name)
            if topic is None:
                continue
            self._ask_above(topic)
            if not topic.parts:
                self._leave_topic(topic, now)
                self.has_new_posts = True
            elif name in changed and steps >= STEPS_MAX:
                self.note_change(name)
            elif name in changed:
                steps += len(topic.parts)
                self._work_sessions(topic)
                if topic.is_ordered or self.is_owner_settled:
                    self._give_orders(topic, addresses, now)
        if domains or self.has_new_posts:
            self._give_posts(domains, now)
        self.has_new_posts = False

    def _note_regions(self) -> None:
        """Have topics worked out whose regions have changed."""
        for name in self.domains.touched:
            topic = self.topics.get(name)
            if topic is not None and topic.goes_to_regions:
                self.note_change(name)
        for region in self.domains.pop_regions_gone():
            if self._addresses is not None:
                self._addresses.release(region)

    def _leave_topic(self, topic: Topic, now: float) -> None:
        """Nobody here takes part any more."""
        del self.topics[topic.name]
        self.plans.pop(topic.name, None)
        self.changed.pop(topic.name, None)
        self._owners.asked.pop(topic.name, None)
        self._savings.put(f"topic/{topic.name}", None)
        if self._addresses is not None:
            self._addresses.release(topic.name)
        for member in self._members.by_name.values():
            member.told.pop(topic.name, None)
            member.confirmed.discard(topic.name)
        if self._node is not None:
            self._node.carrier.handle_orders(Orders(topic.name, (), ()), now)
            self._events.append(TopicLeft(topic.name))

    def _ask_above(self, topic: Topic) -> None:
        """Tell an owner what this scope wants of a topic, if that is news."""
        if topic.is_root:
            return
        publishes, subscribes = topic.wants()
        wants_any = publishes or subscribes
        owner = self._owners.for_topic(topic.name) if wants_any else None
        asked = self._owners.asked.get(topic.name)
        if asked is not None and asked[0] is not owner:
            old, (domain, _, _) = self._owners.asked.pop(topic.name)
            assert old.conn is not None
            nothing = say.Subscribe(topic.name, domain, publishes=False, subscribes=False)
            self._out.append((old.conn, nothing))
            topic.forget_owner()
            self._note_topic_domain(topic)
            self.has_new_posts = True
        wants = self._domain_of(topic), publishes, subscribes
        if owner is not None and asked != (owner, wants):
            assert owner.conn is not None
            self._out.append((owner.conn, say.Subscribe(topic.name, *wants)))
            if asked is None or asked[0] is not owner:
                topic.sessions.said = None
            self._owners.asked[topic.name] = owner, wants

    def _domain_of(self, topic: Topic) -> int:
        """Return the number of this scope's own domain for a topic."""
        if self._node is not None:
            return 0
        number = self.domains.number_for(topic.name)
        return NO_DOMAIN if number is None else number

    def _note_topic_domain(self, topic: Topic) -> None:
        if topic.protocol != NO_RECOVERY:
            is_top = not topic.is_recovered_above
            self.domains.handle_topic(topic.name, topic.protocol, is_top=is_top)

    def _give_orders(self, topic: Topic, addresses: dict[str, str], now: float) -> None:
        """Work out what everybody has to do, and tell those for whom it has changed."""
        if self._node is not None:
            orders = Orders(topic.name, topic.sources, topic.targets, topic.media)
            self._node.carrier.handle_orders(orders, now)
            return
        before = self.plans.get(topic.name)
        regions = None
        if topic.goes_to_regions:
            assert self._addresses is not None
            parts = self.domains.regions_of(topic.name)
            regions = find_regions(topic, parts, self._addresses)
        plan = plan_topic(self.name, topic, addresses, regions, waits=self._config.waits)
        self.plans[topic.name] = plan
        for name in plan.work:
            orders = plan.orders(topic, name)
            member = self._members.by_name[name]
            ends = len(orders.sources) + len(orders.targets)
            if ends > ENDS_MAX:
                self._events.append(OrdersTooLarge(topic.name, name, ends))
            elif member.told.get(topic.name) != orders:
                member.told[topic.name] = orders
                for part in split_orders(orders):
                    self._tell(name, part)
        problems = topic.problems()
        for origin, problem in problems.items():
            if topic.told_problems.get(origin) != problem:
                self._events.append(PolicyRefused(topic.name, origin, problem))
        topic.told_problems = problems
        for channel, reason in plan.refused.items():
            if before is None or before.refused.get(channel) != reason:
                self._events.append(ChannelRefused(topic.name, channel, reason))

    def _give_posts(self, changed: list[DomainId], now: float) -> None:
        """Work out where agents are, and tell those for whom that has changed."""
        held = self.held.posts(self._has_say)
        if self._node is not None:
            self._node.hosting.handle_posts(held, now)
            return
        for member, message in self.handing.update(self.domains, changed, held):
            known = self._members.by_name.get(member)
            if known is not None and known.has_posts:
                self._tell(member, message)
        for each in self._members.by_name.values():
            if not each.has_posts and each.confirmed:
                self.tell_posts(each)

    def tell_posts(self, member: Member) -> None:
        """Tell a member of all agents that are its, whatever it was told before.

        A manager that has started again does so once it knows what its owners want.
        """
        owners = [asked for asked, _ in self._owners.asked.values()]
        is_sure = self.is_owner_settled or all(owner.has_told_posts for owner in owners)
        if member.conn is None or not self.is_settled or not is_sure:
            return
        member.has_posts = True
        for post in self.handing.of_member(member.name):
            self._tell(member.name, say.PostAgent(post))
        self._tell(member.name, say.PostsTold())

    def _has_say(self, owner: str, topic: str) -> bool:
        return topic in self.topics and self._owners.has_say(owner, topic)

    def _tell(self, member: str, message: Message) -> None:
        known = self._members.by_name.get(member)
        if known is not None and known.conn is not None:
            self._out.append((known.conn, message))
