"""Agents that one node hosts, and where the other agents of their domains are.

A node is told of an agent with every view of its domain (``posts.Post``). It asks the managers
that seats name where the others are hosted, in the way in which it asks for channels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    Event,
    PeerFound,
    PeerLost,
    PeerRefused,
)
from quicksilver.scopes.management.locating import Found, Locator
from quicksilver.scopes.posts import AgentKey, DomainId, Post, Seat, key_of_post

PEERS_ASKED_MAX = 64
"""In domains with more seats only those peers are asked for that the agents name."""


@dataclass(slots=True)
class _Domain:
    """A domain that an agent of this node takes part in."""

    posts: dict[str, Post] = field(default_factory=dict)
    """Agents of this node, by the member that each speaks for."""
    named: set[str] = field(default_factory=set)
    """Peers that agents had something to say to, where not all are searched for."""
    searched: dict[str, str] = field(default_factory=dict)
    """Members whose agents are searched for, and the address that was asked first."""
    found: set[str] = field(default_factory=set)

    def newest(self) -> Post:
        return max(self.posts.values(), key=lambda post: post.view)


class Hosting:
    """The agents of one node."""

    def __init__(self, locator: Locator, events: deque[Event], *, is_dialable: bool) -> None:
        self._locator = locator
        self._events = events
        self._is_dialable = is_dialable
        self._domains: dict[DomainId, _Domain] = {}

    def posts(self) -> list[Post]:
        return [post for domain in self._domains.values() for post in domain.posts.values()]

    def peers_of(self, domain: DomainId) -> tuple[list[str], list[str]]:
        """Return the peers whose hosts are known, and those that are searched for."""
        known = self._domains[domain]
        return sorted(known.found), sorted(known.searched.keys() - known.found)

    def handle_posts(self, wanted: Iterable[Post], now: float) -> None:
        """This node hosts these agents, and no others."""
        by_key = {key_of_post(post): post for post in wanted}
        changed: dict[DomainId, None] = {}
        for old in self.posts():
            key = key_of_post(old)
            if key not in by_key:
                changed[old.domain] = None
                del self._domains[old.domain].posts[key.member]
                self._events.append(AgentWithdrawn(*key))
        for key, post in by_key.items():
            domain = self._domains.setdefault(post.domain, _Domain())
            if domain.posts.get(key.member) != post:
                changed[post.domain] = None
                domain.posts[key.member] = post
                self._events.append(AgentPosted(post))
        for each in changed:
            self._search(each, now)

    def want_peers(self, domain: DomainId, members: Iterable[str], now: float) -> None:
        """The agents of this node have to do with these peers as well."""
        known = self._domains.get(domain)
        if known is None or not known.posts:
            return
        seats = known.newest().seats
        new = {seat.member for seat in seats}.intersection(members) - known.named
        if new and len(seats) > PEERS_ASKED_MAX:
            known.named |= new
            self._search(domain, now)

    def handle_found(self, found: Found) -> None:
        assert isinstance(found.wanted, AgentKey)
        if isinstance(found.where, Link):
            domain, member = found.wanted
            self._domains[domain].found.add(member)
            self._events.append(PeerFound(domain, member, found.where))

    def handle_peer_lost(self, domain: DomainId, member: str, now: float) -> None:
        """An agent is not where it was: ask anew."""
        known = self._domains.get(domain)
        if known is not None and member in known.found:
            self._locator.handle_lost(AgentKey(domain, member), now)
            known.found.discard(member)
            self._events.append(PeerLost(domain, member))

    def _search(self, name: DomainId, now: float) -> None:
        """Search for the peers that are wanted now, and for no others."""
        domain = self._domains[name]
        seats = self._wanted_seats(domain) if domain.posts else {}
        for member, address in list(domain.searched.items()):
            seat = seats.get(member)
            if seat is None or seat.address != address:
                del domain.searched[member]
                if address:
                    self._locator.forget(AgentKey(name, member))
                if member in domain.found:
                    domain.found.discard(member)
                    self._events.append(PeerLost(name, member))
        for member, seat in seats.items():
            if member in domain.searched:
                continue
            domain.searched[member] = seat.address
            if seat.address:
                self._locator.find(say.RequestAgent(name, (member,)), seat.address, now)
            elif not self._is_dialable:
                reason = "neither this node nor the peer can be dialled"
                self._events.append(PeerRefused(name, member, reason))
        if not domain.posts:
            del self._domains[name]

    def _wanted_seats(self, domain: _Domain) -> dict[str, Seat]:
        seats = domain.newest().seats
        are_all_asked = len(seats) <= PEERS_ASKED_MAX
        domain.named.intersection_update(seat.member for seat in seats)
        return {
            seat.member: seat
            for seat in seats
            if seat.member not in domain.posts and (are_all_asked or seat.member in domain.named)
        }
