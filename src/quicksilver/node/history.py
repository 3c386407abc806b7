"""Joining late: first the messages sent before the join, then those sent after it.

A recorder is a logging replica: it is a member like others and keeps what it
hears. A node that joins late reads its log, and holds back what arrives live
from a sender until the log has brought everything before it. Nothing is
delivered twice, and each sender's messages stay in order.

``Catchup`` does the merging, without reading anything itself. A sender whose
next live message is not the one after the last that was delivered waits for
history, whatever the reason: the node joined in between, it was counted out and
came back, or held messages were dropped because there were too many (the log
has them). What history does not bring within ``wait_s`` is counted in
``missing`` and passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from quicksilver.node.inbox import cost
from quicksilver.node.messages import Batch
from quicksilver.stdx.ranges import RangeSet

Source: TypeAlias = tuple[int, int]
"""Cluster and sender."""

HELD_BYTES_MAX = 64 << 20
WAIT_S = 5.0
SETTLE_S = 1.0
"""History is looked at once more so long after the join: what was on its way to the
recorder then has arrived."""


class HistoryState(msgspec.Struct, frozen=True):
    """What a history holds at one moment."""

    past: int
    """The offset up to which it is to be read."""
    coverage: Mapping[Source, RangeSet]
    """The messages before that offset."""


class HistoryReader(Protocol):
    """The history of one group; blocking, used by one thread at a time."""

    def state(self) -> HistoryState:
        """Return what there is."""
        ...

    def rows(self, offset: int) -> tuple[Sequence[Batch], int]:
        """Return some messages from an offset on, and the offset to go on with."""
        ...

    def close(self) -> None:
        """Close files and connections; the next read opens them again."""
        ...


class History(Protocol):
    """Where the past of groups can be read, such as a recorder."""

    def open(self, group: str) -> HistoryReader:
        """Return the history of a group."""
        ...


class _Sender:
    """One sender's place between history and live."""

    __slots__ = ("following", "held", "live_past", "parked", "waits_since")

    def __init__(self) -> None:
        self.following: int | None = None
        """The next message to deliver; None before the first."""
        self.parked: list[Batch] = []
        """From history, ahead of others that history also has; by first number."""
        self.held: deque[Batch] = deque()
        """Live, ahead of history; in order."""
        self.live_past = 0
        """After the last live message that arrived, held or not."""
        self.waits_since: float | None = None

    @property
    def is_behind(self) -> bool:
        return bool(self.held) or (self.following or 0) < self.live_past


