"""Domains, and how the members of one are cut into a hierarchy of them.

Some members form a domain of the lowest level; the first living member of each speaks for
it in a domain of the next level, and so on up to one domain at the top. The time to hear
from everybody then grows with the logarithm of their number. All of it is a function of
the ordered member list and of who has failed since: nodes agree on it without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

Name = tuple[int, int]
"""The level of a domain, counted from the lowest, and its place there."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The nodes whose agents take part in the same rounds, leader first."""

    name: Name
    members: tuple[int, ...]
    parent: Name | None = None
    """The domain above, in which its leader speaks for it; None at the top."""

    @property
    def leader(self) -> int:
        return self.members[0]

    def next_of(self, node: int, skipped: frozenset[int] | set[int]) -> int:
        """Return who comes after ``node`` in the ring, passing over ``skipped``."""
        members = self.members
        place = members.index(node)
        for step in range(1, len(members) + 1):
            candidate = members[(place + step) % len(members)]
            if candidate == node or candidate not in skipped:
                return candidate
        return node


class Hierarchy:
    """The domains of a list of members, from the lowest level to the one at the top."""

    def __init__(
        self, members: tuple[int, ...], size: int, failed: frozenset[int] = frozenset()
    ) -> None:
        """``size``: members of one domain at most; at least two."""
        assert members
        size = max(2, size)
        self.parts: tuple[tuple[int, ...], ...] = tuple(
            tuple(members[i] for i in chunk) for chunk in _chunks(len(members), size)
        )
        """Who belongs to which domain of the lowest level, the failed included: a
        failure leaves everybody else where he was."""
        alive = [tuple(node for node in part if node not in failed) for part in self.parts]
        levels: list[tuple[Domain, ...]] = []
        groups = alive
        while True:
            chunks = _chunks(len(groups), size) if len(groups) > 1 else []
            levels.append(tuple(_domains(len(levels), groups, chunks)))
            if not chunks:
                break
            # The first of each group speaks for it one level up.
            groups = [tuple(groups[i][0] for i in chunk if groups[i]) for chunk in chunks]
        self.levels = tuple(levels)
        self.leader = groups[0][0] if groups[0] else None
        """Who leads the domain at the top; None when every member has failed."""

    def domains_of(self, node: int) -> list[Domain]:
        """Return the domains that a node takes part in, lowest first."""
        return [domain for level in self.levels for domain in level if node in domain.members]


def _domains(level: int, groups: list[tuple[int, ...]], chunks: list[range]) -> Iterator[Domain]:
    """Yield the domains of a level that have members; ``chunks``: which share a parent."""
    parents = {i: (level + 1, place) for place, chunk in enumerate(chunks) for i in chunk}
    for i, members in enumerate(groups):
        if members:
            yield Domain((level, i), members, parents.get(i))


def _chunks(count: int, size: int) -> list[range]:
    """Cut ``count`` things into runs of at most ``size``, as even as can be."""
    parts = max(1, -(-count // size))
    bounds = [count * part // parts for part in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(bounds)]
