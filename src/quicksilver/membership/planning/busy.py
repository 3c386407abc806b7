"""Bands for the few groups that carry most of the traffic.

"A large portion of the bandwidth would be concentrated in a relatively small
number of groups" (dissertation 4.1.2): where the traffic is known, these groups
are taken out before the rest is merged, and get exact regions of their own, in
which nobody drops anything. Hierarchies are few, so groups share one where the
packets that they cut into each other's regions cost less than dropping would.

The search is greedy: the group that would cost most among the rest is placed
first, where it adds the least.
"""

from __future__ import annotations

from collections.abc import Sequence

_CANDIDATES_MAX = 1_000
"""Groups that are tried, the most wasteful first; the others weigh little."""

_PARTS_MAX = 256
"""Regions of one band: finer ones would be as many packets as members."""

_RESERVED = 2
"""Hierarchies that are left for the rest: popular groups, and rare ones."""


class _Band:
    """Groups that share regions, all of them exact."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.nodes = 0
        self.parts: list[tuple[int, float]] = []
        """Nodes, as bits, and the traffic of the groups that all of them want."""

    def price(self, members: int, rate: float, packet: float, toll: float) -> float:
        """Return what the band costs more with one more group, beyond its wanted packets."""
        cuts, touched, outside = 0.0, 0, members & ~self.nodes
        for part, load in self.parts:
            inside = part & members
            if inside:
                touched += 1
                if inside != part:
                    cuts += load
        touched += bool(outside)
        return packet * (cuts + rate * touched) + toll * outside.bit_count()

    def add(self, group: int, members: int, rate: float) -> None:
        """Take in a group, dividing the parts that it cuts."""
        self.groups.append(group)
        parts: list[tuple[int, float]] = []
        for part, load in self.parts:
            inside = part & members
            if inside:
                parts.append((inside, load + rate))
            if inside != part:
                parts.append((part & ~inside, load))
        outside = members & ~self.nodes
        if outside:
            parts.append((outside, rate))
        self.parts = parts
        self.nodes |= members


def find_busy(
    members: Sequence[int],
    rates: Sequence[float],
    nodes: int,
    bands_max: int,
    *,
    packet_cost: float,
    membership_cost: float,
) -> list[list[int]]:
    """Return bands of groups that are better off apart from the rest.

    ``members`` are the nodes of each group as bits; ``nodes`` is how many there are.
    """

    def waste(group: int) -> float:
        # Among the rest, a group goes to everybody, or to each member by itself.
        size = members[group].bit_count()
        merged = min(nodes + packet_cost, size * (1 + packet_cost))
        return rates[group] * (merged - size)

    ranked = sorted((g for g, bits in enumerate(members) if bits), key=lambda g: (-waste(g), g))
    bands: list[_Band] = []
    for group in ranked[:_CANDIDATES_MAX]:
        rate, bits = rates[group], members[group]
        options = [
            (band.price(bits, rate, packet_cost, membership_cost), at)
            for at, band in enumerate(bands)
            if len(band.parts) <= _PARTS_MAX
        ]
        if len(bands) < bands_max - _RESERVED:
            new = packet_cost * rate + membership_cost * bits.bit_count()
            options.append((new, len(bands)))
        added, at = min(options, default=(0.0, -1))
        if at < 0 or added >= waste(group):
            continue
        if at == len(bands):
            bands.append(_Band())
        bands[at].add(group, bits, rate)
    return [sorted(band.groups) for band in bands]
