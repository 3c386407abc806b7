"""A number that many people add to."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from quicksilver.live.codec import BadMessageError, Codec, Packed
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

TOTAL_MAX: Final = (1 << 63) - 1


class CounterRequests(Protocol):
    """Events that users send to a counter."""

    def add(self, amount: int) -> None:
        """Add, or with a negative amount subtract."""


class CounterValues(Protocol):
    """Events that a counter sends to its users."""

    def total(self, value: int) -> None:
        """Take the sum of all that was added; everybody sees the same totals in one order."""

    def refused(self, reason: str) -> None:
        """Hear that a request was not carried out."""


class Added(Packed, frozen=True):
    """An update: an amount to add."""

    amount: int


class Total(Packed, frozen=True):
    """The state."""

    value: int


@component("quicksilver.counter", type_name="Counter")
@live_object(title="Counter")
class Counter(SharedObject[Added, Total]):
    """a number that many people add to

    Totals stay within 64 bits: an amount that would lead outside changes nothing.
    """

    updates: ClassVar = Codec[Added](Added, "an amount", 64)
    states: ClassVar = Codec[Total](Total, "a total", 64)

    counter = endpoint(
        CounterRequests, CounterValues, provides=[("delivery", "total")], name="Counter"
    )

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self._value = 0

    def counter_add(self, amount: int) -> None:
        """Add for everybody."""
        self.submit(Added(amount))

    def counter_connected(self) -> None:
        """Begin with the total so far."""
        if self.is_ready:
            self.announce()

    def load(self, state: Total | None) -> None:
        self._value = 0 if state is None else state.value

    def save(self) -> Total:
        return Total(self._value)

    def apply(self, update: Added) -> None:
        value = self._value + update.amount
        if abs(value) > TOTAL_MAX:
            raise BadMessageError("an amount", "leads out of the range of 64 bits")
        self._value = value
        self.announce()

    def announce(self) -> None:
        self.counter.total(self._value)

    def refuse(self, reason: str) -> None:
        self.counter.refused(reason)
