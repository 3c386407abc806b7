"""Domains for nodes that come and go, such that nobody who stays is moved.

Whether a node counts is between it and its domain (``steps``), so domains keep their names and
their places while members come and go. Every node has a *slot*; nodes whose slots share all but
the last digit, to the base ``size``, form a domain, those of which the slots share all but the
last two digits have their domains in one domain above, and so on up to ``height`` digits. A domain
without living nodes is not there. In each the node that has been there longest leads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from quicksilver.properties.run.rounds import Placed
from quicksilver.recovery.domains import Domain, Name


class Living(NamedTuple):
    """A node of the present membership."""

    node: int
    """Nodes that start later have greater numbers, and so has a node that starts again."""
    slot: int


def height_of(slots: int, size: int) -> int:
    """Return how many levels of domains a number of slots needs."""
    height, room = 1, size
    while room < slots:
        height, room = height + 1, room * size
    return height


class Placement:
    """The domains of a membership, view after view."""

    def __init__(self, size: int, height: int) -> None:
        """``size``: members of a domain at most; ``height``: levels of domains."""
        self._size = size
        self._height = height
        self.domains: dict[Name, Placed] = {}
        """All of the present ones."""
        self._views: dict[Name, int] = {}

    def become(self, living: Iterable[Living], view: int | None = None) -> None:
        """Place these nodes.

        ``view``: the number of this membership, greater than the last one. All domains have it as
        their view then: who comes anew cannot know since when a domain has been as it is. Without
        it each domain counts its own changes, which is for those who see all of them.
        """
        groups: dict[Name, list[int]] = {}
        members: dict[int, list[int]] = defaultdict(list)
        for each in living:
            members[each.slot // self._size].append(each.node)
        for level in range(self._height):
            above: dict[int, list[int]] = defaultdict(list)
            for place, nodes in members.items():
                nodes.sort()
                groups[level, place] = nodes
                above[place // self._size].append(nodes[0])
            members = above
        placed: dict[Name, Placed] = {}
        for name, nodes in groups.items():
            level, place = name
            parent = (level + 1, place // self._size) if level + 1 < self._height else None
            domain = Domain(name, tuple(nodes), parent)
            old = self.domains.get(name)
            if view is None and old is not None and old.domain == domain:
                placed[name] = old
                continue
            self._views[name] = self._views.get(name, 0) + 1 if view is None else view
            placed[name] = Placed(domain, self._views[name])
        self.domains = placed

    def of(self, living: Living) -> list[Placed]:
        """Return the domains that a node takes part in, lowest first."""
        found: list[Placed] = []
        place = living.slot
        for level in range(self._height):
            place //= self._size
            placed = self.domains[level, place]
            found.append(placed)
            if placed.domain.leader != living.node:
                break
        return found
