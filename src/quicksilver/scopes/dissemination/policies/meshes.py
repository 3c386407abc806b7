"""Policies in which members get a message from several others, or perhaps from nobody.

Nodes drop what they have already. What nobody brought, the scope's recovery does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import blake2b
from itertools import combinations

from quicksilver.scopes.dissemination.filters import ALL, Chance
from quicksilver.scopes.dissemination.policies.base import Edge

GOSSIP_EVERYBODY_MAX = 32
"""In larger scopes a member gossips with some of the others only, always the same ones."""


class Mesh:
    """Every message comes along ``paths`` ways that have no member in common.

    Members stand in a circle, each beside the next ones in both directions (Harary's graph):
    whoever of fewer than ``paths`` of them fail, the rest still reaches each other.
    """

    mechanism = None

    def __init__(self, paths: int) -> None:
        if paths < 2 or paths % 2:
            raise ValueError(f"a mesh needs an even number of paths, 2 or more, not {paths}")
        self.paths = paths

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return (edge for edge in self.shared_edges(members) if edge.target != origin)

    def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
        for one, other in _neighbours(members, self.paths // 2):
            yield Edge(one, other)
            yield Edge(other, one)

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        if origin not in members:
            # As if it stood at the end of the circle.
            reach = self.paths // 2
            for member in dict.fromkeys((*members[:reach], *members[-reach:])):
                yield Edge(origin, member)


def _neighbours(members: tuple[str, ...], reach: int) -> list[tuple[str, str]]:
    if len(members) <= 2 * reach + 1:
        return list(combinations(members, 2))
    count = len(members)
    return [
        (members[place], members[(place + step) % count])
        for place in range(count)
        for step in range(1, reach + 1)
    ]


class Gossip:
    """Every member passes a message on to ``fan_out`` others, drawn by lot for each message."""

    mechanism = None

    def __init__(self, fan_out: int) -> None:
        if fan_out < 1:
            raise ValueError(f"gossip needs a fan-out of 1 or more, not {fan_out}")
        self.fan_out = fan_out

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return (edge for edge in self.shared_edges(members) if edge.target != origin)

    def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
        circle = _circle(members)
        for source in members:
            yield from self._edges_from(source, circle)

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return iter(()) if origin in members else self._edges_from(origin, _circle(members))

    def _edges_from(self, source: str, circle: list[tuple[int, str]]) -> Iterator[Edge]:
        peers = self._peers(source, circle)
        part = min(1.0, self.fan_out / max(1, len(peers)))
        for target in peers:
            yield Edge(source, target, ALL if part == 1.0 else Chance(part, _lot(source, target)))

    def _peers(self, source: str, circle: list[tuple[int, str]]) -> list[str]:
        """Return whom a member gossips with: who joins or leaves changes few of them."""
        others = [member for _, member in circle if member != source]
        most = max(GOSSIP_EVERYBODY_MAX, self.fan_out)
        if len(others) <= most:
            return sorted(others)
        # With the next one on the circle among them, everybody is somebody's peer.
        draws = [_lot("", source) + 1, *(_lot(source, str(draw)) for draw in range(most - 1))]
        chosen: dict[str, None] = {}
        for draw in draws:
            place = bisect_left(circle, (draw, ""))
            while (peer := circle[place % len(circle)][1]) == source or peer in chosen:
                place += 1
            chosen[peer] = None
        return list(chosen)


def _circle(members: tuple[str, ...]) -> list[tuple[int, str]]:
    """Return members in places on a circle that depend on their names alone."""
    return sorted((_lot("", member), member) for member in members)


def _lot(source: str, target: str) -> int:
    """Return a number that depends on two names alone."""
    digest = blake2b(f"{source}:{target}".encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
