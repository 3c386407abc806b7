"""Virtual TCP: frames from one host to another, in order, late if they must be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.sim.network import VirtualNetwork

RETRY_S = 0.2
"""How soon a stream that a partition holds up tries again, as TCP's timer would."""


class Pipe:
    """One direction of a stream: reliable, in order, stalled while nothing passes."""

    def __init__(
        self,
        network: VirtualNetwork,
        source: int,
        target: int,
        deliver: Callable[[bytes], None],
        *,
        latency_s: float | None = None,
    ) -> None:
        """``latency_s``: that of the way between the two; None: the network's."""
        self._network = network
        self._source = source
        self._target = target
        self._deliver = deliver
        self._latency_s = network.link.latency_s if latency_s is None else latency_s
        self._frames: deque[tuple[float, bytes]] = deque()
        self._is_scheduled = False
        self._is_closed = False

    def send(self, frame: bytes) -> None:
        """Queue a frame; it arrives after the link's latency."""
        events = self._network.events
        self._frames.append((events.now + self._latency_s, frame))
        self._schedule()

    def close(self) -> None:
        """What is under way is lost."""
        self._is_closed = True
        self._frames.clear()

    def _schedule(self) -> None:
        if self._frames and not self._is_scheduled:
            self._is_scheduled = True
            self._network.events.at(self._frames[0][0], self._arrive)

    def _arrive(self) -> None:
        self._is_scheduled = False
        if self._is_closed or not self._frames:
            return
        # Either direction cut stops TCP: data or its acknowledgements are lost.
        both = (self._source, self._target), (self._target, self._source)
        if not all(self._network.passes(a, b) for a, b in both):
            self._frames[0] = (self._network.events.now + RETRY_S, self._frames[0][1])
            self._schedule()
            return
        _, frame = self._frames.popleft()
        self._schedule()
        self._deliver(frame)
