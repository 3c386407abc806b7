"""Packets that do for several regions at once: one header for each of them, one body."""

from __future__ import annotations

from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.wire.packets import (
    HYBRID_ENTRIES_MAX,
    HYBRID_OVERHEAD,
    PER_HYBRID_ENTRY,
    encode_hybrid,
)


def hybrid_bytes(group: GroupSender, streams: tuple[SendStream, ...], packet_bytes: int) -> int:
    """Return what the headers of several regions take of a packet; 0: not hybrid.

    With so many regions that half a packet were headers, each gets its own.
    """
    if group.hybrid is None or not 1 < len(streams) <= HYBRID_ENTRIES_MAX:
        return 0
    extra = HYBRID_OVERHEAD + len(streams) * PER_HYBRID_ENTRY
    return extra if extra <= packet_bytes // 2 else 0


def commit_hybrid(
    environment: Environment,
    streams: tuple[SendStream, ...],
    flags: int,
    parts: list[bytes],
    batch: int,
    now: float,
) -> bytes:
    """Commit a packet to several streams, and return one that does for all of them."""
    entries = [(s.region, s.view, s.next_sequence) for s in streams]
    for stream in streams:
        stream.commit(flags, parts, batch, now)
    environment.counters.sent_packets += 1
    cluster = int.from_bytes(streams[0].key[:4], "little")
    return encode_hybrid(cluster, environment.node, entries, flags, batch, b"".join(parts))
