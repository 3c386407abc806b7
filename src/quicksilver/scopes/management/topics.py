"""A topic as one scope sees it: who in it wants what, and who has to do what for it.

"Each SM thus has only a partial membership view for each topic" (dissertation 3.2.10): a
scope knows which of its own members take part and no more of them than the number of their
domain. It asks its owner for the topic when the first member does, and says no more until
the last one is gone, however many come and go between.

What members have to do follows from who they are, from the scope's policy and from what its
owner wants of it: channels between members, and ends of channels that lead out or in, which
the scope hands to one of them (delegation, 3.2.4). It is worked out anew after
changes. Which member gets an end depends on their names alone, so a manager that starts
again comes to the same result, and a member that goes moves only the ends that it had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from quicksilver.scopes.dissemination.container import PolicyContainer
from quicksilver.scopes.dissemination.filters import Filter
from quicksilver.scopes.dissemination.policies.base import Policy
from quicksilver.scopes.management.messages import FRAME_BYTES_MAX, Peer, Source
from quicksilver.scopes.routing import Channel

VIEW_BYTES_MAX = FRAME_BYTES_MAX - 4096
"""The peers in a view of a domain, as they travel."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a member wants of a topic."""

    domain: int
    publishes: bool
    subscribes: bool
    is_member: bool = True
    """False: a client, which gets messages and does no work."""


@dataclass(slots=True)
class Work:
    """What one member has to do: ends of channels."""

    sources: list[Source] = field(default_factory=list)
    targets: list[Channel] = field(default_factory=list)


class Topic:
    """One topic in one scope."""

    def __init__(
        self, name: str, scope: str, domain: int, policy: Policy, *, is_root: bool, view: int
    ) -> None:
        """Views of the scope's domain are numbered from ``view`` on."""
        self.name = name
        self.domain = domain
        """The number of this scope's recovery domain for the topic."""
        self.view = view
        """Of that domain; grows with every change of its members."""
        self.is_root = is_root
        self.parts: dict[str, Part] = {}
        self.sources: tuple[Source, ...] = ()
        self.targets: tuple[Channel, ...] = ()
        """Ends of channels that the owner gave to this scope."""
        self._scope = scope
        self._container = PolicyContainer(policy)
        self._peers: tuple[Peer, ...] = ()
        self._peers_bytes = 0

    def has_room(self, member: str) -> bool:
        """Whether a view that a member is in can be told to all others."""
        return member in self.parts or self._peers_bytes + _peer_bytes(member) <= VIEW_BYTES_MAX

    def handle_part(self, member: str, part: Part | None) -> None:
        """A member wants something else; None: nothing."""
        if self.parts.pop(member, None) is not None:
            self._peers_bytes -= _peer_bytes(member)
        if part is not None and (part.publishes or part.subscribes):
            self.parts[member] = part
            self._peers_bytes += _peer_bytes(member)

    def update_view(self) -> bool:
        """Take all changes into the view; return whether it is a new one."""
        peers = tuple(
            Peer(name, each.domain) for name, each in sorted(self.parts.items()) if each.is_member
        )
        if peers == self._peers:
            return False
        self._peers = peers
        self.view += 1
        return True

    def peers(self) -> tuple[Peer, ...]:
        """Return the members of this scope's domain."""
        return self._peers

    def wants(self) -> tuple[bool, bool]:
        """Return whether anybody in the scope publishes, and whether anybody subscribes."""
        parts = self.parts.values()
        return any(p.publishes for p in parts), any(p.subscribes for p in parts)

    def problems(self) -> dict[str, str]:
        """Return why the policy was not obeyed, by origin."""
        return self._container.problems()

    def plan(self, addresses: dict[str, str]) -> dict[str, Work]:
        """Return what each member has to do; ``addresses`` are those of members' managers."""
        work = {member: Work() for member in self.parts}
        carriers = self._hand_out_sources(work)
        entries = self._hand_out_targets(work)
        members = [m for m, p in self.parts.items() if p.is_member and p.subscribes]
        clients = [m for m, p in self.parts.items() if not p.is_member and p.subscribes]
        publishers = [m for m, p in self.parts.items() if p.publishes]
        container = self._container
        container.handle_members([*members, *sorted(carriers)], clients)
        container.handle_origins(dict.fromkeys([*publishers, *sorted(entries)]))
        for origin, edges in container.plan().items():
            filters: dict[tuple[str, str], list[Filter]] = {}
            for edge in edges:
                filters.setdefault((edge.source, edge.target), []).append(edge.filter)
            for (source, target), rules in filters.items():
                channel = Channel(self._scope, (source,), (target,), self.name, origin)
                work[source].sources.append(Source(channel, tuple(rules), addresses[target]))
                work[target].targets.append(channel)
        return work

    def _hand_out_sources(self, work: dict[str, Work]) -> set[str]:
        """Give ends that lead out to members; return who carries messages then."""
        carriers = set()
        for source in self.sources:
            worker = self._choose_worker(source.channel)
            if worker is not None:
                carriers.add(worker)
                old = source.channel
                channel = Channel(
                    old.scope, (*old.source, worker), old.target, old.topic, old.origin
                )
                moved = Source(channel, source.filters, source.address, source.waits)
                work[worker].sources.append(moved)
        return carriers

    def _hand_out_targets(self, work: dict[str, Work]) -> set[str]:
        """Give ends that lead in to members; return where messages come in then."""
        entries = set()
        for channel in self.targets:
            worker = self._choose_worker(channel)
            if worker is not None:
                entries.add(worker)
                work[worker].targets.append(self.handed_on(channel, worker))
        return entries

    def find_target(self, asked: Channel) -> Channel | None:
        """Return the announced channel that is asked for, whoever works its source."""
        for channel in self.targets:
            if (channel.scope, channel.source[0], channel.origin) == (
                asked.scope,
                asked.source[0],
                asked.origin,
            ):
                return channel
        return None

    def entry_of(self, channel: Channel) -> str | None:
        """Return the member at which messages of a channel come in."""
        return self._choose_worker(channel) if channel in self.targets else None

    @staticmethod
    def handed_on(channel: Channel, worker: str) -> Channel:
        """Return a channel whose target's end was handed to a member."""
        return Channel(
            channel.scope, channel.source, (*channel.target, worker), channel.topic, channel.origin
        )

    def _choose_worker(self, channel: Channel) -> str | None:
        """Return the member that works this scope's end of a channel; None: nobody can.

        "If X receives messages in a topic T, then some of its members must also receive
        them" (3.2.4): one of those, and different ones for different channels. Clients do no
        work.
        """
        members = [m for m, part in self.parts.items() if part.is_member]
        candidates = [m for m in members if self.parts[m].subscribes] or members
        # Whoever works the other end may change: this one does not move for it.
        ends = f"{channel.source[0]}-{channel.target[0]}"
        name = f"{channel.scope} {ends} {channel.topic} {channel.origin}"
        return max(candidates, key=lambda member: _lot(name, member), default=None)


def _peer_bytes(member: str) -> int:
    return len(member.encode("utf-8", "surrogatepass")) + 16


def _lot(channel: str, member: str) -> bytes:
    """Return something to compare that depends on two names alone (rendezvous hashing)."""
    text = f"{channel} {member}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).digest()
