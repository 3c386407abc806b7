"""Agents as managers hand them out: which node speaks for whom, in which domain.

A recovery domain exists inside the manager of its scope. What members do in it is done by
agents, one for each member of the domain; an agent is handed down from the member that it
speaks for to one of its nodes, as the ends of channels are (dissertation 3.2.11, 3.2.13). A
post is such an agent. Always the whole of it is told: whoever starts again needs no history.
"""

from __future__ import annotations

from typing import Annotated

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
