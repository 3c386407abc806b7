"""Sets of nodes as integers: bit ``s`` stands for the node in slot ``s``.

A cluster's nodes take slots from zero up, and a slot is reused when its node is
gone, so a set of 2,000 nodes is 250 bytes and a union takes some 50 ns. That is
what makes "who needs to know of this change?" cheap for thousands of groups.
"""

from __future__ import annotations

from heapq import heappop, heappush

_BITS = tuple(tuple(i for i in range(8) if byte >> i & 1) for byte in range(256))


def slots_of(mask: int) -> list[int]:
    """Return the slots in a set, ascending."""
    # By bytes: five times as fast as isolating the lowest bit of a long integer.
    slots: list[int] = []
    base = 0
    for byte in mask.to_bytes((mask.bit_length() + 7) >> 3, "little"):
        if byte:
            for bit in _BITS[byte]:
                slots.append(base + bit)  # noqa: PERF401  # a list per byte costs more
        base += 8
    return slots


class SlotAllocator:
    """Hands out the lowest free slot."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def acquire(self) -> int:
        """Take a slot."""
        if self._free:
            return heappop(self._free)
        self._next += 1
        return self._next - 1

    def release(self, slot: int) -> None:
        """Give a slot back."""
        heappush(self._free, slot)
