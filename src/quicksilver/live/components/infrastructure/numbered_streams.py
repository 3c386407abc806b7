"""What the two ends of a loss recovery say to each other, keep, and put in order; bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

import msgspec

from quicksilver.live.codec import BadMessageError, Codec
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

RANGES_MAX = 64
ACKS_MAX = 32


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A message and its number."""

    sender: int
    number: int
    payload: bytes


class State(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What a sender has: messages from ``first`` to before ``next`` can be had again."""

    sender: int
    first: int
    next: int


class Nak(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Somebody lacks messages: (first, last) of each hole."""

    receiver: int
    sender: int
    holes: list[tuple[int, int]]


class Acks(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Somebody has everything of senders before these numbers."""

    receiver: int
    next: list[tuple[int, int]]


Message: TypeAlias = Data | State | Nak | Acks

_MESSAGES: Final = Codec[Message](Message, "a message of loss recovery", MESSAGE_BYTES_MAX)


def encode(message: Message) -> bytes:
    """Return a message as it travels."""
    return _MESSAGES.encode(message)


def parse(data: bytes) -> Message:
    """Read a message; raises BadMessageError."""
    message = _MESSAGES.decode(data)
    match message:
        case Nak() if len(message.holes) > RANGES_MAX:
            raise BadMessageError("a nak", f"has more than {RANGES_MAX} holes")
        case Acks() if len(message.next) > ACKS_MAX:
            raise BadMessageError("acks", f"have more than {ACKS_MAX} senders")
        case Data() if message.number < 1:
            raise BadMessageError("data", "has no number")
        case _:
            return message


RESEND_S = 0.02
"""A message is not sent again sooner than this, however many ask for it."""


class Outgoing:
    """What this end sent and may have to send again; the oldest goes when there is too much."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._bytes = 0
        self._resent_at: dict[int, float] = {}
        self.next = 1

    @property
    def first(self) -> int:
        """The oldest that can be had again."""
        return next(iter(self._kept), self.next)

    def add(self, payload: bytes) -> int:
        """Keep a message and return its number."""
        number = self.next
        self.next += 1
        self._kept[number] = payload
        self._bytes += len(payload)
        while self._bytes > self._bytes_max and len(self._kept) > 1:
            self._drop_first()
        return number

    def forget_before(self, number: int) -> None:
        """All who listen have what comes before this number."""
        while self._kept and self.first < number:
            self._drop_first()

    def _drop_first(self) -> None:
        number, payload = self._kept.popitem(last=False)
        self._bytes -= len(payload)
        self._resent_at.pop(number, None)

    def find(self, first: int, last: int, now: float) -> list[tuple[int, bytes]]:
        """Return messages that are to be sent again now."""
        found: list[tuple[int, bytes]] = []
        for number in range(max(first, self.first), min(last, self.next - 1) + 1):
            if now - self._resent_at.get(number, -1.0) >= RESEND_S:
                self._resent_at[number] = now
                found.append((number, self._kept[number]))
        return found


class Incoming:
    """What came from one sender, put in order."""

    def __init__(self, first: int, bytes_max: int) -> None:
        self.next = first
        """The first that is missing."""
        self.known = first
        """What the sender has sent ends before this number, as far as is known."""
        self._bytes_max = bytes_max
        self._early: dict[int, bytes] = {}
        self._bytes = 0
        self.missing_since: float | None = None

    def put(self, number: int, payload: bytes) -> list[bytes]:
        """Take a message; return those that are now in order."""
        if number >= self.known:
            self.known = number + 1
        if number < self.next or number in self._early:
            return []
        if number > self.next:
            if self._bytes + len(payload) <= self._bytes_max:
                self._early[number] = payload
                self._bytes += len(payload)
            return []
        ready = [payload]
        self.next += 1
        while (payload_next := self._early.pop(self.next, None)) is not None:
            self._bytes -= len(payload_next)
            ready.append(payload_next)
            self.next += 1
        return ready

    @property
    def is_missing(self) -> bool:
        """Whether something was sent that is not here."""
        return self.next < self.known

    def holes(self) -> list[tuple[int, int]]:
        """Return the first holes, as (first, last)."""
        found: list[tuple[int, int]] = []
        at = self.next
        for early in sorted(self._early):
            if early > at:
                found.append((at, early - 1))
            at = early + 1
            if len(found) == RANGES_MAX:
                return found
        if at < self.known:
            found.append((at, self.known - 1))
        return found[:RANGES_MAX]
