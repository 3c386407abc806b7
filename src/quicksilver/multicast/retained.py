"""Values that a sender keeps for members to come: the last ones, of each key.

When a view of the group has newcomers, the sender puts what it keeps in front of whatever waits
to be sent. Those messages go to all members and say which batch of the membership they are
for; sessions drop them at members that were there before. So newcomers get the last values
before newer ones of the same sender, and nobody gets a value twice, except that one sent in the
very moment of the join may come both as a retained and as a live one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from quicksilver.multicast.sending.group import GroupSender
from quicksilver.wire.envelope import (
    EMPTY,
    Envelope,
    Kind,
    encode_enveloped,
    envelope_bytes,
    parse_enveloped,
)

RETAINED_BYTES_MAX = 16 << 20
"""What a node keeps for one group; past it the oldest values go, of whatever key."""


class Value:
    """One value as it was sent."""

    __slots__ = ("body", "envelope", "number", "payload", "size")

    def __init__(self, number: int, payload: bytes, envelope: Envelope, body: bytes) -> None:
        self.number = number
        self.payload = payload
        """As it went into the queue of messages to be sent."""
        self.envelope = envelope
        self.body = body
        self.size = len(payload) + envelope_bytes(envelope)


class Values:
    """The last values that a node sent to one group."""

    def __init__(self, count: int, bytes_max: int = RETAINED_BYTES_MAX) -> None:
        self.dropped = 0
        """Values that were not kept for lack of room."""
        self._count = count
        self._bytes_max = bytes_max
        self.used_bytes = 0
        """What the values take."""
        self._next = 0
        self._by_key: dict[bytes | None, deque[Value]] = {}
        self._order: dict[int, bytes | None] = {}
        """Keys by the numbers of their values, oldest first."""
        self._batch = 0
        """The newest batch that was known when the last view was told."""

    def add(self, payload: bytes, *, is_enveloped: bool) -> None:
        """Keep a message that is about to be queued, in place of the oldest of its key."""
        envelope, body = EMPTY, payload
        if is_enveloped:
            found = parse_enveloped(payload)
            assert found is not None
            envelope, body = found
            if envelope.kind != Kind.MESSAGE:
                return
        self._keep(payload, envelope, body)

    def _keep(self, payload: bytes, envelope: Envelope, body: bytes) -> None:
        value = Value(self._next, payload, envelope, body)
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

    def _forget(self, values: deque[Value]) -> None:
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
        return [
            encode_enveloped(
                Envelope(value.envelope.key, value.envelope.headers, Kind.RETAINED, after_batch),
                value.body,
            )
            for value in self._in_order()
            if id(value.payload) not in waiting
        ]

    def _in_order(self) -> list[Value]:
        kept = [value for each in self._by_key.values() for value in each]
        return sorted(kept, key=lambda value: value.number)

    def handle_view(self, sender: GroupSender | None, batch: int, *, has_newcomers: bool) -> None:
        """The group has a new view: send what is kept to those who came with it.

        ``sender`` is how the group is sent to, None while it is not; ``batch`` is the newest one
        that is known.
        """
        before, self._batch = self._batch, batch
        if sender is None or not has_newcomers:
            return
        lane = sender.lane
        payloads = self.replay(before, lane.outbox.identities())
        if payloads:
            lane.put_first(sender.twin(), payloads)
