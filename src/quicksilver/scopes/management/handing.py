"""Agents on their way down: who hosts them, or hands them on.

An agent speaks for a domain in another one. It is handed to the member that leads the domain
spoken for, and that one hands it to the leader of its own domain, and so on to a node
(delegation chains, dissertation 3.2.13). So an agent is always where the agent is that knows
the state of what it speaks for. When a host goes another one leads, and the agent is handed
there: nobody above or beside has to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.domains import Domain, Domains
from quicksilver.scopes.management.messages import Message
from quicksilver.scopes.names import PARTS_MAX
from quicksilver.scopes.posts import (
    AgentKey,
    DomainId,
    Post,
    Seat,
    key_of_post,
    parse_part,
    seat_rank,
    spoken_for,
)

HELD_MAX = 20_000
HELD_BYTES_MAX = 64 << 20
"""Posts that the owners of a scope may give it."""


@dataclass(slots=True)
class _Held:
    """An agent that an owner gave to this scope."""

    owner: str
    """The owner's address."""
    post: Post
    size: int
    is_told: bool = True
    """False: the owner has connected anew since, and has not named it again."""


class Held:
    """The agents that owners gave to one scope."""

    def __init__(self) -> None:
        self._posts: dict[AgentKey, _Held] = {}
        self._bytes = 0

    def handle_posted(self, owner: str, post: Post) -> str | None:
        """Take an agent; return why there is no room for it, or None."""
        key, size = key_of_post(post), len(say.encode(post))
        self._drop(key)
        if len(self._posts) >= HELD_MAX or self._bytes + size > HELD_BYTES_MAX:
            return f"it is one of more than {HELD_MAX:,} agents, or of {HELD_BYTES_MAX:,} bytes"
        self._posts[key] = _Held(owner, post, size)
        self._bytes += size
        return None

    def revise(self, owner: str, change: say.ReviseAgent) -> Post | None:
        """Return an agent with a new view of its domain; None: the view before is not here."""
        held = self._posts.get(AgentKey(change.domain, change.member))
        if held is None or held.owner != owner or held.post.view != change.base:
            return None
        away = {*change.gone, *(seat.member for seat in change.come)}
        seats = [seat for seat in held.post.seats if seat.member not in away]
        seats += change.come
        seats.sort(key=lambda seat: seat_rank(change.domain, seat))
        return msgspec.structs.replace(held.post, view=change.view, seats=tuple(seats))

    def handle_withdrawn(self, owner: str, key: AgentKey) -> None:
        held = self._posts.get(key)
        if held is not None and held.owner == owner:
            self._drop(key)

    def handle_owner_joined(self, owner: str) -> None:
        """An owner tells everything again."""
        for held in self._posts.values():
            held.is_told = held.is_told and held.owner != owner

    def handle_told(self, owner: str) -> None:
        """An owner has told everything again: what it has not named is withdrawn."""
        for key in [k for k, h in self._posts.items() if h.owner == owner and not h.is_told]:
            self._drop(key)

    def posts(self, serves: Callable[[str, str], bool]) -> list[Post]:
        """Return the agents, each for those topics that its owner has a say in."""
        found = []
        for held in self._posts.values():
            post = held.post
            topics = tuple(topic for topic in post.topics if serves(held.owner, topic))
            if topics:
                is_whole = len(topics) == len(post.topics)
                found.append(post if is_whole else msgspec.structs.replace(post, topics=topics))
        return found

    def __len__(self) -> int:
        return len(self._posts)

    def _drop(self, key: AgentKey) -> None:
        held = self._posts.pop(key, None)
        if held is not None:
            self._bytes -= held.size


