"""The pull protocol stack: feeds, sinks and the policies between them.

A feed registers the *intent* to send; the sink asks it for a packet only when
that packet can leave (dissertation 4.2.2, Figures 4.16 and 4.17). Sinks are
feeds of the sink below, so they form trees rooted at sockets. A feed that has
nothing left, or whose policy says "not now", answers None and is dropped from
its sink; it registers again when it has something or when the policy opens.

Sinks serve priorities strictly and feeds of one priority in turn. The papers
used round-robin alone and saw tokens stuck behind repairs (4.3.3); strict
classes on the way out remove that inversion.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from quicksilver.core.ports import Transmit

PRIORITIES = 3
"""Tokens, then repairs and other control, then data."""


class Feed(Protocol):
    """Something that may have packets to send."""

    def poll(self, now: float) -> Transmit | None:
        """Create and return what to send now, or None to be dropped."""
        ...


class Policy(Protocol):
    """Decides whether a sink may send."""

    def is_open(self, now: float) -> bool: ...

    def charge(self, size: int, now: float) -> None:
        """Account for bytes that leave now."""
        ...


class RatePolicy:
    """A token bucket: ``bytes_per_s`` on average, ``burst_bytes`` at once."""

    def __init__(self, bytes_per_s: float, burst_bytes: int) -> None:
        assert bytes_per_s > 0
        assert burst_bytes > 0
        self.bytes_per_s = bytes_per_s
        self.burst_bytes = burst_bytes
        self._level = float(burst_bytes)
        self._filled_at = 0.0

    def _fill(self, now: float) -> None:
        if now > self._filled_at:
            gained = (now - self._filled_at) * self.bytes_per_s
            self._level = min(float(self.burst_bytes), self._level + gained)
            self._filled_at = now

    def is_open(self, now: float) -> bool:
        self._fill(now)
        return self._level > 0

    def charge(self, size: int, now: float) -> None:
        self._fill(now)
        self._level -= size

    def next_open(self, now: float) -> float:
        """Return when it opens, if nothing is charged until then."""
        self._fill(now)
        if self._level > 0:
            return now
        # Counted from when the level was true: a caller that asks with an older time
        # would be sent back to its timers at once, again and again.
        return max(now, self._filled_at) + (1 - self._level) / self.bytes_per_s


class WindowPolicy:
    """At most ``window_bytes`` sent and not yet released."""

    def __init__(self, window_bytes: int) -> None:
        self.window_bytes = window_bytes
        self.pending_bytes = 0

    def is_open(self, now: float) -> bool:
        return self.pending_bytes < self.window_bytes

    def charge(self, size: int, now: float) -> None:
        self.pending_bytes += size

    def release(self, size: int) -> None:
        assert size <= self.pending_bytes
        self.pending_bytes -= size


class Sink:
    """Pulls from its feeds: strictly by priority, in turn within one.

    With a parent it is itself a feed there and registers whenever a feed
    registers with it. A closed policy takes it out of the parent; ``resume``
    puts it back.
    """

    def __init__(
        self,
        *,
        parent: Sink | None = None,
        priority: int = 0,
        policies: tuple[Policy, ...] = (),
    ) -> None:
        self._parent = parent
        self._priority = priority
        self._policies = policies
        self._queues: tuple[deque[Feed], ...] = tuple(deque() for _ in range(PRIORITIES))
        self._registered: set[int] = set()

    def __len__(self) -> int:
        return len(self._registered)

    def register(self, feed: Feed, priority: int = 0) -> None:
        """Note that the feed has something to send; twice is once."""
        if id(feed) in self._registered:
            return
        self._registered.add(id(feed))
        self._queues[priority].append(feed)
        if self._parent is not None:
            self._parent.register(self, self._priority)

    def poll(self, now: float) -> Transmit | None:
        for policy in self._policies:
            if not policy.is_open(now):
                return None
        for queue in self._queues:
            while queue:
                feed = queue[0]
                transmit = feed.poll(now)
                if transmit is None:
                    queue.popleft()
                    self._registered.discard(id(feed))
                    continue
                queue.rotate(-1)
                if self._policies:
                    size = sum(map(len, transmit.packets))
                    for policy in self._policies:
                        policy.charge(size, now)
                return transmit
        return None

    @property
    def is_waiting(self) -> bool:
        """True when a closed policy took it out of its parent: ``resume`` puts it back."""
        return bool(self._registered) and (
            self._parent is not None and id(self) not in self._parent._registered
        )

    def resume(self) -> None:
        """Register with the parent again if there is something to pull."""
        if self._parent is not None and self._registered:
            self._parent.register(self, self._priority)
