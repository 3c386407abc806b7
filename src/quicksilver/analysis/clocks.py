"""Clocks of several machines made one, from packets that were seen leave and arrive.

A node's records carry its own clock. Its samples pair that with the time of day,
which is the first estimate. Where sampled packets went both ways between two nodes,
half of the difference of the two quickest ways is what their clocks differ by (as in
NTP: the quickest packets wait least). Where they went one way only, nothing more can
be told than that no packet arrives before it left; if one seems to, the receiver's
clock is put forward until none does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

Delays = Mapping[tuple[int, int], float]
"""Shortest time from a sender to a receiver, by their clocks as first estimated."""


def align_clocks(bases: Mapping[int, float | None], delays: Delays) -> dict[int, float]:
    """Return what to add to each node's own clock.

    ``bases`` has the nodes and their first estimates; ``delays`` are by their own clocks.
    Nodes without an estimate lived for less than a second: they get the others'.
    """
    usual = next((base for _, base in sorted(bases.items()) if base is not None), 0.0)
    first = {node: usual if base is None else base for node, base in bases.items()}
    seen = {
        (sender, node): delay + first[node] - first[sender]
        for (sender, node), delay in delays.items()
        if sender != node and sender in first and node in first
    }
    return {node: first[node] + shift for node, shift in solve_offsets(first, seen).items()}


def solve_offsets(nodes: Iterable[int], delays: Delays) -> dict[int, float]:
    """Return what to add to each node's first estimate; the first node keeps its own.

    Walks from node to node, nearest (shortest round trip) pairs first: the error of an
    estimate is at most half a round trip, and adds up along the way.
    """
    names = sorted(set(nodes))
    pairs: dict[int, list[tuple[float, int, float]]] = {node: [] for node in names}
    for (a, b), there in delays.items():
        back = delays.get((b, a))
        if back is not None and a < b and a in pairs and b in pairs:
            shift = (back - there) / 2
            pairs[a].append((there + back, b, shift))
            pairs[b].append((there + back, a, -shift))
    offsets: dict[int, float] = {}
    for start in names:
        if start in offsets:
            continue
        offsets[start] = 0.0
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for _, other, shift in sorted(pairs[here]):
                if other not in offsets:
                    offsets[other] = offsets[here] + shift
                    waiting.append(other)
    _respect_causality(offsets, delays)
    return offsets


def _respect_causality(offsets: dict[int, float], delays: Delays) -> None:
    """Put receivers forward that seem to get packets before they were sent.

    A few passes are enough: delays that contradict each other in a circle cannot all
    be put right, and are left as they are.
    """
    one_way = sorted(pair for pair in delays if (pair[1], pair[0]) not in delays)
    for _ in range(len(offsets)):
        is_changed = False
        for a, b in one_way:
            if a not in offsets or b not in offsets:
                continue
            seen = delays[a, b] + offsets[b] - offsets[a]
            if seen < 0:
                offsets[b] -= seen
                is_changed = True
        if not is_changed:
            return
