"""The recovery domains of one scope: who takes part in which.

Members that take part in the same topics form a part of the scope, and a domain of each part
serves all its topics at once. A topic that several parts share has a domain with the parts as
members (dissertation 3.2.10, Figure 3.25); a topic of one part needs none: there the part's
domain is the scope's domain for the topic. Where many are in a part, or a topic has many parts,
they are divided into nested domains (``nesting``), one level below the other.

What takes part is a member's own domain, not the member: a scope inside may have several, each
for some topics. A node is a domain by itself, with the number 0.

A domain's number never changes, nor is it used again. Seats are in the order of a lot drawn
from names, those that can be dialled before the others: who joins or leaves moves nobody else.
The first one leads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from quicksilver.scopes.management.nesting import Group, divide, members_max
from quicksilver.scopes.management.saving import Numbers, SavedDomain, Savings
from quicksilver.scopes.posts import DomainId, Seat, parse_part, part_name, seat_rank

TOPICS_BYTES_MAX = 256 << 10
SEATS_BYTES_MAX = 512 << 10
"""What a domain's topics and seats may take in a post, which has to fit into a frame. The
topics of a part that has more are cut into several domains."""


RING = "ring"
"""The protocol in which each member talks to the next one."""


class Party(NamedTuple):
    """A domain of a member."""

    member: str
    domain: int


class _PartKey(NamedTuple):
    """The parties that take part in the same topics, as far as one protocol serves them."""

    protocol: str
    topics: frozenset[str]

    def name(self) -> str:
        return _record_name("part", self.protocol, sorted(self.topics), is_top=False)


@dataclass(slots=True)
class _Part:
    parties: set[Party] = field(default_factory=set)
    domains: dict[tuple[bool, int], Domain] = field(default_factory=dict)
    """By whether nothing is above them, and by which share of the topics they serve."""


@dataclass(slots=True)
class _TopicState:
    protocol: str
    is_top: bool = False
    """Whether nothing is above the scope's domain for the topic."""
    parts: dict[_PartKey, None] = field(default_factory=dict)
    domain: Domain | None = None
    alone_since: float | None = None
    """Since when the topic's own domain has one member only."""


@dataclass(slots=True, eq=False)
class Domain:
    id: DomainId
    name: str
    """What it is for: the name of its record."""
    protocol: str
    topics: tuple[str, ...] = ()
    seats: tuple[Seat, ...] = ()
    view: int = 0
    is_top: bool = False
    is_part: bool = True
    """True: it is for members; False: for the parts that share a topic."""
    nested: dict[str, Domain] = field(default_factory=dict)
    """Domains that its members are divided into, of all levels, by the names of groups."""

    @property
    def used_protocol(self) -> str:
        """The protocol, or a star in place of a ring that cannot be closed.

        A ring's token goes from each to the next, and of two who cannot be dialled neither
        reaches the other. The others have a first member whom all can dial, if anybody can be.
        """
        hidden = sum(not seat.address for seat in self.seats)
        return "star" if self.protocol == RING and hidden > 1 else self.protocol

    @property
    def seat_name(self) -> str:
        """How its seat is named in the domain of a topic."""
        return part_name(self.id.scope, self.id.number)


