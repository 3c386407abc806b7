"""Bounded memory."""

from __future__ import annotations

from quicksilver.multicast.sending.stream import SendStream
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

BURST_BYTES = 60_000
"""What one poll may commit past a window that was open when it began."""

WINDOW_BYTES_MIN = 16 << 10
AUDIT_EVERY = 10
"""Looks between two counts of what the budgets say is there."""


class Memory(Watcher):
    """What a node holds stays within its configuration, at every moment.

    "Memory is bounded by configuration, whatever arrives" (ARCHITECTURE.md,
    invariants; DESIGN.md: "memory, latency and throughput form one loop",
    dissertation 4.3.6). Copies for others, packets ahead of a hole, large messages
    that are not whole and packets of unknown views stay within their limits, and the
    budgets tell the truth about them; a stream's unacknowledged bytes stay within the
    largest window that any receiver's buffer allows. Messages queued and not packed are
    bounded by the application, which waits for room.
    """

    name = "memory"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._looks = 0

    def on_look(self) -> None:
        self._looks += 1
        nodes = self.cluster.alive()
        buffer = max((node.config.receive_buffer_bytes for node in nodes), default=0)
        for node in nodes:
            self._check(node, buffer)
            if self._looks % AUDIT_EVERY == 0:
                self._audit(node)

    def _check(self, node: SimNode, buffer: int) -> None:
        engine, config = node.engine, node.config
        newest_bytes = config.packet_bytes * len(_streams(node))
        levels = (
            # The newest packet of a stream stays: there must be one to ask with.
            ("kept", engine.environment.kept.used, config.keep_bytes_max + newest_bytes),
            ("cache", engine.environment.copies.used, config.cache_bytes_max),
            ("ahead", engine.environment.waiting.used, config.ahead_bytes_max),
            ("assembly", engine.environment.assembly.used, config.assembly_bytes_max),
            ("unknown", engine.intake.early.bytes, config.unknown_bytes_max),
        )
        for what, used, limit in levels:
            if not 0 <= used <= limit:
                self.fail(f"{node}: {what} holds {used} bytes, {limit} are allowed")
        window = max(config.window_bytes_initial, WINDOW_BYTES_MIN)
        window = max(window, min(config.window_bytes_max, buffer))
        limit = window + BURST_BYTES + config.packet_bytes
        for stream in _streams(node):
            pending = stream.flow.window.pending_bytes
            if not 0 <= pending <= limit:
                where = f"view {stream.view} of region {stream.region}"
                self.fail(f"{node}: {pending} bytes are pending in {where}, the window is {window}")

    def _audit(self, node: SimNode) -> None:
        """Count what is there, and compare with what the budgets say."""
        engine = node.engine
        streams = engine.environment.regions.streams.values()
        cached = sum(len(data) for stream in streams for data in stream.copies.packets.values())
        counted = engine.environment.copies.used
        if cached != counted:
            self.fail(f"{node}: {cached} bytes are cached, {counted} counted")
        waiting = sum(stream.waiting_bytes() for stream in streams)
        counted = engine.environment.waiting.used
        if waiting != counted:
            self.fail(f"{node}: {waiting} bytes wait, {counted} counted")
        begun = sum(stream.assembly_bytes() for stream in streams)
        counted = engine.environment.assembly.used
        if begun != counted:
            self.fail(f"{node}: {begun} bytes are for unfinished messages, {counted} counted")
        counted_aside = 0
        for stream in _streams(node):
            aside = stream.packets.aside_bytes
            kept = sum(map(len, stream.packets.values())) - aside - stream.packets.disk_bytes
            if kept != stream.flow.window.pending_bytes:
                pending = stream.flow.window.pending_bytes
                self.fail(f"{node}: {kept} bytes are unacknowledged, {pending} counted")
            counted_aside += aside + stream.packets.entry_bytes
        if counted_aside != engine.environment.kept.used:
            counted = engine.environment.kept.used
            self.fail(f"{node}: {counted_aside} bytes are set aside, {counted} counted")


def _streams(node: SimNode) -> list[SendStream]:
    return node.engine.outgoing.streams.live()
