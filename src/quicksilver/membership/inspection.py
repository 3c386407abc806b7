"""Who waits for a snapshot, and how fast snapshots are made.

A snapshot lists every node and region: a few bytes of request make megabytes of
answer and some processor time. So a connection has one request waiting at most,
none while it has not taken the answer to the one before, and all of them share a
rate, counted in the rows that snapshots list.
"""

from __future__ import annotations

BURST_S = 1.0
"""How much of the rate may be used at once after a while without requests."""

SNAPSHOT_ROWS = 20
"""What a snapshot costs besides its rows."""


class InspectQueue:
    """Requests in order of arrival, under a rate."""

    def __init__(self, rows_per_s: float) -> None:
        self._rows_per_s = rows_per_s
        self._waiting: dict[int, int] = {}
        """By connection: the number of its newest request."""
        self._credit = rows_per_s * BURST_S
        """Rows that may be listed now; below 0 nothing may be, for a while."""
        self._credit_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, conn: int, request: int) -> None:
        """A connection asks; whoever asks again has given up the request before."""
        self._waiting[conn] = request

    def discard(self, conn: int) -> None:
        """A connection is gone."""
        self._waiting.pop(conn, None)

    def next_turn(self, now: float) -> float | None:
        """Return when the next request may be answered; None: there is none."""
        if not self._waiting:
            return None
        self._refill(now)
        return now if self._is_in_credit() else now - self._credit / self._rows_per_s

    def pop(self, rows: int, now: float) -> tuple[int, int] | None:
        """Return connection and request to be answered now with so many rows, or None."""
        self._refill(now)
        if not self._waiting or not self._is_in_credit():
            return None
        self._credit -= rows + SNAPSHOT_ROWS
        conn = next(iter(self._waiting))
        return conn, self._waiting.pop(conn)

    def _is_in_credit(self) -> bool:
        # A wait that was computed must be over when it has passed, whatever was rounded.
        return self._credit > -1e-3

    def _refill(self, now: float) -> None:
        earned = max(0.0, now - self._credit_at) * self._rows_per_s
        self._credit = min(self._credit + earned, self._rows_per_s * BURST_S)
        self._credit_at = now
