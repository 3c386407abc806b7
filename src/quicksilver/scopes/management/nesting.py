"""How a domain with many members is divided into nested domains.

A round takes longer the more members it visits, so many members are divided into groups, each
group gets a domain of its own, and the domain above has the groups as members; where there are
many groups they are divided in turn. QSM nests a region, its partitions of about five and its
nodes in this way (dissertation 4.2.1).

Every seat has a lot, which is drawn from its name. A group is those whose lots begin with the
same bits, and a group that is too large is cut by one bit more. So who is with whom depends on
the names alone: whoever joins or leaves moves nobody but members of its own group, and a
manager that starts again comes to the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from quicksilver.scopes.posts import Seat

MEMBERS_MAX = 100
"""Members of a domain that is not divided, where its protocol does not say how many."""

LOT_BYTES = 8


class Group(NamedTuple):
    """Seats, or groups of them, that have a domain of their own below another one."""

    name: str
    """Its level, counted from the lowest, and the bits that its lots begin with."""
    seats: tuple[Seat | Group, ...]


def members_max(protocol: str) -> int:
    """Return how many members a domain may have undivided: for ``ring:5``, groups of about 5."""
    kind, _, number = protocol.partition(":")
    if kind != "ring" or not (number.isascii() and number.isdigit() and len(number) <= 3):
        return MEMBERS_MAX
    # Halves of a group that has just become too large are still of about that size.
    return max(2, int(number) * 3 // 2)


def divide(seats: Sequence[Seat], most: int) -> list[Seat | Group]:
    """Return what a domain with these seats has as its members: at most ``most`` of them.

    Who cannot be dialled is not put into a group: it would have nobody there to talk to. So
    there may be more of those.
    """
    items: list[tuple[int, Seat | Group]] = [(_lot(s), s) for s in seats if s.address]
    level = 0
    while len(items) > most:
        above: list[tuple[int, Seat | Group]] = []
        for bits, inside in _cut(items, "", most):
            first = int(bits.ljust(8 * LOT_BYTES, "0"), 2)
            if len(inside) == 1:
                above.append(inside[0])
            else:
                above.append((first, Group(f"{level}:{bits}", tuple(s for _, s in inside))))
        items = above
        level += 1
    return [*(item for _, item in items), *(seat for seat in seats if not seat.address)]


def _cut(
    items: list[tuple[int, Seat | Group]], bits: str, most: int
) -> Iterator[tuple[str, list[tuple[int, Seat | Group]]]]:
    """Yield the largest groups of not too many that begin with the same bits."""
    if not items:
        return
    if len(items) <= most or len(bits) == 8 * LOT_BYTES:
        yield bits, items
        return
    place = 8 * LOT_BYTES - 1 - len(bits)
    for bit in (0, 1):
        yield from _cut([i for i in items if i[0] >> place & 1 == bit], f"{bits}{bit}", most)


def _lot(seat: Seat) -> int:
    """Return a number that depends on a name alone."""
    text = f"{seat.member} {seat.domain}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=LOT_BYTES).digest(), "big")
