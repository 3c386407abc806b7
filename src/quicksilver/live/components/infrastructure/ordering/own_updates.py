"""A user's own updates, kept until they are on all members.

A member that is counted out and comes back sends those again that the log lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from quicksilver.live.components.infrastructure.ordering.messages import UPDATE_BYTES_MAX
from quicksilver.stdx.errors import QuicksilverError

OWN_BYTES_MAX: Final = 64 << 20
OWN_MAX: Final = 200_000
"""How much a user may have sent that is not on all members."""


class TooMuchError(QuicksilverError):
    """A user sends faster than the members take it."""

    def __str__(self) -> str:
        return (
            f"more than {OWN_BYTES_MAX >> 20} MiB or {OWN_MAX} updates are not on all members: "
            "send slower, or find the member that holds everybody up"
        )


class UpdateSizeError(QuicksilverError):
    """An update is too large."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def __str__(self) -> str:
        return f"an update has at most {UPDATE_BYTES_MAX} bytes, not {self.size}: split it"


class OwnUpdates:
    """The user's updates by number, counted from 1."""

    def __init__(self) -> None:
        self._updates: dict[int, bytes] = {}
        self._bytes = 0
        self._indexes: deque[tuple[int, int]] = deque()
        """Index and number of those in the log."""
        self._next = 1

    def __len__(self) -> int:
        return len(self._updates)

    @property
    def floor(self) -> int:
        """The first number that is still kept."""
        return next(iter(self._updates), self._next)

    def add(self, payload: bytes) -> int:
        """Keep an update and return its number; raises UpdateSizeError, TooMuchError."""
        if len(payload) > UPDATE_BYTES_MAX:
            raise UpdateSizeError(len(payload))
        if self._bytes + len(payload) > OWN_BYTES_MAX or len(self._updates) >= OWN_MAX:
            raise TooMuchError
        number = self._next
        self._next += 1
        self._updates[number] = payload
        self._bytes += len(payload)
        return number

    def note_index(self, index: int, number: int) -> None:
        """Remember an update's place in the log."""
        self._indexes.append((index, number))

    def forget_stable(self, stable: int) -> None:
        """Forget updates in the log up to an index that all members have."""
        while self._indexes and self._indexes[0][0] <= stable:
            self._drop(self._indexes.popleft()[1])

    def restart(self, done: int) -> None:
        """Begin with another log, which has our updates up to a number."""
        self._indexes.clear()
        for number in [one for one in self._updates if one <= done]:
            self._drop(number)

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield updates after a number, in order."""
        return (one for one in self._updates.items() if one[0] > number)

    def _drop(self, number: int) -> None:
        self._bytes -= len(self._updates.pop(number, b""))
