"""The owners of a scope: who they are, where they lead, and which of them serves which topic.

Several owners may lead to the same root. A topic is asked for at one of them, which is kept
for as long as it is there: asking another moves channels. What the others say of the topic
does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from quicksilver.scopes.management.messages import (
    ABOVE_MAX,
    ENDS_MAX,
    PART_BYTES_MAX,
    Orders,
    Source,
    Target,
    encode,
)
from quicksilver.scopes.management.sessions import find_sessions_problem
from quicksilver.scopes.names import PARTS_MAX, root_of

END_BYTES_MAX = PART_BYTES_MAX - 4096
"""The beginning of a channel, as an owner tells it; to hand it on it is made longer."""

Wants = tuple[int, bool, bool]
"""The scope's domain for a topic, whether anybody publishes, and whether anybody subscribes."""


@dataclass(slots=True, eq=False)
class Owner:
    """One that this scope is a member of, or tries to be."""

    address: str
    conn: int | None = None
    name: str = ""
    """Empty until it has answered."""
    above: tuple[str, ...] = ()
    knows_all: bool = False
    """Whether nothing else is above it."""
    heard_at: float = 0.0
    tries: int = 0
    is_joined: bool = False
    """True once it has answered on this connection …"""
    has_told_posts: bool = False
    """… and once it has told of all agents."""
    partial: dict[str, tuple[list[Source], list[Target]]] = field(default_factory=dict)
    """Orders of which the last part is yet to come, by topic."""

    @property
    def is_there(self) -> bool:
        return self.conn is not None and self.is_joined

    def leads_to(self, root: str) -> bool:
        return self.name == root or root in self.above


class Owners:
    """The owners of one scope, by address."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self.by_address = {each: Owner(each) for each in addresses}
        self.asked: dict[str, tuple[Owner, Wants]] = {}
        """By topic: which owner was asked, and for what."""

    def at(self, conn: int) -> Owner | None:
        for owner in self.by_address.values():
            if owner.conn == conn:
                return owner
        return None

    def above(self) -> tuple[str, ...]:
        """Return the names of the owners, and of theirs."""
        names: dict[str, None] = {}
        for owner in self.by_address.values():
            if owner.name:
                names[owner.name] = None
                names.update(dict.fromkeys(owner.above))
        return tuple(names)[:ABOVE_MAX]

    def knows_all(self) -> bool:
        """Whether these are all, however far up."""
        return all(owner.name and owner.knows_all for owner in self.by_address.values())

    def is_taken(self, name: str, owner: Owner) -> bool:
        """Whether another owner that is there has a name."""
        others = (each for each in self.by_address.values() if each is not owner)
        return any(each.is_there and each.name == name for each in others)

    def for_topic(self, topic: str) -> Owner | None:
        """Return the owner to ask for a topic: the one that was, if it still leads there."""
        root = root_of(topic)
        asked = self.asked.get(topic)
        if asked is not None and asked[0].is_there and asked[0].leads_to(root):
            return asked[0]
        there = [owner for owner in self.by_address.values() if owner.is_there]
        for owner in there:
            if owner.name == root:
                return owner
        return next((owner for owner in there if root in owner.above), None)

    def serves(self, owner: Owner, topic: str) -> bool:
        """Whether an owner is the one that was asked for a topic."""
        asked = self.asked.get(topic)
        return asked is not None and asked[0] is owner

    def has_say(self, address: str, topic: str) -> bool:
        """Whether what an owner wanted for a topic still counts: nobody else was asked."""
        asked = self.asked.get(topic)
        return asked is None or asked[0].address == address

    def handle_lost(self, owner: Owner) -> list[str]:
        """An owner is out of reach, and may forget; return the topics it was asked for."""
        owner.conn, owner.is_joined, owner.has_told_posts = None, False, False
        owner.partial.clear()
        topics = [topic for topic, (asked, _) in self.asked.items() if asked is owner]
        for topic in topics:
            del self.asked[topic]
        return topics


def gather_orders(owner: Owner, orders: Orders) -> Orders | None:
    """Put parts of orders together; return the whole once the last part is here."""
    begun = owner.partial.pop(orders.topic, None)
    if orders.is_first:
        begun = [], []
    if begun is None:
        return None
    sources, targets = begun
    sources += orders.sources
    targets += orders.targets
    if orders.is_last:
        return msgspec.structs.replace(
            orders, sources=tuple(sources), targets=tuple(targets), is_first=True
        )
    if len(sources) + len(targets) <= ENDS_MAX:
        owner.partial[orders.topic] = sources, targets
    return None


def find_orders_problem(scope: str, orders: Orders, *, is_node: bool) -> str | None:
    """Return why a scope cannot obey an owner: ends must be its own, be of the topic, and be
    such that they can be handed on."""
    if len(orders.sources) + len(orders.targets) > ENDS_MAX:
        return f"they have more than {ENDS_MAX:,} ends of channels"
    deepest = PARTS_MAX if is_node else PARTS_MAX - 1
    ends = [(each.channel, each.channel.source) for each in orders.sources]
    ends += [(each.channel, each.channel.target) for each in orders.targets]
    for channel, path in ends:
        if channel.topic != orders.topic:
            return f"{channel} is for another topic"
        if path[-1] != scope or len(path) > deepest:
            return f"{channel} has no end at {scope!r}"
    if any(len(encode(source)) > END_BYTES_MAX for source in orders.sources):
        return "the beginning of a channel is too long"
    if any(each.path[-1] != scope or len(each.path) > deepest for each in orders.media):
        return f"a mechanism is not for {scope!r}"
    if len({medium.scope for medium in orders.media}) < len(orders.media):
        return "a scope has two mechanisms"
    return find_sessions_problem(orders.sessions)
