"""Seeded randomness that is the same on every machine, version and run.

The standard library's generator is stable, but its ``choice`` or ``shuffle``
have changed between versions, and a replayable simulation must not. This is
xoshiro256** (Blackman and Vigna), seeded by splitmix64, with every derived
operation written out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


class Rng:
    """A stream of pseudo-random numbers that depends on its seed alone."""

    __slots__ = ("_s0", "_s1", "_s2", "_s3", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = seed & _MASK
        state = self._seed
        state, self._s0 = _splitmix(state)
        state, self._s1 = _splitmix(state)
        state, self._s2 = _splitmix(state)
        state, self._s3 = _splitmix(state)

    def bits64(self) -> int:
        """Return 64 random bits as an integer."""
        s0, s1, s2, s3 = self._s0, self._s1, self._s2, self._s3
        x = (s1 * 5) & _MASK
        x = ((x << 7) | (x >> 57)) & _MASK
        s2 ^= s0
        s3 ^= s1
        self._s1 = s1 ^ s2
        self._s0 = s0 ^ s3
        self._s2 = s2 ^ ((s1 << 17) & _MASK)
        self._s3 = ((s3 << 45) | (s3 >> 19)) & _MASK
        return (x * 9) & _MASK

    def below(self, n: int) -> int:
        """Return an integer from 0 to ``n - 1``, all equally likely."""
        if not 0 < n <= 1 << 64:
            raise ValueError(f"below() needs 1 <= n <= 2**64, got {n}")
        # Values past the last whole multiple of n would favour small results.
        fair = (1 << 64) - (1 << 64) % n
        while True:
            bits = self.bits64()
            if bits < fair:
                return bits % n

    def uniform(self) -> float:
        """Return a float from 0.0 up to, not including, 1.0."""
        return (self.bits64() >> 11) * (1.0 / (1 << 53))

    def chance(self, p: float) -> bool:
        """Return True with probability ``p``."""
        return self.uniform() < p

    def choice(self, seq: Sequence[T]) -> T:
        """Return one element; ``IndexError`` if there is none."""
        if not seq:
            raise IndexError("choice() from an empty sequence")
        return seq[self.below(len(seq))]

    def shuffled(self, seq: Sequence[T]) -> list[T]:
        """Return the elements in random order; ``seq`` stays as it is."""
        items = list(seq)
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items

    def sample(self, seq: Sequence[T], k: int) -> list[T]:
        """Return ``k`` elements of distinct positions, in random order."""
        size = len(seq)
        if not 0 <= k <= size:
            raise ValueError(f"cannot sample {k} of {size} elements")
        if 3 * k >= size:
            return self.shuffled(seq)[:k]
        taken: set[int] = set()
        found: list[T] = []
        while len(found) < k:
            i = self.below(size)
            if i not in taken:
                taken.add(i)
                found.append(seq[i])
        return found

    def exponential(self, mean: float) -> float:
        """Return an exponentially distributed float."""
        return -mean * log(1.0 - self.uniform())

    def derive(self, label: str) -> Rng:
        """Return an independent stream, fixed by this one's seed and ``label``.

        It does not depend on how much of this stream has been used, so adding
        a consumer of randomness never disturbs the others.
        """
        # FNV-1a over the label, finished by splitmix64 so that similar labels
        # give unrelated seeds.
        mixed = 0xCBF29CE484222325 ^ _splitmix(self._seed)[1]
        for byte in label.encode():
            mixed = ((mixed ^ byte) * 0x100000001B3) & _MASK
        return Rng(_splitmix(mixed)[1])


def _splitmix(state: int) -> tuple[int, int]:
    """Return the next state and the next output of splitmix64."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return state, z ^ (z >> 31)
