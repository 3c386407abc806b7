"""Where a policy runs: it is told of members and origins, and says which channels it wants.

"A scope manager might thus be thought of as a container for objects representing policies"
(dissertation 3.2.3, Figure 3.8). What goes in are members that come and go and origins that
begin and end; what comes out are channels to create and to drop. One container serves all
topics that share a policy, so their channels are the same (Figure 3.9).

A policy that raises, that wants channels between strangers or too many of them, or that
leaves a member without messages is not obeyed: what was there before stays as far as its
members do, everybody else is reached straight from the origin, and the fault is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from quicksilver.scopes.filters import ALL, Chance, Filter, Modulo
from quicksilver.scopes.policies.base import Edge, Policy
from quicksilver.scopes.policies.trees import Star

EDGES_MAX = 1 << 16
"""Channels that a policy may want for one origin."""


@dataclass(frozen=True, slots=True)
class Connect:
    """A member is to create a channel to another, or to carry other messages along one."""

    source: str
    target: str
    origin: str
    filters: tuple[Filter, ...]
    """Messages that pass one of these are carried."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A member is to drop a channel."""

    source: str
    target: str
    origin: str


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """A policy was not obeyed."""

    origin: str
    problem: str


Change = Connect | Disconnect | PolicyFailed
Wanted = dict[tuple[str, str], tuple[Filter, ...]]
"""Filters by source and target; several where stripes use the same channel."""


class PolicyContainer:
    """Keeps a scope's channels as its policy wants them."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._places: list[str] = []
        """Members; whoever leaves is replaced by the last one, so few others move."""
        self._origins: dict[str, None] = {}
        self._channels: dict[str, Wanted] = {}
        self._changes: deque[Change] = deque()

    # Inputs

    def handle_member_added(self, member: str) -> None:
        """A member gets messages from now on."""
        if member not in self._places:
            self._places.append(member)
            self._plan_all()

    def handle_member_removed(self, member: str) -> None:
        """A member is gone, and with it what originated there."""
        if member not in self._places:
            return
        self._origins.pop(member, None)
        self._apply(member, {})
        last = self._places.pop()
        if last != member:
            self._places[self._places.index(member)] = last
        self._plan_all()

    def handle_origin_added(self, member: str) -> None:
        """Messages originate at a member from now on: it has a publisher, or is an entry."""
        assert member in self._places
        if member not in self._origins:
            self._origins[member] = None
            self._plan(member)

    def handle_origin_removed(self, member: str) -> None:
        if member in self._origins:
            del self._origins[member]
            self._apply(member, {})

    def handle_policy(self, policy: Policy) -> None:
        """The scope has another policy from now on."""
        self.policy = policy
        self._plan_all()

    # Outputs

    def poll_change(self) -> Change | None:
        """Return what is to be done next, or None."""
        return self._changes.popleft() if self._changes else None

    def members(self) -> tuple[str, ...]:
        return tuple(self._places)

    def channels(self, origin: str) -> list[Edge]:
        """Return the channels for messages that originate at a member."""
        return [
            Edge(source, target, rule)
            for (source, target), rules in sorted(self._channels.get(origin, {}).items())
            for rule in rules
        ]

    # Planning

    def _plan_all(self) -> None:
        for origin in list(self._origins):
            self._plan(origin)

    def _plan(self, origin: str) -> None:
        members = tuple(self._places)
        try:
            edges = list(islice(self.policy.edges(members, origin), EDGES_MAX + 1))
            problem = find_plan_problem(
                edges, members, origin, has_mechanism=self.policy.mechanism is not None
            )
        except Exception as error:  # noqa: BLE001  # the policy may be anybody's
            edges, problem = [], f"it raised {type(error).__name__}: {error}"
        if problem is not None:
            self._changes.append(PolicyFailed(origin, problem))
            edges = self._without_policy(members, origin)
        self._apply(origin, _grouped(edges))

    def _without_policy(self, members: tuple[str, ...], origin: str) -> list[Edge]:
        """Return the channels that were there between members, and straight ones to the rest."""
        known = frozenset(members)
        old = [e for e in self.channels(origin) if e.source in known and e.target in known]
        reached = _reached(old, origin)
        return old + [e for e in Star().edges(members, origin) if e.target not in reached]

    def _apply(self, origin: str, wanted: Wanted) -> None:
        """Note the channels of an origin, and tell what has changed."""
        old = self._channels.pop(origin, {})
        if wanted:
            self._channels[origin] = wanted
        # New channels first: until they carry messages the old ones do.
        for (source, target), rules in sorted(wanted.items()):
            if old.get((source, target)) != rules:
                self._changes.append(Connect(source, target, origin, rules))
        for source, target in sorted(old.keys() - wanted.keys()):
            self._changes.append(Disconnect(source, target, origin))


def find_plan_problem(
    edges: list[Edge], members: tuple[str, ...], origin: str, *, has_mechanism: bool
) -> str | None:
    """Return why a policy's channels are not obeyed, or None."""
    if len(edges) > EDGES_MAX:
        return f"it wants more than {EDGES_MAX:,} channels for one origin"
    known = frozenset(members)
    for edge in edges:
        if edge.source not in known or edge.target not in known:
            return (
                f"it wants a channel from {edge.source!r} to {edge.target!r}, one of them unknown"
            )
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


def _grouped(edges: Iterable[Edge]) -> Wanted:
    wanted: dict[tuple[str, str], dict[Filter, None]] = {}
    for edge in edges:
        wanted.setdefault((edge.source, edge.target), {})[edge.filter] = None
    return {ends: tuple(rules) for ends, rules in wanted.items()}
