"""Accounts of what was sent, promised and received, and whether they agree.

Every stream (one sender's messages to one group) is reduced to its first sequence
number, how many came, whether the numbers were contiguous, and a checksum chained
over all payloads in order: it differs if any message is missing, doubled, changed
or out of order. A publisher keeps the same account of what it sent.

Where messages begin with numbers, ``Promises`` keeps which of them a publisher's flushes
vouched for, ``Hearing`` which came, and the longest time in which none came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

import msgspec

from quicksilver.node.messages import Batch
from quicksilver.stdx.ranges import RangeSet

NUMBER_BYTES = 8
"""Numbered messages begin with their number."""


class StreamAccount(msgspec.Struct):
    """One sender's messages to one group."""

    sender: int
    group: str
    first: int = 0
    count: int = 0
    checksum: int = 0
    breaks: int = 0
    """Times that a sequence number was not the one after its predecessor."""


class Published(msgspec.Struct, frozen=True, kw_only=True, tag="sent", tag_field="event"):
    """What a publisher says that it sent: the same to each of its groups."""

    node: int
    groups: list[str]
    messages: int
    checksum: int
    started_at: float
    accepted_at: float
    flushed_at: float
    stats: dict[str, int | float | str] = {}


class Received(msgspec.Struct, frozen=True, kw_only=True, tag="report", tag_field="event"):
    """What a subscriber says that it got."""

    node: int
    streams: list[StreamAccount]
    messages: int
    bytes: int
    last_at: float
    stats: dict[str, int | float | str] = {}


class Accounts:
    """Accounts of every stream that a node receives; fed on the core thread."""

    def __init__(self) -> None:
        self.streams: dict[tuple[int, str], StreamAccount] = {}
        self.messages = 0
        self.bytes = 0

    def handle_batch(self, batch: Batch) -> None:
        """Take consecutive messages of one stream."""
        account = self.streams.get((batch.sender, batch.group))
        if account is None:
            account = StreamAccount(batch.sender, batch.group, batch.first)
            self.streams[batch.sender, batch.group] = account
        expected = account.first + account.count
        if batch.sequences is None:
            account.breaks += batch.first != expected
        else:
            count = len(batch.sequences)
            account.breaks += list(batch.sequences) != list(range(expected, expected + count))
        checksum = account.checksum
        for payload in batch.payloads:
            checksum = crc32(payload, checksum)
            self.bytes += len(payload)
        account.checksum = checksum
        account.count += len(batch.payloads)
        self.messages += len(batch.payloads)

    def has(self, sender: int, group: str, count: int) -> bool:
        """True once so many messages of the stream have come."""
        account = self.streams.get((sender, group))
        return account is not None and account.count >= count


def expected_of(
    published: Iterable[Published], joined: Iterable[str]
) -> list[tuple[int, str, int]]:
    """Return the streams that a member of the groups must have got."""
    names = set(joined)
    return [
        (one.node, group, one.messages)
        for one in published
        for group in one.groups
        if group in names
    ]


def find_faults(
    published: Iterable[Published], received: Received, joined: Iterable[str]
) -> list[str]:
    """Return what is wrong with a subscriber's account; nothing when all is there."""
    senders = {one.node: one for one in published}
    got = {(account.sender, account.group): account for account in received.streams}
    faults = []
    for sender, group, count in expected_of(senders.values(), joined):
        account = got.pop((sender, group), None)
        where = f"node {received.node}, sender {sender}, group {group}"
        if account is None:
            faults.append(f"{where}: none of {count} messages")
        elif account.count != count or account.first != 0:
            faults.append(f"{where}: {account.count} of {count}, first {account.first}")
        elif account.breaks:
            faults.append(f"{where}: sequence broken {account.breaks} times")
        elif account.checksum != senders[sender].checksum:
            faults.append(f"{where}: the checksum differs")
    faults += [f"node {received.node} got group {g} of {s} unasked" for s, g in sorted(got)]
    return faults


class Promises:
    """Flushes one after another, and which messages each of them spoke of.

    A flush that ends well vouches for all that was sent before it began and was not
    spoken of yet. One that fails has spoken of all that was sent until its end: nothing
    of it is promised, whatever it says.
    """

    def __init__(self) -> None:
        self.confirmed = RangeSet()
        """Numbers that a flush has vouched for."""
        self.reported = RangeSet()
        """Numbers of which a flush has said that it cannot vouch for them."""
        self.flush_s_max = 0.0
        """The longest time that a flush took, however it ended."""
        self._from = 0
        """The first number that no flush has spoken of."""
        self._mark = 0
        self._began_at: float | None = None

    @property
    def is_asked(self) -> bool:
        """True while a flush is under way."""
        return self._began_at is not None

    def begin_flush(self, sent: int, now: float) -> None:
        """A flush begins when so many messages have been sent."""
        assert not self.is_asked
        self._began_at, self._mark = now, sent

    def end_flush(self, sent: int, now: float, *, is_confirmed: bool) -> None:
        """The flush has ended."""
        assert self._began_at is not None
        self.flush_s_max = self.longest_s(now)
        self._began_at = None
        spoken, until = (self.confirmed, self._mark) if is_confirmed else (self.reported, sent)
        spoken.add(self._from, until)
        self._from = max(self._from, until)

    def longest_s(self, now: float) -> float:
        """Return the longest time that a flush took, or has taken so far."""
        began = self._began_at
        return max(self.flush_s_max, 0.0 if began is None else now - began)

    def unanswered(self, sent: int) -> int:
        """Return how many messages no flush has spoken of."""
        return sent - self._from


def number_message(number: int, tail: bytes) -> bytes:
    """Return a message that begins with its number."""
    return number.to_bytes(NUMBER_BYTES, "little") + tail


def number_of(message: bytes) -> int:
    """Return the number that a message begins with."""
    return int.from_bytes(message[:NUMBER_BYTES], "little")


class Hearing:
    """Which numbered messages came, and the longest time in which none came."""

    def __init__(self, now: float = 0.0) -> None:
        self.numbers = RangeSet()
        self.count = 0
        self.gap_s = 0.0
        self._last_at = now
        self._is_timed = False

    def take(self, messages: Sequence[bytes], now: float) -> None:
        """Take messages that came together."""
        self.count += len(messages)
        self._note_gap(now)
        self._last_at = now
        first, last = number_of(messages[0]), number_of(messages[-1])
        if last - first + 1 == len(messages):
            self.numbers.add(first, last + 1)
            return
        for message in messages:
            number = number_of(message)
            self.numbers.add(number, number + 1)

    def begin_timing(self) -> None:
        """Look for gaps from now on; one that has begun already counts as a whole."""
        self._is_timed = True

    def end_timing(self, now: float) -> None:
        """Nothing more is offered: a silence from now on is none."""
        self._note_gap(now)
        self._is_timed = False

    def _note_gap(self, now: float) -> None:
        if self._is_timed:
            self.gap_s = max(self.gap_s, now - self._last_at)
