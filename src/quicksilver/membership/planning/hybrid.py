"""Which groups are worth a multicast address of their own.

A message to a group is sent once to each region that the group spans. With an
address of its own one packet with a header for every region does: "a complete set of
per-region headers, using a per-group IP multicast address" (dissertation 4.2.1 B).
That saves all packets but one, and costs every member one more membership, of which
it has few. So what counts is the *gain*: packets saved a second, for each member.

Groups over the same regions, all of whose nodes are members, have the same members:
they are one candidate, share an address, and their traffic adds up.

This is a function of its arguments: ties are broken by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quicksilver.membership.bits import slots_of

STICKY = 2.0
"""An address that exists counts so many times its gain: traffic comes and goes, and
everybody who is told to listen or not to pays for it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Groups that could share an address."""

    regions: int
    """How many packets a message takes without it."""
    members: int
    """Nodes, as bits: all that are in one of the regions."""
    rate: float
    """Messages a second, to all of the groups."""
    is_hybrid: bool = False
    """It has an address already."""

    @property
    def gain(self) -> float:
        """Packets saved a second for each member."""
        return self.rate * (self.regions - 1) / max(1, self.members.bit_count())


def choose_hybrid(
    candidates: Sequence[Candidate],
    *,
    memberships: Mapping[int, int],
    memberships_max: int,
    gain_min: float,
    addresses_max: int,
) -> list[int]:
    """Return the places of the candidates that are to have an address, ascending.

    Largest gains come first. ``memberships`` tells, for each slot of a node, how many
    memberships it has besides those of candidates; with them it has ``memberships_max``
    at most, and an address that is to go counts until it is gone.
    """
    worths = [one.gain * (STICKY if one.is_hybrid else 1.0) for one in candidates]
    ranked = sorted(
        (at for at, one in enumerate(candidates) if one.regions > 1 and worths[at] >= gain_min),
        key=lambda at: (-worths[at], at),
    )
    room = _Room(memberships, memberships_max)
    best = [at for at in ranked if room.take(candidates[at].members)][:addresses_max]
    # Who comes waits for who goes.
    room = _Room(memberships, memberships_max)
    for one in candidates:
        if one.is_hybrid:
            room.charge(one.members)
    return sorted(
        at for at in best if candidates[at].is_hybrid or room.take(candidates[at].members)
    )


class _Room:
    """Memberships that nodes have left."""

    def __init__(self, memberships: Mapping[int, int], memberships_max: int) -> None:
        self._max = memberships_max
        self._spare = {slot: memberships_max - count for slot, count in memberships.items()}
        self._full = sum(1 << slot for slot, spare in self._spare.items() if spare <= 0)

    def take(self, members: int) -> bool:
        """Charge every node of a set with a membership, if all of them have one left."""
        if members & self._full:
            return False
        self.charge(members)
        return True

    def charge(self, members: int) -> None:
        for slot in slots_of(members):
            spare = self._spare[slot] = self._spare.get(slot, self._max) - 1
            if spare <= 0:
                self._full |= 1 << slot
