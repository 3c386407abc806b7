"""A user's own updates, until they are on all members; and a state that comes in chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from quicksilver.live.components.infrastructure.ordering.effects import (
    OWN_BYTES_MAX,
    OWN_MAX,
    TooMuchError,
    UpdateSizeError,
)
from quicksilver.live.components.infrastructure.ordering.messages import (
    UPDATE_BYTES_MAX,
    Chunk,
    Epoch,
)


class OwnUpdates:
    """Updates by number: kept until stable, for a member that is counted out and comes back."""

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
        """An update has a place in the log."""
        self._indexes.append((index, number))

    def settle(self, stable: int) -> None:
        """All members have the log up to here."""
        while self._indexes and self._indexes[0][0] <= stable:
            self._drop(self._indexes.popleft()[1])

    def restart(self, done: int) -> None:
        """Begin with another log, in which our updates up to a number are."""
        self._indexes.clear()
        for number in [one for one in self._updates if one <= done]:
            self._drop(number)

    def after(self, number: int) -> Iterator[tuple[int, bytes]]:
        """Yield updates after a number, in order."""
        return (one for one in self._updates.items() if one[0] > number)

    def _drop(self, number: int) -> None:
        self._bytes -= len(self._updates.pop(number, b""))


class Chunks:
    """A state on its way here, in order."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._of: tuple[Epoch, int] | None = None

    def take(self, chunk: Chunk) -> bytes | None:
        """Take a chunk; return all of the state with the last."""
        key = (chunk.epoch, chunk.index)
        if chunk.part == 0:
            self._data, self._of = [], key
        if self._of != key or len(self._data) != chunk.part:
            return None
        self._data.append(chunk.data)
        if len(self._data) < chunk.parts:
            return None
        data = b"".join(self._data)
        self._data, self._of = [], None
        return data
