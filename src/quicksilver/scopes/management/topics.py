"""A topic as one scope sees it: who in it wants what, and what its owner wants of it.

"Each SM thus has only a partial membership view for each topic" (dissertation 3.2.10): a
scope knows which of its own members take part and no more of them than the number of their
domain. It asks its owner for the topic when the first member does, and says no more until
the last one is gone, however many come and go between.
"""

from __future__ import annotations

from dataclasses import dataclass

from quicksilver.scopes.dissemination.channels import External
from quicksilver.scopes.dissemination.container import PolicyContainer
from quicksilver.scopes.dissemination.policies.base import Policy
from quicksilver.scopes.management.domains import SEATS_BYTES_MAX, Party, seat_bytes
from quicksilver.scopes.management.messages import NO_DOMAIN, Medium, Source, Target
from quicksilver.scopes.management.sessions import TopicSessions
from quicksilver.scopes.names import find_topic_name_problem, root_of
from quicksilver.scopes.routing import EVERY, Channel

TOPICS_MAX = 10_000
"""Topics of one scope. Of one half of them each member is sure of its share."""

NO_RECOVERY = "none"


@dataclass(frozen=True, slots=True)
class Part:
    """What a member wants of a topic."""

    domain: int
    publishes: bool
    subscribes: bool
    is_member: bool = True
    """False: a client, which gets messages and does no work."""

    @property
    def wants_any(self) -> bool:
        return self.publishes or self.subscribes


class Topic:
    """One topic in one scope."""

    def __init__(self, name: str, policy: Policy, protocol: str, *, is_root: bool) -> None:
        self.name = name
        self.policy = policy
        self.protocol = protocol
        """How losses are recovered in this scope; ``NO_RECOVERY``: not at all."""
        self.is_root = is_root
        self.parts: dict[str, Part] = {}
        self.sources: tuple[Source, ...] = ()
        self.targets: tuple[Target, ...] = ()
        """Ends of channels that the owner gave to this scope …"""
        self.media: tuple[Medium, ...] = ()
        """… and mechanisms of scopes above that it has a part in."""
        self.where: External | None = None
        """The mechanism between this scope's own members, if its policy is one …"""
        self.goes_to_regions = False
        """Whether each part of the scope has a mechanism to itself, for all its topics …"""
        self.refused = ""
        """… or why it cannot be used."""
        self.told_problems: dict[str, str] = {}
        """Faults of the policy that whoever runs the manager knows of."""
        self.is_ordered = is_root
        """True once the owner has said what it wants, on whatever connection."""
        self.known_above = is_root, is_root
        """Whether all owners know that somebody here publishes, and that somebody subscribes."""
        self.is_recovered_above = not is_root
        """False: the owner has no domain for the topic, or nobody is above."""
        self.sessions = TopicSessions()
        self.container = PolicyContainer(policy)
        self._seats_bytes = 0
        self._sizes: dict[str, int] = {}

    def has_room(self, member: str, address: str) -> bool:
        """Whether a view that a member is in can be told to all others."""
        size = seat_bytes(member, address)
        return member in self.parts or self._seats_bytes + size <= SEATS_BYTES_MAX

    def handle_part(self, member: str, part: Part | None, address: str = "") -> None:
        """A member wants something else; None: nothing."""
        if self.parts.pop(member, None) is not None:
            self._seats_bytes -= self._sizes.pop(member)
        if part is not None and part.wants_any:
            self.parts[member] = part
            self._sizes[member] = seat_bytes(member, address)
            self._seats_bytes += self._sizes[member]
        else:
            self.sessions.progress.pop(member, None)

    def party_of(self, member: str) -> Party | None:
        """Return a member's domain as far as it takes part in this scope's recovery."""
        part = self.parts.get(member)
        if self.protocol == NO_RECOVERY or part is None or not part.is_member:
            return None
        return Party(member, part.domain) if part.domain > NO_DOMAIN else None

    def wants(self) -> tuple[bool, bool]:
        """Return whether anybody in the scope publishes, and whether anybody subscribes."""
        parts = self.parts.values()
        return any(p.publishes for p in parts), any(p.subscribes for p in parts)

    def problems(self) -> dict[str, str]:
        """Return why the policy was not obeyed, by origin."""
        refused = {EVERY: self.refused} if self.refused else {}
        return {**refused, **self.container.problems()}

    def forget_owner(self) -> None:
        """Another owner is asked, or none: what the last one wanted does not count."""
        self.sources, self.targets, self.media = (), (), ()
        self.known_above = self.is_root, self.is_root
        self.is_recovered_above = not self.is_root

    def find_target(self, asked: Channel) -> Target | None:
        """Return the announced end that is asked for, whoever works the channel's source."""
        for target in self.targets:
            channel = target.channel
            if (channel.scope, channel.source[0], channel.origin, channel.target) == (
                asked.scope,
                asked.source[0],
                asked.origin,
                asked.target,
            ):
                return target
        return None

    def find_source(self, asked: Channel) -> Source | None:
        """Return the source that a target asks for, which comes by itself."""
        for source in self.sources:
            channel = source.channel
            if (channel.scope, channel.target[0], channel.origin, channel.source) == (
                asked.scope,
                asked.target[0],
                asked.origin,
                asked.source,
            ):
                return source if not source.address else None
        return None


def find_topic_problem(
    name: str, scope: str, above: tuple[str, ...], *, knows_all: bool
) -> str | None:
    """Return why a scope cannot have a topic, or None; ``knows_all``: no more is above."""
    problem = find_topic_name_problem(name)
    if problem is not None:
        return problem
    root = root_of(name)
    if root == scope or root in above or not knows_all:
        return None
    return f"no owner of {scope!r} leads to {root!r}"


def find_share_problem(scope: str, topics: int, members: int, own: int) -> str | None:
    """Return why a member cannot have one topic more, or None.

    The first half of the table is for whoever comes first. The other half is divided: nobody
    can take the share of the others.
    """
    if topics >= TOPICS_MAX:
        return f"{scope!r} has {TOPICS_MAX:,} topics, which is the most"
    half = TOPICS_MAX // 2
    share = half // max(1, members)
    if topics >= half and own >= share:
        return f"{scope!r} has {topics:,} topics, and each member may have {share:,} now"
    return None
