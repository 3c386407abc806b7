"""Agents as managers hand them out: which node speaks for whom, in which domain.

A recovery domain exists inside the manager of its scope. What members do in it is done by
agents, one for each member of the domain; an agent is handed down from the member that it
speaks for to one of its nodes, as the ends of channels are (dissertation 3.2.11, 3.2.13). A
post is such an agent. Always the whole of it is told: whoever starts again needs no history.

A part of a scope, the members with the same topics, has a domain of its own and no name of
its own: in the domain of a topic its seat is named after both, ``campus:7``. No scope's name
has a colon.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, NamedTuple

import msgspec

from quicksilver.scopes.names import Address, Name, Path

SEATS_MAX = 10_000
"""Members of one domain."""

TOPICS_MAX = 10_000
"""Topics that one domain serves."""


class DomainId(msgspec.Struct, frozen=True, array_like=True):
    """A recovery domain; its number is never used again in its scope."""

    scope: Name
    number: int


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """A member of a domain: a node, a part of the same scope, or a scope inside."""

    member: Name
    domain: int
    """The member's own domain, which it speaks for; 0: it is a node, and speaks for itself."""
    address: Address
    """Of the manager that knows where the member's agent is; empty: it cannot be dialled."""


class Post(msgspec.Struct, frozen=True, array_like=True):
    """An agent that a member is to host, or to hand on."""

    domain: DomainId
    """The domain in which the agent takes part."""
    view: int
    """Of the domain: grows with every change of its members."""
    protocol: Name
    """How the agents of the domain hold rounds: ``ring``, ``star``, ``tree:3``, ``gossip:2``,
    ``requests``."""
    path: Path
    """The member that the agent speaks for, then who it was handed to, down to a node."""
    seats: Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_MAX)]
    """All members of the view; the first one leads."""
    topics: Annotated[tuple[Name, ...], msgspec.Meta(max_length=TOPICS_MAX)]
    """What the domain serves."""
    is_top: bool
    """True: the domain has no other above it, for these topics."""


class AgentKey(NamedTuple):
    """An agent, whoever hosts it: its domain, and the member that it speaks for."""

    domain: DomainId
    member: str


def key_of_post(post: Post) -> AgentKey:
    return AgentKey(post.domain, post.path[0])


def seat_rank(domain: DomainId, seat: Seat) -> tuple[bool, bytes]:
    """Return what seats are sorted by: those that can be dialled first, then by lot.

    A lot depends on two names alone (rendezvous hashing), so who comes or goes moves nobody else.
    """
    text = f"{domain.scope}:{domain.number} {seat.member}".encode("utf-8", "surrogatepass")
    return not seat.address, blake2b(text, digest_size=8).digest()


def part_name(scope: str, number: int) -> str:
    """Return how the seat of a part of a scope is named."""
    return f"{scope}:{number}"


def parse_part(member: str) -> DomainId | None:
    """Return the domain of the part that a seat's name stands for; None: it is a member's."""
    scope, colon, number = member.rpartition(":")
    if not (colon and scope and number.isascii() and number.isdigit() and len(number) <= 19):
        return None
    return DomainId(scope, int(number))


def way_of(post: Post) -> Path:
    """Return who an agent was handed to, from a member of the domain's scope down to a node."""
    return post.path if parse_part(post.path[0]) is None else post.path[1:]


def spoken_for(post: Post) -> DomainId | None:
    """Return the domain that an agent speaks for; None: a node, or nothing that has a seat."""
    part = parse_part(post.path[0])
    if part is not None:
        return part
    for seat in post.seats:
        if seat.member == post.path[0]:
            return DomainId(seat.member, seat.domain) if seat.domain > 0 else None
    return None


def find_post_problem(post: Post, scope: str, owner: str) -> str | None:
    """Return why an owner cannot hand this agent to a scope, or None."""
    way = way_of(post)
    if not way or way[-1] != scope:
        return f"its path {':'.join(post.path)!r} does not lead to {scope!r}"
    above = way[-2] if len(way) > 1 else post.domain.scope
    if above != owner:
        return f"{owner!r} hands on what belongs to {above!r}"
    members = [seat.member for seat in post.seats]
    if post.path[0] not in members:
        return f"{post.path[0]!r} has no seat in its view"
    if len(set(members)) < len(members):
        return "a member has two seats in its view"
    part = parse_part(post.path[0])
    if part is not None and part.scope != post.domain.scope:
        return f"{post.path[0]!r} is no part of {post.domain.scope!r}"
    if post.domain.number < 1 or any(seat.domain < 0 for seat in post.seats):
        return "a domain has no such number"
    return None
