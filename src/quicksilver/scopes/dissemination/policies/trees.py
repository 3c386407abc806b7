"""Policies that forward each message along a tree, so that every member gets it once."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.scopes.dissemination.filters import ALL, Filter, Modulo
from quicksilver.scopes.dissemination.policies.base import Edge


class Star:
    """The member that a message originates at sends it to every other one."""

    mechanism = None

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return (Edge(origin, member) for member in members if member != origin)


class Tree:
    """One tree for all origins, in which every member has at most ``fan_out`` children.

    A message travels from its origin in all directions. Whatever the origin and the topic,
    the channels are the same ones, so scopes with many topics need few (Figure 3.9). Where
    ``fan_out`` is 1 it is a chain.
    """

    mechanism = None

    def __init__(self, fan_out: int) -> None:
        if fan_out < 1:
            raise ValueError(f"a tree needs a fan-out of 1 or more, not {fan_out}")
        self.fan_out = fan_out

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        # Between the origin and the root messages travel up, elsewhere down.
        upwards = set()
        place = members.index(origin)
        while place:
            upwards.add(place)
            place = (place - 1) // self.fan_out
        for place in range(1, len(members)):
            above, below = members[(place - 1) // self.fan_out], members[place]
            yield Edge(below, above) if place in upwards else Edge(above, below)

    def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
        for place in range(1, len(members)):
            above, below = members[(place - 1) // self.fan_out], members[place]
            yield Edge(above, below)
            yield Edge(below, above)

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        if members and origin not in members:
            yield Edge(origin, members[(len(members) - 1) // self.fan_out])


class Stripes:
    """Several trees that share the messages in turn, as in SplitStream.

    A member that forwards in one of them is a leaf in the others, or nearly so: each has to
    send about as much as it receives, where in a single tree half of the members send
    nothing.
    """

    mechanism = None

    def __init__(self, count: int) -> None:
        if count < 2:
            raise ValueError(f"stripes need 2 trees or more, not {count}")
        self.count = count

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        others = tuple(member for member in members if member != origin)
        for stripe in range(self.count):
            turned = self._turned(others, stripe)
            yield from _from_root(origin, turned, self.count, Modulo(self.count, stripe))

    def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
        for stripe in range(self.count):
            root, *others = self._turned(members, stripe)
            yield from _from_root(root, tuple(others), self.count, Modulo(self.count, stripe))

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        for stripe in range(self.count if members else 0):
            root = self._turned(members, stripe)[0]
            if root != origin:
                yield Edge(origin, root, Modulo(self.count, stripe))

    def _turned(self, members: tuple[str, ...], stripe: int) -> tuple[str, ...]:
        start = len(members) * stripe // self.count
        return members[start:] + members[:start]


def _from_root(
    origin: str, others: tuple[str, ...], fan_out: int, rule: Filter = ALL
) -> Iterator[Edge]:
    """Yield a tree in which the origin sends to one member, which begins the tree proper."""
    for place, member in enumerate(others):
        above = others[(place - 1) // fan_out] if place else origin
        yield Edge(above, member, rule)
