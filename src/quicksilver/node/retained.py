"""Values that a sender keeps for members to come: the last ones, of each key.

When a view of the group has newcomers, the sender puts what it keeps in front of whatever waits
to be sent. Those messages go to all members and say which batch of the membership they are
for; sessions drop them at members that were there before. So newcomers get the last values
before newer ones of the same sender, and nobody gets a value twice, except that one sent in the
very moment of the join may come both as a retained and as a live one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from typing import Any

from quicksilver.multicast.sending.empty import Empty
from quicksilver.node.errors import MessageTooLargeError, OptionError
from quicksilver.wire.envelope import (
    EMPTY,
    Envelope,
    Kind,
    encode_enveloped,
    envelope_bytes,
    parse_enveloped,
)
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

RETAIN_MAX = 1000
RETAINED_BYTES_MAX = 16 << 20
"""What a node keeps for one group; past it the oldest values go, of whatever key."""

_BATCH_MAX = (1 << 62) - 1
"""The batch number that takes the most bytes in an envelope."""


def check_retain(retain: Any) -> int:
    """Return how many values are to be kept; raises OptionError."""
    if type(retain) is not int or not 0 <= retain <= RETAIN_MAX:
        raise OptionError("retain", f"must be a number of messages from 0 to {RETAIN_MAX}")
    return retain


def kept_or(empty: Empty | None, retain: int) -> Empty | None:
    """Return what becomes of messages to an empty group: the last ones are kept anyway."""
    return "drop" if retain and empty is None else empty


def check_replay(envelope: Envelope, body: bytes) -> None:
    """Refuse a value that newcomers could not get: its envelope grows when it is sent again.

    Raises:
        OptionError: key and headers are too long for that.
        MessageTooLargeError: the message and its envelope are too long together.
    """
    longest = Envelope(envelope.key, envelope.headers, Kind.RETAINED, _BATCH_MAX)
    try:
        size = len(encode_enveloped(longest, b"")) + len(body)
    except ValueError as error:
        problem = f"{error} where values are retained; put large values into the payload"
        raise OptionError("headers", problem) from None
    if size > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(size, MESSAGE_BYTES_MAX)


class _Value:
    """One value as it was sent."""

    __slots__ = ("body", "envelope", "number", "payload", "size")

    def __init__(self, number: int, payload: bytes, envelope: Envelope, body: bytes) -> None:
        self.number = number
        self.payload = payload
        """As it went into the queue of messages to be sent."""
        self.envelope = envelope
        self.body = body
        self.size = len(payload) + envelope_bytes(envelope)


class Retained:
    """The last values that a node sent to one group; any thread may use it."""

    def __init__(self, count: int, bytes_max: int = RETAINED_BYTES_MAX) -> None:
        self.dropped = 0
        """Values that were not kept for lack of room."""
        self._count = count
        self._bytes_max = bytes_max
        self.used_bytes = 0
        """What the values take."""
        self._next = 0
        self._by_key: dict[bytes | None, deque[_Value]] = {}
        self._order: dict[int, bytes | None] = {}
        """Keys by the numbers of their values, oldest first."""
        self._lock = threading.Lock()

    def add(self, payload: bytes, *, is_enveloped: bool) -> None:
        """Keep a message that is about to be queued, in place of the oldest of its key.

        Raises what ``check_replay`` does.
        """
        envelope, body = EMPTY, payload
        if is_enveloped:
            found = parse_enveloped(payload)
            assert found is not None
            envelope, body = found
            if envelope.kind != Kind.MESSAGE:
                return
        check_replay(envelope, body)
        with self._lock:
            value = _Value(self._next, payload, envelope, body)
            self._next += 1
            if value.size > self._bytes_max:
                self.dropped += 1
                return
            values = self._by_key.setdefault(envelope.key, deque())
            values.append(value)
            self._order[value.number] = envelope.key
            self.used_bytes += value.size
            if len(values) > self._count:
                self._forget(values)
            while self.used_bytes > self._bytes_max:
                self.dropped += 1
                self._forget(self._by_key[next(iter(self._order.values()))])

    def _forget(self, values: deque[_Value]) -> None:
        oldest = values.popleft()
        del self._order[oldest.number]
        self.used_bytes -= oldest.size
        if not values:
            del self._by_key[oldest.envelope.key]

    def replay(self, after_batch: int, waiting: Collection[int]) -> list[bytes]:
        """Return the values as newcomers get them, in the order in which they were sent.

        ``after_batch``: members since then or before drop them. ``waiting`` are the identities
        of payloads still to be sent: those reach the newcomers anyway.
        """
        with self._lock:
            values = sorted(
                (value for each in self._by_key.values() for value in each),
                key=lambda value: value.number,
            )
        return [
            encode_enveloped(
                Envelope(value.envelope.key, value.envelope.headers, Kind.RETAINED, after_batch),
                value.body,
            )
            for value in values
            if id(value.payload) not in waiting
        ]
