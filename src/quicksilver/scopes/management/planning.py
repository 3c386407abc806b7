"""What the members of a scope have to do for a topic.

It follows from who they are, from the scope's policy and from what its owner wants of it:
channels between members, and ends of channels that lead out or in, which the scope hands to
one of them (delegation, dissertation 3.2.4). It is worked out anew after changes. Which
member gets an end depends on their names alone, so a manager that starts again comes to the
same result, and a member that goes moves only the ends that it had.

Of two members that a channel joins one must be such that the other can dial it. Where neither
can be dialled a third one stands between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from quicksilver.scopes.dissemination.channels import External
from quicksilver.scopes.dissemination.filters import Filter
from quicksilver.scopes.dissemination.policies.base import Edge
from quicksilver.scopes.management.messages import Medium, Orders, Source, Target
from quicksilver.scopes.management.topics import Topic
from quicksilver.scopes.routing import Channel


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a scope that a topic goes to, each by a mechanism of its own."""

    of_member: Mapping[str, External]
    """Where members listen …"""
    rest: External
    """… and those who are in no region."""
    to: tuple[External, ...]
    """Where whoever sends to the topic sends."""


@dataclass(slots=True)
class Work:
    """What one member has to do: ends of channels, and mechanisms."""

    sources: list[Source] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    media: list[Medium] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """What everybody has to do for a topic, and what could not be done."""

    work: dict[str, Work]
    refused: dict[str, str] = field(default_factory=dict)
    """Channels that cannot be had, and why."""
    relayed: dict[tuple[str, str], str] = field(default_factory=dict)
    """Pairs of members that reach each other through a third one."""

    def orders(self, topic: Topic, member: str) -> Orders:
        work, part = self.work[member], topic.parts[member]
        knows_publisher, knows_subscriber = topic.known_above
        return Orders(
            topic.name,
            tuple(work.sources),
            tuple(work.targets),
            tuple(work.media),
            topic.sessions.sessions,
            topic.party_of(member) is not None,
            is_publisher=part.publishes and knows_publisher,
            is_subscriber=part.subscribes and knows_subscriber,
        )


def plan_topic(
    scope: str,
    topic: Topic,
    addresses: Mapping[str, str],
    regions: Regions | None = None,
    *,
    waits: bool,
) -> Plan:
    """Return what each member has to do; ``addresses`` are those of members' managers, empty
    for those who cannot be dialled. ``regions``: those of the topic, where it goes to each of
    them by a mechanism of its own."""
    plan = Plan({member: Work() for member in topic.parts})
    workers = _Workers(topic, addresses)
    carriers, entries = _hand_out(topic, plan, workers)
    parts = topic.parts.items()
    members = [m for m, p in parts if p.is_member and p.subscribes]
    clients = [m for m, p in parts if not p.is_member and p.subscribes]
    publishers = [m for m, p in parts if p.publishes]
    container = topic.container
    container.handle_members([*members, *sorted(carriers)], clients)
    container.handle_origins(dict.fromkeys([*publishers, *sorted(entries)]))
    for origin, edges in container.plan().items():
        filters: dict[tuple[str, str], list[Filter]] = {}
        for edge in _relay(edges, plan, workers, addresses):
            rules = filters.setdefault((edge.source, edge.target), [])
            if edge.filter not in rules:
                rules.append(edge.filter)
        for (source, target), rules in filters.items():
            channel = Channel(scope, (source,), (target,), topic.name, origin)
            if not (addresses[source] or addresses[target]):
                plan.refused[str(channel)] = (
                    "neither end can be dialled, nor anybody between: let a member of "
                    f"{scope} that can be dialled take part in {topic.name} as well"
                )
                continue
            to_target, to_source = addresses[target], ""
            if not to_target:
                to_source = addresses[source]
            plan.work[source].sources.append(Source(channel, tuple(rules), to_target, waits))
            plan.work[target].targets.append(Target(channel, to_source))
    for member in [m for m, p in parts if p.is_member]:
        if regions is not None:
            own = regions.of_member.get(member, regions.rest)
            plan.work[member].media.append(Medium(scope, own, (member,), regions.to))
        elif topic.where is not None:
            plan.work[member].media.append(Medium(scope, topic.where, (member,)))
    return plan


