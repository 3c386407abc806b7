"""What a forwarding policy is.

A scope's policy says how messages get from the member that they originated at to all other
members, and knows members by name only: how a member takes a message to its own parts, and
which of them works a channel, is the member's business (dissertation 3.2.3). The same
policy serves a local network, a campus or an overlay.

A policy is a function of the members in their places: asked again, it says the same. So a
manager that starts anew needs to remember members only, and what a policy wants is found by
comparing two answers (``scopes/dissemination/container.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

from quicksilver.scopes.dissemination.filters import ALL, Filter


class Edge(NamedTuple):
    """A channel that a policy wants, from one member to another."""

    source: str
    target: str
    filter: Filter = ALL


class Policy(Protocol):
    """How messages travel between the members of a scope."""

    @property
    def mechanism(self) -> str | None:
        """A mechanism that takes messages to all members by itself, such as a multicast
        address; then there are no channels between members."""
        ...

    def edges(self, members: tuple[str, ...], origin: str) -> Iterable[Edge]:
        """Yield the channels for messages that originate at one of the members.

        Members are in places that they keep: whoever leaves is replaced by the last one.
        """
        ...


@runtime_checkable
class SharedPolicy(Policy, Protocol):
    """A policy most of whose channels are the same whatever the origin.

    Where many members publish they are told once, for every origin (``routing.EVERY``).
    """

    def shared_edges(self, members: tuple[str, ...]) -> Iterable[Edge]:
        """Yield the channels between members that serve every origin.

        A message is not sent along them to its origin, nor to the member that brought it.
        """
        ...

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterable[Edge]:
        """Yield the channels by which messages of one origin, be it a member or not, get there."""
        ...
