"""Where a policy runs: it is told of members and origins, and says which channels it wants.

"A scope manager might thus be thought of as a container for objects representing policies"
(dissertation 3.2.3, Figure 3.8). One container serves all topics that share a policy and
members, so their channels are the same (Figure 3.9).

A policy that raises, that wants channels between strangers or too many of them, or that
leaves a member without messages is not obeyed: what was there before stays as far as its
members do, everybody else is reached straight from the origin, and the fault is told. Where
that would be too many channels as well, a tree serves every origin.

While few members publish each origin has channels of its own, as in the dissertation. That
makes as many as origins times members; so where more publish, a policy that knows channels
for every origin is asked for those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from quicksilver.scopes.dissemination.filters import (
    ALL,
    PARTS_MAX,
    BadFilterError,
    Chance,
    Filter,
    Modulo,
    compile_filter,
)
from quicksilver.scopes.dissemination.policies.base import Edge, Policy, SharedPolicy
from quicksilver.scopes.dissemination.policies.trees import Star, Tree
from quicksilver.scopes.routing import EVERY

EDGES_MAX = 1 << 16
"""Channels that a policy may want for one topic, whatever the number of origins …"""

MEMBER_EDGES_MAX = 64
"""… or so many for each member, where channels serve every origin and that is more."""

ORIGINS_APART_MAX = 8
"""Where more members publish, channels serve every origin if the policy knows such."""

FALLBACK_FAN_OUT = 8
"""Of the tree that serves where a policy wants too many channels."""


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
        """Return the channels that are wanted now, by origin; ``EVERY``: for all of them."""
        self._problems.clear()
        apart_max = ORIGINS_APART_MAX // 2 if EVERY in self._channels else ORIGINS_APART_MAX
        policy = self.policy
        if not self._places or len(self._origins) <= apart_max:
            self._channels = self._plan_apart()
        elif isinstance(policy, SharedPolicy):
            self._channels = self._plan_shared(policy)
        else:
            self._channels = self._plan_apart()
        return self._channels

    def problems(self) -> dict[str, str]:
        """Return why the policy was not obeyed in the last plan, by origin."""
        return dict(self._problems)

    def _plan_apart(self) -> dict[str, list[Edge]]:
        """Return channels for each origin, or a tree if those are too many."""
        plans: dict[str, list[Edge]] = {}
        count = 0
        for origin in self._origins:
            plans[origin] = self._plan(origin)
            count += len(plans[origin])
            if count <= max(EDGES_MAX, len(plans[origin])):
                continue
            problem = (
                f"it wants more than {EDGES_MAX:,} channels for {len(self._origins):,} origins"
                f" and {len(self._places):,} members"
            )
            if self._places:
                self._problems[EVERY] = f"{problem}: a tree with {FALLBACK_FAN_OUT} branches serves"
                return self._plan_shared(Tree(FALLBACK_FAN_OUT))
            del plans[origin]
            self._problems[EVERY] = f"{problem}: {len(plans):,} origins are served"
            break
        return plans

    def _plan_shared(self, policy: SharedPolicy) -> dict[str, list[Edge]]:
        """Return channels for every origin, and those by which each one's messages get there."""
        members = tuple(self._places)
        edges_max = max(EDGES_MAX, MEMBER_EDGES_MAX * len(members))
        shared: list[Edge] = []
        entries: dict[str, list[Edge]] = {}
        try:
            shared += islice(policy.shared_edges(members), edges_max + 1)
            count = len(shared)
            for origin in self._origins:
                wanted = list(islice(policy.entry_edges(members, origin), edges_max + 1 - count))
                count += len(wanted)
                if wanted:
                    entries[origin] = wanted
            problem = find_shared_problem(
                shared,
                entries,
                members,
                self._origins,
                edges_max=edges_max,
                has_mechanism=policy.mechanism is not None,
            )
        except Exception as error:  # noqa: BLE001  # the policy may be anybody's
            problem = f"it raised {type(error).__name__}: {error}"
        if problem is not None:
            assert policy is self.policy, problem
            self._problems[EVERY] = problem
            return self._plan_shared(Tree(FALLBACK_FAN_OUT))
        return {EVERY: shared + self._to_clients(EVERY), **entries}

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
    problem = _find_edge_problem(edges, {*members})
    if problem is not None:
        return problem
    if has_mechanism:
        return None
    missed = frozenset(members) - _reached(edges, origin)
    if missed:
        return f"messages from {origin!r} never come to {min(missed)!r}"
    return _find_stripe_problem(edges)


def find_shared_problem(
    shared: list[Edge],
    entries: dict[str, list[Edge]],
    members: tuple[str, ...],
    origins: Iterable[str],
    *,
    edges_max: int,
    has_mechanism: bool,
) -> str | None:
    """Return why a policy's channels for every origin are not obeyed, or None."""
    if len(shared) + sum(map(len, entries.values())) > edges_max:
        return f"it wants more than {edges_max:,} channels"
    problem = _find_edge_problem(shared, {*members})
    for origin, edges in entries.items():
        problem = problem or _find_edge_problem(edges, {*members, origin})
        if any(edge.source != origin for edge in edges):
            problem = problem or f"messages from {origin!r} get in from somewhere else"
    if problem is not None or has_mechanism:
        return problem
    for share in _shares(shared):
        complete = _complete(_carrying(shared, share), members)
        for origin in origins:
            ways = _carrying(entries.get(origin, []), share)
            if origin not in complete and not any(way.target in complete for way in ways):
                return f"messages from {origin!r} do not come to all"
    return _find_stripe_problem(shared)


def _find_edge_problem(edges: list[Edge], known: set[str]) -> str | None:
    pairs = Counter((edge.source, edge.target) for edge in edges)
    if pairs and max(pairs.values()) > PARTS_MAX:
        return f"it wants more than {PARTS_MAX} channels from one member to another"
    for edge in edges:
        if edge.source not in known or edge.target not in known:
            ends = f"from {edge.source!r} to {edge.target!r}"
            return f"it wants a channel {ends}, one of them unknown"
        if edge.source == edge.target:
            return f"it wants a channel from {edge.source!r} to itself"
    for rule in {edge.filter: None for edge in edges}:
        try:
            compile_filter(rule)
        except BadFilterError as error:
            return f"a filter is wrong: {error}"
    return None


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


def _reached(edges: list[Edge], origin: str) -> set[str]:
    """Return who gets all messages of an origin, lots drawn aside."""
    return set.intersection(
        *(_followed(_carrying(edges, share), origin) for share in _shares(edges))
    )


def _shares(edges: Iterable[Edge]) -> list[Filter]:
    """Return the shares of messages that filters make: each must arrive by itself."""
    return [*dict.fromkeys(s for e in edges if (s := _share(e)) != ALL)] or [ALL]


def _share(edge: Edge) -> Filter:
    return ALL if isinstance(edge.filter, Chance) else edge.filter


def _carrying(edges: Iterable[Edge], share: Filter) -> list[Edge]:
    """Return the channels that carry a share of the messages."""
    return [edge for edge in edges if _share(edge) in (ALL, share)]


def _complete(edges: list[Edge], members: tuple[str, ...]) -> set[str]:
    """Return the members whose messages come to all members."""
    seen: set[str] = set()
    last = ""
    for member in members:
        if member not in seen:
            last = member
            seen |= _followed(edges, member)
    # Whoever reaches all is the last one that nobody before has reached, or reaches that one.
    if _followed(edges, last) < frozenset(members):
        return set()
    return _followed([Edge(edge.target, edge.source) for edge in edges], last)


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