class Handing:
    """The agents that one scope hands to its members."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._of_domains: dict[DomainId, dict[AgentKey, tuple[str, Post]]] = {}
        """Agents of members and parts in this scope's own domains."""
        self._handed: dict[AgentKey, tuple[str, Post]] = {}
        """Who was given which agent."""

    def find(self, key: AgentKey) -> tuple[str, Post] | None:
        """Return the member that an agent was handed to, and how."""
        return self._handed.get(key)

    def all(self) -> list[tuple[str, Post]]:
        """Return all agents, and who each was handed to."""
        return list(self._handed.values())

    def of_member(self, member: str) -> list[Post]:
        return [post for name, post in self._handed.values() if name == member]

    def update(
        self, domains: Domains, changed: Iterable[DomainId], held: list[Post]
    ) -> list[tuple[str, Message]]:
        """Work out who hosts what; return what members are to be told."""
        for name in changed:
            domain = domains.find(name)
            if domain is None:
                self._of_domains.pop(name, None)
            else:
                self._of_domains[name] = dict(self._posts_of(domain, domains))
        wanted: dict[AgentKey, tuple[str, Post]] = {}
        for posts in self._of_domains.values():
            wanted.update(posts)
        by_domain: dict[DomainId, list[Post]] = {}
        for post in held:
            by_domain.setdefault(post.domain, []).append(post)
        for post in held:
            member = find_host(self._scope, domains, by_domain, post)
            if member is not None:
                wanted[key_of_post(post)] = member, _handed_on(post, member)
        return self._replace(wanted)

    def _posts_of(
        self, domain: Domain, domains: Domains
    ) -> Iterable[tuple[AgentKey, tuple[str, Post]]]:
        for seat in domain.seats:
            part = parse_part(seat.member)
            member = seat.member if part is None else find_leader(domains, part)
            if member is None:
                continue
            post = Post(
                domain.id,
                domain.view,
                domain.used_protocol,
                (seat.member,) if part is None else (seat.member, member),
                domain.seats,
                domain.topics,
                domain.is_top,
            )
            yield key_of_post(post), (member, post)

    def _replace(self, wanted: dict[AgentKey, tuple[str, Post]]) -> list[tuple[str, Message]]:
        told: list[tuple[str, Message]] = []
        for key, (member, _) in self._handed.items():
            if key not in wanted or wanted[key][0] != member:
                told.append((member, say.WithdrawAgent(*key)))
        changes: dict[tuple[int, int], _Change] = {}
        for key, (member, post) in wanted.items():
            before = self._handed.get(key)
            if before == (member, post):
                continue
            if before is None or before[0] != member or not _is_revision(before[1], post):
                told.append((member, say.PostAgent(post)))
                continue
            # All agents of a domain have the same seats: they are compared once.
            seats = before[1].seats, post.seats
            place = id(seats[0]), id(seats[1])
            if place not in changes:
                changes[place] = _compare(*seats)
            views = before[1].view, post.view
            told.append((member, say.ReviseAgent(*key, *views, *changes[place])))
        self._handed = wanted
        return told


_Change = tuple[tuple[str, ...], tuple[Seat, ...]]
"""Whose seats are gone, and which are new."""


def _is_revision(before: Post, after: Post) -> bool:
    """Whether two posts differ in their views only."""
    return msgspec.structs.replace(before, view=after.view, seats=after.seats) == after


def _compare(before: tuple[Seat, ...], after: tuple[Seat, ...]) -> _Change:
    new = dict.fromkeys(after)
    members = {seat.member for seat in after}
    for seat in before:
        new.pop(seat, None)
    return tuple(seat.member for seat in before if seat.member not in members), tuple(new)


def find_leader(domains: Domains, name: DomainId) -> str | None:
    """Return the member that leads one of a scope's domains; None: there is no such domain."""
    domain = domains.find(name)
    if domain is None or not domain.seats:
        return None
    first = domain.seats[0].member
    part = parse_part(first)
    return first if part is None else find_leader(domains, part)


def find_host(
    scope: str, domains: Domains, held: dict[DomainId, list[Post]], post: Post
) -> str | None:
    """Return the member of a scope that an agent is handed to; None: not known, or not yet.

    It speaks for one of the scope's own domains, or for a domain further up in which the scope
    leads: then it goes where the agent goes that the scope has there. Whoever lies about that
    could lead in circles; so there are not many steps.
    """
    for _ in range(2 * PARTS_MAX):
        name = spoken_for(post)
        if name is None:
            return None
        if name.scope == scope:
            return find_leader(domains, name)
        below = [each for each in held.get(name, []) if each.path[0] == each.seats[0].member]
        if not below:
            return None
        post = below[0]
    return None


def _handed_on(post: Post, member: str) -> Post:
    return msgspec.structs.replace(post, path=(*post.path, member))
