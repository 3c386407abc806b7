"""The owners of a scope: who they are, where they lead, and which of them serves which topic.

Several owners may lead to the same root. A topic is asked for at one of them, which is kept
for as long as it is there: asking another moves channels. What the others say of the topic
does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quicksilver.scopes.management.messages import (
    ABOVE_MAX,
    ENDS_MAX,
    PART_BYTES_MAX,
    Orders,
    Source,
    encode,
)
from quicksilver.scopes.names import PARTS_MAX, root_of
from quicksilver.scopes.routing import Channel

END_BYTES_MAX = PART_BYTES_MAX - 4096
"""The beginning of a channel, as an owner tells it; to hand it on it is made longer."""

Wants = tuple[bool, bool]
"""Whether anybody publishes, and whether anybody subscribes."""


@dataclass(slots=True, eq=False)
class Owner:
    """One that this scope is a member of, or tries to be."""

    address: str
    conn: int | None = None
    name: str = ""
    """Empty until it has answered."""
    above: tuple[str, ...] = ()
    heard_at: float = 0.0
    tries: int = 0
    is_joined: bool = False
    """True once it has answered on this connection."""
    partial: dict[str, tuple[list[Source], list[Channel]]] = field(default_factory=dict)
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

    def handle_lost(self, owner: Owner) -> list[str]:
        """An owner is out of reach, and may forget; return the topics it was asked for."""
        owner.conn, owner.is_joined = None, False
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
        return Orders(orders.topic, tuple(sources), tuple(targets))
    if len(sources) + len(targets) <= ENDS_MAX:
        owner.partial[orders.topic] = sources, targets
    return None


def may_order(scope: str, orders: Orders, *, is_node: bool) -> bool:
    """Whether all ends are those of a scope, are of the topic, and can be handed on."""
    if len(orders.sources) + len(orders.targets) > ENDS_MAX:
        return False
    ends = [(each.channel, each.channel.source) for each in orders.sources]
    ends += [(channel, channel.target) for channel in orders.targets]
    deepest = PARTS_MAX if is_node else PARTS_MAX - 1
    return all(
        channel.topic == orders.topic and path[-1] == scope and len(path) <= deepest
        for channel, path in ends
    ) and all(len(encode(source)) <= END_BYTES_MAX for source in orders.sources)
