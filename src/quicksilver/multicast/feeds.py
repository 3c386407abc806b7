"""Feeds of control packets and repairs: intents, turned into packets when polled.

What waits here is not packets but the wish to send one. When the socket is
ready the wish is compared with the state of that moment; what has been
repaired meanwhile, or is no longer held, is not sent (dissertation 4.2.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import Sink
from quicksilver.multicast.counters import Counters
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import PRIORITY_CONTROL, as_repair

Intent = Callable[[float], Transmit | None]

INTENTS_MAX = 4096
"""Control packets waiting at once; the newest wish is dropped past it, because
every one of them is repeated by a later token."""

REPAIR_RANGES_MAX = 1024
BURST_BYTES = 60_000


class ControlFeed:
    """Acknowledgements, requests and the like."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._intents: deque[Intent] = deque()

    def add(self, intent: Intent) -> None:
        """Queue the wish to send, unless too many wait already."""
        if len(self._intents) < INTENTS_MAX:
            self._intents.append(intent)
            self._sink.register(self, PRIORITY_CONTROL)

    def poll(self, now: float) -> Transmit | None:
        while self._intents:
            transmit = self._intents.popleft()(now)
            if transmit is not None:
                return transmit
        return None


class RepairFeed:
    """Copies of packets on their way to nodes that lack them, in turn."""

    def __init__(self, sink: Sink, counters: Counters) -> None:
        self._sink = sink
        self._jobs: dict[tuple[Address, bytes], tuple[Mapping[int, bytes], RangeSet]] = {}
        self._counters = counters

    def add(self, to: Address, key: bytes, copies: Mapping[int, bytes], ranges: RangeSet) -> None:
        """Queue what ``ranges`` names of a stream's copies for one node."""
        job = self._jobs.get((to, key))
        if job is None:
            if len(self._jobs) >= INTENTS_MAX:
                return
            job = (copies, RangeSet())
            self._jobs[to, key] = job
        waiting = job[1]
        for start, stop in ranges:
            if waiting.range_count() >= REPAIR_RANGES_MAX:
                break
            waiting.add(start, stop)
        self._sink.register(self, PRIORITY_CONTROL)

    def poll(self, now: float) -> Transmit | None:
        while self._jobs:
            name = next(iter(self._jobs))
            copies, waiting = self._jobs.pop(name)
            packets = []
            size = 0
            while waiting and size < BURST_BYTES:
                sequence = waiting.first()
                packet = copies.get(sequence)
                if packet is None:
                    # Skip to what is still held: a huge range must not be walked.
                    held = [s for s in copies if s in waiting]
                    if not held:
                        waiting = RangeSet()
                        break
                    waiting.discard_below(min(held))
                    continue
                waiting.discard(sequence, sequence + 1)
                packets.append(as_repair(packet))
                size += len(packet)
            if waiting:
                self._jobs[name] = (copies, waiting)
            if packets:
                self._counters.repairs_sent += len(packets)
                return Transmit(name[0], packets)
        return None
