"""States on their way to newcomers, in chunks: the leader's side and the newcomer's.

The leader serves one batch of newcomers after the other: a newcomer that may
already have a state counts among those who must know of the next ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from quicksilver.live.components.infrastructure.ordering.messages import (
    CHUNK_BYTES,
    Chunk,
    Epoch,
    Member,
    Snapshot,
    encode_snapshot,
    parse_snapshot,
)

CHUNKS_AHEAD: Final = 8
"""Chunks under way: the next goes when one has come back to us."""
RESEND_S: Final = 1.0


class IncomingState:
    """A state on its way here; its chunks come in order."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._of: tuple[Epoch, int] | None = None
        self.refresh_asked_at: float | None = None
        """When a replica without a user last asked for a newer state, until it comes."""

    def clear(self) -> None:
        """Forget what has come, and what was asked for."""
        self._data, self._of = [], None
        self.refresh_asked_at = None

    def take(self, chunk: Chunk) -> Snapshot | None:
        """Take a chunk; return the state with the last. Raises BadMessageError for none."""
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
        return parse_snapshot(data)


class _Transfer:
    """One state, being sent."""

    def __init__(self, to: list[Member], index: int, data: bytes) -> None:
        self.to = to
        self.index = index
        self._data = data
        self.parts = max(1, -(-len(data) // CHUNK_BYTES))
        self.sent = 0
        self.echoed = 0

    def next_chunk(self, epoch: Epoch) -> Chunk | None:
        """Return the next chunk, if the channel has room for it."""
        part = self.sent
        if part >= min(self.parts, self.echoed + CHUNKS_AHEAD):
            return None
        self.sent += 1
        data = self._data[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
        return Chunk(epoch, self.to, self.index, part, self.parts, data)


class OutgoingStates:
    """Members that a leader must give a state to, and the state that is on its way."""

    def __init__(self, now: float) -> None:
        self.waiting: dict[Member, int] = {}
        """Members without a state, and the index that all must have before they get one."""
        self.served: dict[Member, int] = {}
        """Those to whom a state is on its way, and its index: they count as having it."""
        self._restarting: set[Member] = set()
        """Members that have a state which the log does not reach back to."""
        self._refreshing: set[Member] = set()
        """Passive members that want a newer state than they have."""
        self._is_capturing = False
        self._prepared: Snapshot | None = None
        """A state that waits until all members have the log up to it."""
        self._latest: tuple[int, bytes] | None = None
        """The state that was sent last, while somebody may need it again."""
        self._transfer: _Transfer | None = None
        self._served_at = now

    # Who needs a state

    def add(self, who: Member, index: int) -> None:
        """Give a member a state that all who have the log up to an index know of."""
        self.waiting[who] = index

    def add_refresh(self, who: Member) -> None:
        """Give a passive member a newer state."""
        self._refreshing.add(who)

    def restart(self, who: Member, index: int, now: float) -> None:
        """Give a state to a member that has none any more, or cannot get on with its own."""
        if who in self._restarting:
            self.send_again(now)
            return
        self.served.pop(who, None)
        self.waiting[who] = index
        self._restarting.add(who)

    def drop(self, who: Member) -> None:
        """Give a member nothing: it is gone."""
        self.waiting.pop(who, None)
        self.served.pop(who, None)
        self._restarting.discard(who)

    def handle_ack(self, who: Member, top: int) -> bool:
        """Take note that a member has a state; False if its state leads nowhere."""
        if who in self._restarting and top < self.served.get(who, top + 1):
            return False
        # It said hello before this, so it has a state now: this one, or an earlier try.
        self.drop(who)
        return True

    # The state

    def begin_capture(self, reach: int) -> bool:
        """Whether a state is to be made now, for those whom all know of up to ``reach``."""
        if self.served or self._transfer is not None or self._prepared is not None:
            return False
        self._latest = None
        is_wanted = bool(self._refreshing) or any(i <= reach for i in self.waiting.values())
        if self._is_capturing or not is_wanted:
            return False
        self._is_capturing = True
        return True

    def handle_captured(self, snapshot: Snapshot, stable: int, now: float) -> None:
        """Take the state that was made."""
        if not self._is_capturing:
            return
        self._is_capturing = False
        reach = min(stable, snapshot.index)
        to = [who for who, index in self.waiting.items() if index <= reach]
        self.served = dict.fromkeys(to, snapshot.index)
        self._served_at = now
        self._prepared = snapshot

    def poll_chunk(
        self, epoch: Epoch, stable: int, roster: Collection[Member], now: float
    ) -> Chunk | None:
        """Return the next chunk to send.

        A state is sent as soon as no member lacks anything that is in it. Were it sent
        before and then only the newcomer survived with a member that lacks something,
        nobody could give it to that member.
        """
        prepared = self._prepared
        if prepared is not None and stable >= prepared.index:
            self._prepared = None
            to = sorted(self.served.keys() | {who for who in self._refreshing if who in roster})
            self._refreshing.clear()
            if to:
                self._latest = (prepared.index, encode_snapshot(prepared))
                self._begin(to, now)
        return None if self._transfer is None else self._transfer.next_chunk(epoch)

    def _begin(self, to: list[Member], now: float) -> None:
        assert self._latest is not None
        self._served_at = now
        self._transfer = _Transfer(to, *self._latest)

    def send_again(self, now: float) -> None:
        """Send a state once more to who asks: the same one, so that its log is kept."""
        is_old = now - self._served_at >= RESEND_S
        if self._transfer is None and self._prepared is None and self.served and is_old:
            self._begin(sorted(self.served), now)

    def handle_echo(self, chunk: Chunk, now: float) -> None:
        """Take a chunk of ours that came back: the channel has room for another."""
        transfer = self._transfer
        if transfer is None or chunk.index != transfer.index:
            return
        self._served_at = now
        transfer.echoed = chunk.part + 1
        if transfer.echoed == transfer.parts:
            self._transfer = None

    # Time

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self._served_at = now

    def find_silent(self, since: float) -> list[Member]:
        """Return who was sent a state and has said nothing since."""
        return list(self.served) if self._served_at <= since else []