class Domains:
    """The domains of one scope. Changes are told one by one, and worked out by ``update``."""

    def __init__(
        self,
        scope: str,
        address: str,
        address_of: Callable[[str], str],
        numbers: Numbers,
        savings: Savings,
        dissolve_s: float,
    ) -> None:
        """``address_of``: where a member's manager listens. ``dissolve_s``: how long a topic's
        domain outlives the second of its parts."""
        self._scope = scope
        self._address = address
        self._address_of = address_of
        self._numbers = numbers
        self._savings = savings
        self._dissolve_s = dissolve_s
        self.by_id: dict[DomainId, Domain] = {}
        self._topics: dict[str, _TopicState] = {}
        self._interests: dict[Party, dict[str, str]] = {}
        """Topics of each party, and their protocols."""
        self._part_of: dict[Party, dict[str, _PartKey]] = {}
        """Where each party is, by protocol."""
        self._parts: dict[_PartKey, _Part] = {}
        self._dirty_parties: dict[Party, None] = {}
        self._dirty_topics: dict[str, None] = {}
        self._dirty_parts: dict[_PartKey, None] = {}
        self.touched: dict[str, None] = {}
        """Topics whose domains may be others than before."""
        self._gone: list[str] = []

    # Inputs

    def handle_topic(self, topic: str, protocol: str, *, is_top: bool) -> None:
        """A topic is recovered here, and whether a domain above this scope has it as well."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = _TopicState(protocol, is_top)
        elif known.is_top != is_top:
            known.is_top = is_top
            self._dirty_topics[topic] = None

    def handle_party(self, topic: str, party: Party, *, takes_part: bool) -> None:
        """A domain of a member takes part in a topic, or does not."""
        interests = self._interests.setdefault(party, {})
        if takes_part and topic not in interests:
            interests[topic] = self._topics[topic].protocol
            self._dirty_parties[party] = None
        elif not takes_part and topic in interests:
            del interests[topic]
            self._dirty_parties[party] = None
        if not interests:
            del self._interests[party]

    def handle_address(self, member: str, domains: set[int]) -> None:
        """A member's manager listens somewhere else."""
        for number in sorted(domains):
            keys = self._part_of.get(Party(member, number), {})
            self._dirty_parts.update(dict.fromkeys(keys.values()))

    def number_for(self, topic: str) -> int | None:
        """Return the number of the scope's domain for a topic; None: there is none."""
        state = self._topics.get(topic)
        if state is None or not state.parts:
            return None
        if state.domain is not None:
            return state.domain.id.number
        domain = self._part_domain(next(iter(state.parts)), topic)
        return None if domain is None else domain.id.number

    def of_topic(self, topic: str) -> list[Domain]:
        """Return all domains that serve a topic, that of the topic first."""
        state = self._topics.get(topic)
        if state is None:
            return []
        found = [self._part_domain(key, topic) for key in state.parts]
        tops = [each for each in (state.domain, *found) if each is not None]
        return [each for top in tops for each in (top, *top.nested.values())]

    def regions_of(self, topic: str) -> dict[str, list[Party]]:
        """Return the parts of a topic by names that they keep, and who is in each."""
        state = self._topics.get(topic)
        keys = () if state is None else state.parts
        return {key.name(): sorted(self._parts[key].parties) for key in keys}

    def pop_regions_gone(self) -> list[str]:
        """Return the names of parts that are no more."""
        gone, self._gone = self._gone, []
        return gone

    def find(self, domain: DomainId) -> Domain | None:
        return self.by_id.get(domain)

    # Working it out

    def update(self, now: float) -> list[DomainId]:
        """Take all changes in; return the domains that are new, other or gone."""
        self._move_parties()
        for topic in self._dirty_topics:
            state = self._topics[topic]
            self._dirty_parts.update(state.parts)
        changed: dict[DomainId, None] = {}
        # Whether a topic has a domain of its own decides what is above its parts.
        for topic in sorted(self._dirty_topics):
            self._settle_topic(topic, now, changed)
        for key in self._dirty_parts:
            self._settle_part(key, changed)
        touched = self._dirty_topics | self._topics_of(self._dirty_parts)
        for topic in sorted(touched):
            self._seat_parts(topic, changed)
        self.touched.update(touched)
        for topic in self._dirty_topics:
            if not self._topics[topic].parts:
                del self._topics[topic]
        self._dirty_topics.clear()
        self._dirty_parts.clear()
        return list(changed)

    def pop_touched(self) -> dict[str, None]:
        """Return ``touched`` and begin it anew."""
        touched, self.touched = self.touched, {}
        return touched

    def next_timeout(self) -> float | None:
        """Return when the domain of a topic is to be dissolved, or None."""
        since = [s.alone_since for s in self._topics.values() if s.alone_since is not None]
        return min(since) + self._dissolve_s if since else None

    def dissolve(self, now: float) -> list[str]:
        """Have those topics looked at again that had one part for long; return them."""
        due = [
            topic
            for topic, state in self._topics.items()
            if state.alone_since is not None and state.alone_since + self._dissolve_s <= now
        ]
        self._dirty_topics.update(dict.fromkeys(due))
        return due

    def _topics_of(self, keys: dict[_PartKey, None]) -> dict[str, None]:
        return {topic: None for key in keys for topic in key.topics if topic in self._topics}

    def _move_parties(self) -> None:
        """Let every party be where its topics are."""
        for party in self._dirty_parties:
            by_protocol: dict[str, set[str]] = {}
            for topic, protocol in self._interests.get(party, {}).items():
                by_protocol.setdefault(protocol, set()).add(topic)
            places = self._part_of.setdefault(party, {})
            for protocol in sorted(places.keys() | by_protocol.keys()):
                topics = by_protocol.get(protocol)
                new = _PartKey(protocol, frozenset(topics)) if topics else None
                old = places.get(protocol)
                if old == new:
                    continue
                if old is not None:
                    self._parts[old].parties.discard(party)
                    self._handle_part_changed(old)
                    del places[protocol]
                if new is not None:
                    self._parts.setdefault(new, _Part()).parties.add(party)
                    self._handle_part_changed(new)
                    places[protocol] = new
            if not places:
                del self._part_of[party]
        self._dirty_parties.clear()

    def _handle_part_changed(self, key: _PartKey) -> None:
        """Parties came or went; a part without any is none."""
        self._dirty_parts[key] = None
        count = len(self._parts[key].parties)
        if count > 1:
            return  # It was a part before.
        has_parties = bool(count)
        for topic in key.topics:
            state = self._topics[topic]
            if has_parties != (key in state.parts):
                if has_parties:
                    state.parts[key] = None
                else:
                    del state.parts[key]
                self._dirty_topics[topic] = None

    def _settle_topic(self, topic: str, now: float, changed: dict[DomainId, None]) -> None:
        """Give a topic a domain of its own, or take it away."""
        state = self._topics[topic]
        count = len(state.parts)
        if count > 1:
            state.alone_since = None
            if state.domain is None:
                name = _record_name("topic", state.protocol, [topic], is_top=False)
                state.domain = self._create(name, state.protocol, is_part=False)
        elif state.domain is not None:
            if state.alone_since is None:
                state.alone_since = now
            if count == 0 or now - state.alone_since >= self._dissolve_s:
                self._remove(state.domain, changed)
                state.domain, state.alone_since = None, None

    def _settle_part(self, key: _PartKey, changed: dict[DomainId, None]) -> None:
        """Let a part have the domains that its topics need, with its parties as members."""
        part = self._parts[key]
        wanted: dict[tuple[bool, int], tuple[str, ...]] = {}
        if part.parties:
            for is_top in (False, True):
                alike = [topic for topic in sorted(key.topics) if self._is_top(topic) == is_top]
                for number, share in enumerate(_cut(alike)):
                    wanted[is_top, number] = share
        for place in [each for each in part.domains if each not in wanted]:
            self._remove(part.domains.pop(place), changed)
        for (is_top, number), topics in wanted.items():
            domain = part.domains.get((is_top, number))
            if domain is None:
                whole = [str(number), *sorted(key.topics)]
                name = _record_name("part", key.protocol, whole, is_top=is_top)
                domain = part.domains[is_top, number] = self._create(name, key.protocol)
            seats = [Seat(m, number, self._address_of(m)) for m, number in part.parties]
            self._seat_all(domain, seats, topics, changed, is_top=is_top)
        if not part.parties:
            del self._parts[key]
            self._gone.append(key.name())

    def _is_top(self, topic: str) -> bool:
        state = self._topics[topic]
        return state.is_top and state.domain is None

    def _part_domain(self, key: _PartKey, topic: str) -> Domain | None:
        for domain in self._parts[key].domains.values():
            if topic in domain.topics:
                return domain
        return None

    def _seat_parts(self, topic: str, changed: dict[DomainId, None]) -> None:
        """Let the domain of a topic have the domains of its parts as members."""
        state = self._topics[topic]
        if state.domain is None:
            return
        parts = [self._part_domain(key, topic) for key in state.parts]
        seats = [
            Seat(part.seat_name, part.id.number, self._address_of_part(part))
            for part in parts
            if part is not None
        ]
        self._seat_all(state.domain, seats, (topic,), changed, is_top=state.is_top)

    def _address_of_part(self, part: Domain) -> str:
        """Return where to ask for a part's agent; empty: its leader, so nobody, can be dialled."""
        return self._address if part.seats and part.seats[0].address else ""

    def _seat_all(
        self,
        domain: Domain,
        seats: list[Seat],
        topics: tuple[str, ...],
        changed: dict[DomainId, None],
        *,
        is_top: bool,
    ) -> None:
        """Let a domain have these members, divided into nested domains if they are many."""
        before, domain.nested = domain.nested, {}

        def seat_group(group: Seat | Group) -> Seat:
            if isinstance(group, Seat):
                return group
            inside = [seat_group(each) for each in group.seats]
            nested = before.get(group.name)
            if nested is None:
                name = f"{domain.name}/{group.name}"
                nested = self._create(name, domain.protocol, is_part=domain.is_part)
            domain.nested[group.name] = nested
            self._seat(nested, inside, topics, changed, is_top=False)
            return Seat(nested.seat_name, nested.id.number, self._address_of_part(nested))

        groups = divide(seats, members_max(domain.protocol))
        self._seat(domain, [seat_group(each) for each in groups], topics, changed, is_top=is_top)
        for name in before.keys() - domain.nested.keys():
            self._remove(before[name], changed)

    def _seat(
        self,
        domain: Domain,
        seats: list[Seat],
        topics: tuple[str, ...],
        changed: dict[DomainId, None],
        *,
        is_top: bool,
    ) -> None:
        if any(DomainId(self._scope, seat.domain) in changed for seat in seats if _is_part(seat)):
            changed[domain.id] = None  # Who leads a part hosts the part's agent.
        ordered = tuple(sorted(seats, key=lambda seat: seat_rank(domain.id, seat)))
        if (ordered, topics, is_top) == (domain.seats, domain.topics, domain.is_top):
            return
        domain.seats, domain.topics, domain.is_top = ordered, topics, is_top
        domain.view = self._numbers.next()
        changed[domain.id] = None

    def _create(self, name: str, protocol: str, *, is_part: bool = True) -> Domain:
        saved = self._savings.get(name, SavedDomain)
        number = self._numbers.next() if saved is None else saved.number
        self._savings.put(name, SavedDomain(number))
        domain = Domain(DomainId(self._scope, number), name, protocol, is_part=is_part)
        self.by_id[domain.id] = domain
        return domain

    def _remove(self, domain: Domain, changed: dict[DomainId, None]) -> None:
        for nested in domain.nested.values():
            self._remove(nested, changed)
        self._savings.put(domain.name, None)
        del self.by_id[domain.id]
        changed[domain.id] = None


def _is_part(seat: Seat) -> bool:
    return parse_part(seat.member) is not None


def seat_bytes(member: str, address: str) -> int:
    """Return what a seat takes in a post, or a little more."""
    return len(f"{member}{address}".encode("utf-8", "surrogatepass")) + 24


def _cut(topics: list[str]) -> list[tuple[str, ...]]:
    """Return topics in shares that fit into a post each."""
    shares: list[list[str]] = []
    used = TOPICS_BYTES_MAX
    for topic in topics:
        size = len(topic.encode("utf-8", "surrogatepass")) + 5
        if used + size > TOPICS_BYTES_MAX:
            shares.append([])
            used = 0
        used += size
        shares[-1].append(topic)
    return [tuple(share) for share in shares]


def _record_name(kind: str, protocol: str, topics: list[str], *, is_top: bool) -> str:
    """Return the name of a domain's record, which is short however many its topics are."""
    text = " ".join([protocol, str(is_top), *topics]).encode("utf-8", "surrogatepass")
    return f"domain/{kind}/{blake2b(text, digest_size=16).hexdigest()}"
