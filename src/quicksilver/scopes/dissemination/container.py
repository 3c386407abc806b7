"""Where a policy runs: it is told of members and origins, and says which channels it wants.

"A scope manager might thus be thought of as a container for objects representing policies"
(dissertation 3.2.3, Figure 3.8). One container serves all topics that share a policy and
members, so their channels are the same (Figure 3.9).

A policy that raises, that wants channels between strangers or too many of them, or that
leaves a member without messages is not obeyed: what was there before stays as far as its
members do, everybody else is reached straight from the origin, and the fault is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from quicksilver.scopes.dissemination.filters import ALL, PARTS_MAX, Chance, Filter, Modulo
from quicksilver.scopes.dissemination.policies.base import Edge, Policy
from quicksilver.scopes.dissemination.policies.trees import Star

EDGES_MAX = 1 << 16
"""Channels that a policy may want for one origin."""


class PolicyContainer:
    """Keeps members in their places, and the channels that a policy wants between them."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._places: list[str] = []
        """Members; whoever leaves is replaced by the last one, so few others move."""
        self._clients: list[str] = []
        """Members that pass nothing on: each gets messages from one of the others."""
        self._origins: list[str] = []
        self._channels: dict[str, list[Edge]] = {}
        self._problems: dict[str, str] = {}

    def handle_members(self, members: Iterable[str], clients: Iterable[str]) -> None:
        """Who gets messages from now on; clients pass none on."""
        wanted = dict.fromkeys(members)
        for member in [place for place in self._places if place not in wanted]:
            last = self._places.pop()
            if last != member:
                self._places[self._places.index(member)] = last
        known = frozenset(self._places)
        self._places += [member for member in wanted if member not in known]
        self._clients = [client for client in clients if client not in wanted]

    def handle_origins(self, origins: Iterable[str]) -> None:
        """Where messages originate from now on: publishers are there, or ways in.

        Who only publishes is no member, and gets no messages.
        """
        self._origins = list(origins)

    def plan(self) -> dict[str, list[Edge]]:
        """Return the channels that are wanted now, for each origin."""
        self._problems.clear()
        self._channels = {origin: self._plan(origin) for origin in self._origins}
        return self._channels

    def problems(self) -> dict[str, str]:
        """Return why the policy was not obeyed in the last plan, by origin."""
        return dict(self._problems)

    def _plan(self, origin: str) -> list[Edge]:
        members = tuple(self._places)
        if origin not in members:
            # At the end, where it moves nobody.
            members = (*members, origin)
        try:
            edges = list(islice(self.policy.edges(members, origin), EDGES_MAX + 1))
            problem = find_plan_problem(
                edges, members, origin, has_mechanism=self.policy.mechanism is not None
            )
        except Exception as error:  # noqa: BLE001  # the policy may be anybody's
            edges, problem = [], f"it raised {type(error).__name__}: {error}"
        if problem is not None:
            self._problems[origin] = problem
            edges = self._without_policy(members, origin)
        return edges + self._to_clients(origin)

    def _to_clients(self, origin: str) -> list[Edge]:
        """Return channels to those who pass nothing on, from members in turn.

        "While a member can form a part of a forwarding tree, a client will not" (3.2.2).
        """
        servers = self._places or [origin]
        clients = [client for client in self._clients if client != origin]
        return [Edge(servers[i % len(servers)], client) for i, client in enumerate(clients)]

    def _without_policy(self, members: tuple[str, ...], origin: str) -> list[Edge]:
        """Return the channels that were there between members, and straight ones to the rest."""
        known = frozenset(members)
        old = [
            edge
            for edge in self._channels.get(origin, [])
            if edge.source in known and edge.target in known
        ]
        reached = _reached(old, origin)
        return old + [e for e in Star().edges(members, origin) if e.target not in reached]


def find_plan_problem(
    edges: list[Edge], members: tuple[str, ...], origin: str, *, has_mechanism: bool
) -> str | None:
    """Return why a policy's channels are not obeyed, or None."""
    if len(edges) > EDGES_MAX:
        return f"it wants more than {EDGES_MAX:,} channels for one origin"
    known = frozenset(members)
    pairs = Counter((edge.source, edge.target) for edge in edges)
    if pairs and max(pairs.values()) > PARTS_MAX:
        return f"it wants more than {PARTS_MAX} channels from one member to another"
    for edge in edges:
        if edge.source not in known or edge.target not in known:
            ends = f"from {edge.source!r} to {edge.target!r}"
            return f"it wants a channel {ends}, one of them unknown"
        if edge.source == edge.target:
            return f"it wants a channel from {edge.source!r} to itself"
    if has_mechanism:
        return None
    missed = known - _reached(edges, origin)
    if missed:
        return f"messages from {origin!r} never come to {min(missed)!r}"
    return _find_stripe_problem(edges)


def _find_stripe_problem(edges: list[Edge]) -> str | None:
    """Messages that are shared out must all belong to one of the shares."""
    shares: dict[int, set[int]] = {}
    for edge in edges:
        if isinstance(edge.filter, Modulo):
            shares.setdefault(edge.filter.n, set()).add(edge.filter.remainder)
    for n, remainders in sorted(shares.items()):
        missing = set(range(n)) - remainders
        if missing:
            return f"messages with a number of {min(missing)} modulo {n} go nowhere"
    return None


def _reached(edges: Iterable[Edge], origin: str) -> set[str]:
    """Return who gets all messages of an origin, lots drawn aside.

    Each share of the messages that a filter makes must arrive by itself.
    """
    by_share: dict[Filter, list[Edge]] = {}
    for edge in edges:
        share = ALL if isinstance(edge.filter, Chance) else edge.filter
        by_share.setdefault(share, []).append(edge)
    for_all = by_share.pop(ALL, [])
    return set.intersection(
        *(_followed(for_all + share, origin) for share in [*by_share.values()] or [[]])
    )


def _followed(edges: list[Edge], origin: str) -> set[str]:
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    reached, ahead = {origin}, [origin]
    while ahead:
        for target in targets.get(ahead.pop(), ()):
            if target not in reached:
                reached.add(target)
                ahead.append(target)
    return reached
