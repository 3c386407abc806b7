"""Handing packets on to other members, where there is no IP multicast (``multicast.tree``).

What arrives from above is handed on below once, if this node took it itself: what makes
no sense goes no further. It waits for the socket in a bounded queue; past it packets are
dropped and repaired as if the network had lost them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import Sink
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import KIND_DATA, POSITION, PRIORITY_DATA, Body

RELAY_BYTES_MAX = 4 << 20
"""Bytes of packets that wait to be handed on; past it they are dropped."""

BURST_BYTES = 60_000
"""Packets that leave for one member before the next one gets them."""


class RelayFeed:
    """Packets on their way to the members below this node."""

    def __init__(self, sink: Sink, counters: Counters) -> None:
        self._sink = sink
        self._counters = counters
        self._waiting: dict[tuple[Address, ...], deque[bytes]] = {}
        self._ready: deque[Transmit] = deque()
        self.used_bytes = 0

    def add(self, children: tuple[Address, ...], packets: list[bytes]) -> None:
        """Hand packets of one stream on, in order."""
        size = sum(map(len, packets))
        if self.used_bytes + size > RELAY_BYTES_MAX:
            self._counters.relays_dropped += len(packets)
            return
        self.used_bytes += size
        self._waiting.setdefault(children, deque()).extend(packets)
        self._sink.register(self, PRIORITY_DATA)

    def poll(self, now: float) -> Transmit | None:
        if self._ready:
            return self._ready.popleft()
        if not self._waiting:
            return None
        children = next(iter(self._waiting))
        waiting = self._waiting.pop(children)
        packets: list[bytes] = []
        size = 0
        while waiting and (not packets or size + len(waiting[0]) <= BURST_BYTES):
            packet = waiting.popleft()
            packets.append(packet)
            size += len(packet)
        if waiting:
            # Behind the others: streams take turns.
            self._waiting[children] = waiting
        self.used_bytes -= size
        self._counters.relayed_packets += len(packets) * len(children)
        self._ready.extend(Transmit(child, packets) for child in children)
        return self._ready.popleft()

    def clear(self) -> None:
        """The incarnation is over: nothing of its streams is handed on."""
        self._waiting.clear()
        self._ready.clear()
        self.used_bytes = 0


class RelayingStream(ReceiveStream):
    """A stream whose packets this node hands on to others."""

    __slots__ = ("_children", "_relays")

    def __init__(
        self,
        key: bytes,
        sender: NodeId,
        region: object,
        source: Address | None,
        parse_body: Callable[[bytes, int, NodeId, int], Body | None],
        *,
        children: tuple[Address, ...],
        relays: RelayFeed,
    ) -> None:
        super().__init__(key, sender, region, source, parse_body)  # type: ignore[arg-type]
        self._children = children
        self._relays = relays

    def handle_packet(self, data: bytes, now: float) -> None:
        sequence: int = POSITION.unpack_from(data, 20)[0]
        had_it = self.has(sequence)
        super().handle_packet(data, now)
        if data[1] == KIND_DATA and not had_it and self.has(sequence):
            self._relays.add(self._children, [data])

    def handle_run(self, packets: list[bytes], now: float) -> bool:
        is_taken = super().handle_run(packets, now)
        if is_taken:
            self._relays.add(self._children, packets)
        return is_taken
