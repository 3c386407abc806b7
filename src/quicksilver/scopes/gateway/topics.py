"""Which topics the nodes of a network want, and which gateway brings them in.

A gateway is in all groups whose names are topics of its scopes, by patterns; so it hears what
local nodes send, and the views of the groups. Others than gateways in a view are subscribers.
A group that has ended had neither these nor publishers: the GMS keeps none for a pattern.

One gateway brings in the messages of a topic: whose lot is the highest. Which one that is
follows from their names, so they agree once they have the same view of each other, and a
gateway that goes moves only the topics that it had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from quicksilver.scopes.names import find_topic_name_problem

TOPICS_MAX = 10_000
"""Topics of one gateway; it is deaf to more."""


class Wanted(NamedTuple):
    """What a network wants of a topic from now on."""

    topic: str
    publishes: bool
    subscribes: bool


def lot(topic: str, gateway: str) -> bytes:
    """Return a number that depends on both names."""
    return blake2b(f"{topic}\0{gateway}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


class Topics:
    """The topics that have groups in a network."""

    def __init__(self, own: str, counters: Counter[str]) -> None:
        """``own``: the name of this gateway."""
        self._own = own
        self._counters = counters
        self._gateways: dict[int, str] = {}
        """By the number of their nodes."""
        self._members: dict[str, frozenset[int]] = {}
        """The members of topics' groups, gateways among them."""
        self._told: dict[str, Wanted] = {}
        self._changed: dict[str, None] = {}

    def handle_gateways(self, gateways: dict[int, str]) -> None:
        """The gateways of this network, this one among them, by their nodes' numbers."""
        self._gateways = dict(gateways)
        self._changed.update(dict.fromkeys(self._members))

    def handle_view(self, topic: str, members: Iterable[int]) -> None:
        """A topic's group has these members."""
        problem = find_topic_name_problem(topic)
        if problem is not None or (topic not in self._members and len(self._members) >= TOPICS_MAX):
            self._counters["topics_ignored"] += 1
            return
        self._members[topic] = frozenset(members)
        self._changed[topic] = None

    def handle_gone(self, topic: str) -> None:
        """A topic's group has ended."""
        if self._members.pop(topic, None) is not None:
            self._changed[topic] = None

    def is_gateway(self, node: int) -> bool:
        return node in self._gateways

    def has(self, topic: str) -> bool:
        return topic in self._members

    def has_subscribers(self, topic: str) -> bool:
        """Whether anybody but gateways is in a topic's group."""
        return not self._gateways.keys() >= self._members.get(topic, frozenset())

    def is_presented(self, topic: str) -> bool:
        """Whether this gateway is the one that brings in the messages of a topic."""
        if not self.has_subscribers(topic):
            return False
        return self._own == max(self._gateways.values(), key=lambda each: (lot(topic, each), each))

    def poll_wanted(self) -> Wanted | None:
        """Return what is wanted of a topic, if that is news; or None.

        A topic is told again when the gateways have changed.
        """
        while self._changed:
            topic = next(iter(self._changed))
            del self._changed[topic]
            # Whoever is in a group may send, and so may others as long as there is a group.
            wanted = Wanted(topic, topic in self._members, self.has_subscribers(topic))
            if wanted.publishes:
                self._told[topic] = wanted
                return wanted
            if self._told.pop(topic, None) is not None:
                return wanted
        return None