class Catchup:
    """Merges the history of one group with what arrives live."""

    def __init__(
        self,
        now: float,
        *,
        held_bytes_max: int = HELD_BYTES_MAX,
        wait_s: float = WAIT_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._held_bytes_max = held_bytes_max
        self._wait_s = wait_s
        self._settles_at = now + settle_s
        self._is_settled = False
        self._is_read = False
        """Whether history was read to its end once; before that nothing live is delivered."""
        self._state_at: float | None = None
        self._senders: dict[Source, _Sender] = {}
        self._coverage: Mapping[Source, RangeSet] = {}
        self._ready: deque[Batch] = deque()
        self._held_bytes = 0
        self.offset = 0
        """Where history is to be read from."""
        self.past = 0
        """Up to where, at the last look."""
        self.missing = 0
        """Messages that history did not have in time; they were passed over."""

    # Inputs

    def handle_state(self, state: HistoryState, now: float) -> None:
        """History was looked at; it is to be read up to ``past``."""
        self._coverage = state.coverage
        self.past = max(state.past, self.offset)
        self._state_at = now

    def handle_rows(self, batches: Sequence[Batch], offset: int) -> None:
        """Messages of history, each batch a run of one sender's; read on from ``offset``."""
        for batch in batches:
            key = (batch.cluster, batch.sender)
            sender = self._sender(key)
            if self._is_next(key, sender, batch.first):
                self._deliver_history(sender, batch, self._known(key))
                self._unpark(key, sender)
            else:
                sender.parked.append(batch)
                sender.parked.sort(key=_first)
                self._held_bytes += cost(batch)
                if self._held_bytes > self._held_bytes_max:
                    self._force(sender, RangeSet())
        self.offset = max(offset, self.offset)

    def handle_end(self, now: float) -> None:
        """All that was there at the last look has been read."""
        assert self._state_at is not None
        self._is_read = True
        for key, sender in self._senders.items():
            # What is covered and did not come (a row that retention took meanwhile) never will.
            known = self._known(key)
            self._force(sender, known)
            if known:
                sender.following = max(sender.following or 0, known.last() + 1)
            self._release(sender, now)
        if self._state_at >= self._settles_at:
            self._is_settled = True

    def handle_live(self, batch: Batch, now: float) -> None:
        """Messages arrived from the group."""
        sender = self._sender((batch.cluster, batch.sender))
        past = _past(batch)
        sender.live_past = max(sender.live_past, past)
        if self._is_read and not sender.held and self._fits(sender, batch):
            self._deliver(sender, batch)
            return
        if sender.waits_since is None:
            sender.waits_since = now
        if self._held_bytes + cost(batch) <= self._held_bytes_max:
            sender.held.append(batch)
            self._held_bytes += cost(batch)

    # Outputs

    def poll_batch(self) -> Batch | None:
        """Return the next batch to deliver."""
        return self._ready.popleft() if self._ready else None

    @property
    def is_caught_up(self) -> bool:
        """Whether nothing waits for history."""
        return self._is_settled and not any(one.is_behind for one in self._senders.values())

    # Inside

    def _sender(self, key: Source) -> _Sender:
        found = self._senders.get(key)
        if found is None:
            found = self._senders[key] = _Sender()
        return found

    def _is_next(self, key: Source, sender: _Sender, first: int) -> bool:
        """Whether history has nothing before a message that is not delivered yet."""
        known = self._known(key)
        start = sender.following
        if not known:
            return True
        if start is None:
            return known.first() >= first
        return first <= start or not known.clamped(start, first)

    def _fits(self, sender: _Sender, batch: Batch) -> bool:
        """Whether a live batch follows what was delivered."""
        if sender.following is None:
            return batch.first == 0
        return batch.first <= sender.following

    def _deliver(self, sender: _Sender, batch: Batch) -> None:
        following = sender.following
        past = _past(batch)
        if following is not None and batch.first < following:
            if past <= following:
                return
            batch = _after(batch, following)
        sender.following = past
        self._ready.append(batch)

    def _unpark(self, key: Source, sender: _Sender) -> None:
        while sender.parked and self._is_next(key, sender, sender.parked[0].first):
            batch = sender.parked.pop(0)
            self._held_bytes -= cost(batch)
            self._deliver_history(sender, batch, self._known(key))

    def _force(self, sender: _Sender, known: RangeSet) -> None:
        """Deliver what is parked, in order; what lies between and is not known is missing."""
        for batch in sender.parked:
            self._held_bytes -= cost(batch)
            self._deliver_history(sender, batch, known)
        sender.parked.clear()

    def _known(self, key: Source) -> RangeSet:
        return self._coverage.get(key) or RangeSet()

    def _deliver_history(self, sender: _Sender, batch: Batch, known: RangeSet) -> None:
        following = sender.following
        if following is not None and batch.first > following:
            between = batch.first - following
            self.missing += between - known.clamped(following, batch.first).count()
        self._deliver(sender, batch)

    def _release(self, sender: _Sender, now: float) -> None:
        """Deliver what is held, if history has reached it or is given up."""
        held = sender.held
        waits_since = sender.waits_since
        is_over = waits_since is not None and now - waits_since >= self._wait_s
        if held and not self._fits(sender, held[0]) and is_over:
            self.missing += held[0].first - (sender.following or 0)
            sender.following = held[0].first
        while held and self._fits(sender, held[0]):
            batch = held.popleft()
            self._held_bytes -= cost(batch)
            self._deliver(sender, batch)
        if not held and is_over and (sender.following or 0) < sender.live_past:
            self.missing += sender.live_past - (sender.following or 0)
            sender.following = sender.live_past
        if not sender.is_behind:
            sender.waits_since = None


def _first(batch: Batch) -> int:
    return batch.first


def _past(batch: Batch) -> int:
    if batch.sequences is not None:
        return batch.sequences[-1] + 1
    return batch.first + len(batch.payloads)


def _after(batch: Batch, following: int) -> Batch:
    """Return the part of a batch from a message on."""
    if batch.sequences is not None:
        skip = sum(number < following for number in batch.sequences)
        rest: Sequence[int] | None = batch.sequences[skip:]
    else:
        skip = following - batch.first
        rest = None
    return Batch(
        batch.group,
        batch.sender,
        batch.batch,
        batch.payloads[skip:],
        following if rest is None else rest[0],
        rest,
        batch.cluster,
        None if batch.envelopes is None else batch.envelopes[skip:],
    )


class HistoryFeed:
    """Reads a history step by step into a ``Catchup``; the shells decide in which thread."""

    def __init__(self, reader: HistoryReader, catchup: Catchup) -> None:
        self.reader = reader
        self.catchup = catchup

    def read(self) -> tuple[Sequence[Batch], int]:
        """Return the next messages; blocking."""
        return self.reader.rows(self.catchup.offset)

    def take(self, batches: Sequence[Batch], offset: int, now: float) -> None:
        """Hand over what was read."""
        catchup = self.catchup
        is_stuck = offset <= catchup.offset
        catchup.handle_rows(batches, offset)
        if is_stuck:
            catchup.past = catchup.offset
        if catchup.offset >= catchup.past:
            self._end(now)

    def take_state(self, state: HistoryState, now: float) -> bool:
        """Hand over a look; True if there is something to read."""
        self.catchup.handle_state(state, now)
        if self.catchup.offset >= self.catchup.past:
            self._end(now)
            return False
        return True

    def _end(self, now: float) -> None:
        self.catchup.handle_end(now)
        if self.catchup.is_caught_up:
            self.reader.close()  # perhaps for good; a later look opens it again
