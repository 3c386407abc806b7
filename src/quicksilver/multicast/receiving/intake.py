"""Data packets on their way from the socket to the stream that each belongs to.

A packet is for a stream that is known, or begins one; or it comes before the news of its
view and is kept for a while. Whatever makes no sense is counted and dropped. Tokens and
other control packets arrive in the same place and are handed on.
"""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.multicast.environment import Environment, Rejection
from quicksilver.multicast.receiving.early_packets import EarlyPackets
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.wire.ids import Address, RegionId
from quicksilver.wire.packets import (
    HEADER_BYTES,
    KIND_CONTROL,
    KIND_DATA,
    KIND_HYBRID,
    KIND_REPAIR,
    KIND_TOKEN,
    MAGIC,
    PRIORITY_DATA,
    PRIORITY_OF_KIND,
    hybrid_body,
    parse_key,
    pick_from_hybrid,
    split_hybrid,
)


class Intake:
    """Where all datagrams of one node come in."""

    def __init__(
        self, environment: Environment, on_control: Callable[[bytes, Address, float], None]
    ) -> None:
        self.early = EarlyPackets(
            environment.config.unknown_bytes_max, environment.config.unknown_s
        )
        self._env = environment
        self._on_control = on_control
        self._streams = environment.regions.streams
        self._regions = environment.regions.by_name

    def classify(self, data: bytes) -> int:
        if len(data) < 4 or data[0] != MAGIC:
            return PRIORITY_DATA
        return PRIORITY_OF_KIND.get(data[1], PRIORITY_DATA)

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        """Take any bytes from the network; what makes no sense is counted."""
        stream = self._streams.get(data[4:20])
        if stream is not None and len(data) >= HEADER_BYTES and data[0] == MAGIC:
            kind = data[1]
            # Data comes from its sender; a repair from any member, too.
            if kind == KIND_DATA and source == stream.source:
                stream.handle_packet(data, now)
                return
            if self._may_repeat(stream, kind, source):
                stream.handle_packet(data, now)
                return
            if kind == KIND_DATA or kind == KIND_REPAIR:
                self._env.reject(Rejection.REJECTED, data, now)
                return
        self._handle_other(data, source, now)

    def _may_repeat(self, stream: ReceiveStream, kind: int, source: Address) -> bool:
        """Whether a packet may come from there: again from its sender, or as a repair."""
        if kind == KIND_REPAIR and stream.region.is_member_address(source):
            return True
        return (kind == KIND_DATA or kind == KIND_REPAIR) and source == stream.origin

    def handle_segments(self, data: bytes, segment_bytes: int, source: Address, now: float) -> None:
        packets = [
            data[start : start + segment_bytes] for start in range(0, len(data), segment_bytes)
        ]
        prefix = data[:20]
        stream = self._streams.get(prefix[4:])
        if (
            stream is not None
            and source == stream.source
            and prefix[0] == MAGIC
            and prefix[1] == KIND_DATA
            and len(packets[-1]) >= HEADER_BYTES
            and all(packet[:20] == prefix for packet in packets)
            and stream.handle_run(packets, now)
        ):
            return
        for packet in packets:
            self.handle_datagram(packet, source, now)

    def _handle_other(self, data: bytes, source: Address, now: float) -> None:
        if len(data) < 4 or data[0] != MAGIC:
            self._env.reject(Rejection.MALFORMED, data, now)
            return
        kind = data[1]
        if kind == KIND_TOKEN or kind == KIND_CONTROL:
            self._on_control(data, source, now)
        elif kind == KIND_DATA or kind == KIND_REPAIR:
            self._handle_strange(data, source, now)
        elif kind == KIND_HYBRID:
            self._handle_hybrid(data, source, now)
        else:
            self._env.reject(Rejection.MALFORMED, data, now)

    def _handle_hybrid(self, data: bytes, source: Address, now: float) -> None:
        """Take the header of the region this node is in; drop the others."""
        packet = pick_from_hybrid(data, self._streams)
        if packet is not None:
            self.handle_datagram(packet, source, now)
            return
        heads = split_hybrid(data)
        if heads is None:
            self._env.reject(Rejection.MALFORMED, data, now)
            return
        for key, head in heads:
            cluster, sender, region, view = parse_key(key)
            if cluster != self._env.cluster:
                self._env.counters.foreign += 1
                return
            if sender == self._env.node:
                return
            if (region, view) in self._regions or region in self._env.directory.regions:
                self.handle_datagram(head + hybrid_body(data), source, now)

    def _handle_strange(self, data: bytes, source: Address, now: float) -> None:
        """A data packet of a stream not seen before: new, early, old or foreign."""
        if len(data) < HEADER_BYTES:
            self._env.reject(Rejection.MALFORMED, data, now)
            return
        cluster, sender, region, view = parse_key(data[4:20])
        if cluster != self._env.cluster:
            self._env.reject(Rejection.FOREIGN, data, now)
            return
        if sender == self._env.node:
            return
        # Only a member that still has a copy may speak for the dead.
        is_repair = data[1] == KIND_REPAIR and (region, view) in self._regions
        if self._env.is_failed(sender) and not is_repair:
            self._env.reject(Rejection.REJECTED, data, now)
            return
        member = self._regions.get((region, view))
        if member is not None and member.may_hear(sender):
            member.stream_of(sender)
            self.handle_datagram(data, source, now)
            return
        if member is None and not self._may_become_member(region, view):
            self._env.counters.unknown_dropped += 1
            return
        if self.early.keep((region, view, sender), data, source, now):
            self._env.counters.unknown_kept += 1
        else:
            self._env.counters.unknown_dropped += 1

    def _may_become_member(self, region: int, view: int) -> bool:
        """False for views that are over, or that came after this node had left."""
        known = self._env.directory.regions.get(RegionId(region))
        if known is not None:
            return view > known.view
        return not self._env.regions.has_view_of(region)

    def handle_views(self, now: float) -> None:
        """Views were installed: take the packets that came too early for them."""
        for region, view, sender in self.early.names():
            member = self._regions.get((region, view))
            if member is not None and member.may_send(sender):
                for data, source in self.early.take((region, view, sender)):
                    self.handle_datagram(data, source, now)
