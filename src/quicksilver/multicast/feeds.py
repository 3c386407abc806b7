"""Feeds of control packets and repairs: intents, turned into packets when polled.

What waits here is not packets but the wish to send one. When the socket is
ready the wish is compared with the state of that moment; what has been
repaired meanwhile, or is no longer held, is not sent (dissertation 4.2.2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import PRIORITY_CONTROL, as_repair

Intent = Callable[[float], Transmit | None]

INTENTS_MAX = 4096
"""Control packets waiting at once; the newest wish is dropped past it, because
every one of them is repeated by a later token."""

INTENT_BYTES = 4096
"""What one takes at most, an acknowledgement with its ranges."""

REPAIR_RANGES_MAX = 128
"""Ranges of one stream that wait for one node, and that are remembered as sent to it."""

BURST_BYTES = 60_000

PEERS_MAX = 4096
"""Nodes whose share of repairs is remembered; the one served longest ago is forgotten."""

JOBS_MAX = 1024
"""Streams that wait for nodes, and that are remembered as sent to them."""

JOB_BYTES = 1024
RANGE_BYTES = 96

CONTROL_BYTES_MAX = INTENT_BYTES * INTENTS_MAX
"""What control packets that wait never exceed, …"""

REPAIRS_BYTES_MAX = (
    3 * JOBS_MAX * (JOB_BYTES + RANGE_BYTES * REPAIR_RANGES_MAX) + JOB_BYTES * PEERS_MAX
)
"""… and the bookkeeping of repairs."""

Job = tuple[Address, bytes]
"""Copies of one stream, by its key, for one node."""

Stamp = Callable[[bytes, float], bytes]
"""Makes a control packet ready to leave."""


class ControlFeed:
    """Acknowledgements, requests and the like."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._intents: deque[Intent] = deque()
        self.stamp: Stamp | None = None
        """Given by the environment, which knows what peers want to hear."""

    def used_bytes(self) -> int:
        """Return about how much wishes take."""
        return INTENT_BYTES * len(self._intents)

    def add(self, intent: Intent) -> None:
        """Queue the wish to send, unless too many wait already."""
        if len(self._intents) < INTENTS_MAX:
            self._intents.append(intent)
            self._sink.register(self, PRIORITY_CONTROL)

    def poll(self, now: float) -> Transmit | None:
        stamp = self.stamp
        while self._intents:
            transmit = self._intents.popleft()(now)
            if transmit is not None:
                if stamp is None:
                    return transmit
                packets = [stamp(packet, now) for packet in transmit.packets]
                return Transmit(transmit.destination, packets)
        return None


class RepairFeed:
    """Copies of packets on their way to nodes that lack them, in turn.

    A node gets a packet once, however often it asked before that left. A node that asks for
    more than ``repair_peer_bytes_per_s`` in the long run is not served until it
    has room again, and may then ask once more.
    """

    def __init__(self, sink: Sink, counters: Counters, config: EngineConfig) -> None:
        self._sink = sink
        self._jobs: dict[Job, tuple[Mapping[int, bytes], RangeSet]] = {}
        self._counters = counters
        self._config = config
        self._rates: dict[Address, RatePolicy] = {}
        """What each node may be sent at the moment."""

    def used_bytes(self) -> int:
        """Return about how much requests take."""
        sets = [waiting for _, waiting in self._jobs.values()]
        ranges = sum(each.range_count() for each in sets)
        return JOB_BYTES * (len(sets) + len(self._rates)) + RANGE_BYTES * ranges

    def add(self, to: Address, key: bytes, copies: Mapping[int, bytes], ranges: RangeSet) -> None:
        """Queue what ``ranges`` names of a stream's copies for one node."""
        name = (to, key)
        job = self._jobs.get(name)
        if job is None:
            if len(self._jobs) >= JOBS_MAX:
                return
            job = (copies, RangeSet())
            self._jobs[name] = job
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
            rate = self._rate_of(name[0])
            if not rate.is_open(now):
                self._counters.repairs_refused += 1
                continue
            packets, waiting, size = self._take(copies, waiting)
            if waiting:
                self._jobs[name] = (copies, waiting)
            if packets:
                rate.charge(size, now)
                self._counters.repairs_sent += len(packets)
                return Transmit(name[0], [as_repair(packet) for _, packet in packets])
        return None

    def _take(
        self, copies: Mapping[int, bytes], waiting: RangeSet
    ) -> tuple[list[tuple[int, bytes]], RangeSet, int]:
        """Return a burst of what waits and is held, in order, what still waits, and its size."""
        packets: list[tuple[int, bytes]] = []
        size = 0
        while waiting and size < BURST_BYTES:
            sequence = waiting.first()
            packet = copies.get(sequence)
            if packet is None:
                # Whatever is not held is passed over at once: neither may a huge range
                # be walked, nor the copies be looked through for every hole in them.
                held = RangeSet((s, s + 1) for s in sorted(copies) if s in waiting)
                waiting = held.head(REPAIR_RANGES_MAX)
                continue
            waiting.discard(sequence, sequence + 1)
            packets.append((sequence, packet))
            size += len(packet)
        return packets, waiting, size

    # What nodes were sent

    def _rate_of(self, to: Address) -> RatePolicy:
        rate = self._rates.pop(to, None)
        if rate is None:
            config = self._config
            rate = RatePolicy(config.repair_peer_bytes_per_s, config.repair_peer_burst_bytes)
        self._rates[to] = rate
        if len(self._rates) > PEERS_MAX:
            del self._rates[next(iter(self._rates))]
        return rate