class _Workers:
    """Chooses who works the ends of channels that lead out of a scope, or into it."""

    def __init__(self, topic: Topic, addresses: Mapping[str, str]) -> None:
        members = [m for m, part in topic.parts.items() if part.is_member]
        self._all = [m for m in members if topic.parts[m].subscribes] or members
        self._dialable = [m for m in self._all if addresses[m]] or [
            m for m in members if addresses[m]
        ]

    def choose(self, name: str, *, dialable: bool) -> str | None:
        """Return a member for an end with this name; None: nobody can.

        "If X receives messages in a topic T, then some of its members must also receive
        them" (3.2.4): one of those, and different ones for different channels. Clients do no
        work.
        """
        candidates = self._dialable if dialable else self._all
        return max(candidates, key=lambda member: _lot(name, member), default=None)


def choose_worker(
    topic: Topic, channel: Channel, addresses: Mapping[str, str], *, dialable: bool
) -> str | None:
    """Return the member that works this scope's end of a channel; None: nobody can."""
    return _Workers(topic, addresses).choose(_end_name(channel), dialable=dialable)


def _end_name(channel: Channel) -> str:
    # Whoever works the other end may change: this one does not move for it.
    ends = f"{channel.source[0]}-{channel.target[0]}"
    return f"{channel.scope} {ends} {channel.topic} {channel.origin}"


def _hand_out(topic: Topic, plan: Plan, workers: _Workers) -> tuple[set[str], set[str]]:
    """Give ends of channels and mechanisms that lead out and in to members.

    Return who carries messages out then, and where messages come in.
    """
    carriers, entries = set(), set()
    for source in topic.sources:
        # Without an address the target comes by itself, and must be able to.
        worker = workers.choose(_end_name(source.channel), dialable=not source.address)
        if worker is None:
            plan.refused[str(source.channel)] = _describe_hidden(source.channel.source[-1], topic)
            continue
        carriers.add(worker)
        channel = handed_on(source.channel, worker, of_source=True)
        plan.work[worker].sources.append(
            Source(channel, source.filters, source.address, source.waits)
        )
    for target in topic.targets:
        worker = workers.choose(_end_name(target.channel), dialable=not target.address)
        if worker is None:
            plan.refused[str(target.channel)] = _describe_hidden(target.channel.target[-1], topic)
            continue
        entries.add(worker)
        channel = handed_on(target.channel, worker, of_source=False)
        plan.work[worker].targets.append(Target(channel, target.address))
    for medium in topic.media:
        worker = workers.choose(f"{medium.scope} {topic.name}", dialable=False)
        if worker is not None:
            carriers.add(worker)
            entries.add(worker)
            path = (*medium.path, worker)
            plan.work[worker].media.append(Medium(medium.scope, medium.where, path, medium.to))
    return carriers, entries


def _describe_hidden(scope: str, topic: Topic) -> str:
    return (
        f"the other end has to dial, and no member of {scope} with {topic.name} can be dialled: "
        "let one that can be take part as well, or put the hidden members below its owner"
    )


def handed_on(channel: Channel, worker: str, *, of_source: bool) -> Channel:
    """Return a channel one of whose ends was handed to a member."""
    source, target = channel.source, channel.target
    if of_source:
        source = (*source, worker)
    else:
        target = (*target, worker)
    return Channel(channel.scope, source, target, channel.topic, channel.origin)


def _relay(
    edges: list[Edge], plan: Plan, workers: _Workers, addresses: Mapping[str, str]
) -> list[Edge]:
    """Put somebody between members of whom neither can be dialled."""
    found: dict[Edge, None] = {}
    for edge in edges:
        if addresses[edge.source] or addresses[edge.target]:
            found[edge] = None
            continue
        # The same one for both directions, and for all origins.
        ends = " ".join(sorted((edge.source, edge.target)))
        relay = workers.choose(f"relay {ends}", dialable=True)
        if relay is None:
            found[edge] = None
            continue
        plan.relayed[edge.source, edge.target] = relay
        found[Edge(edge.source, relay, edge.filter)] = None
        found[Edge(relay, edge.target, edge.filter)] = None
    return list(found)


def _lot(name: str, member: str) -> bytes:
    """Return something to compare that depends on two names alone (rendezvous hashing)."""
    text = f"{name} {member}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()
