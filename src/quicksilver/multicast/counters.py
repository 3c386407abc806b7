"""What one engine counted: plain integers, read by statistics and tests."""

from __future__ import annotations


class Counters:
    """Counts since the engine was made; only the core thread writes them."""

    __slots__ = (
        "abandoned",
        "ack_received",
        "ack_sent",
        "ahead_dropped",
        "cache_refused",
        "delivered_bytes",
        "delivered_messages",
        "delivered_packets",
        "duplicates",
        "foreign",
        "lost_to_crash",
        "malformed",
        "missing",
        "nak_received",
        "nak_sent",
        "probes",
        "pull_received",
        "pull_sent",
        "pushes",
        "rejected",
        "repairs_received",
        "repairs_sent",
        "resent",
        "roll_calls",
        "sent_bytes",
        "sent_messages",
        "sent_packets",
        "source_failures",
        "tokens_received",
        "tokens_released",
        "unknown_dropped",
        "unknown_kept",
        "unwanted_messages",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    abandoned: int
    ack_received: int
    ack_sent: int
    ahead_dropped: int
    cache_refused: int
    delivered_bytes: int
    delivered_messages: int
    delivered_packets: int
    duplicates: int
    foreign: int
    lost_to_crash: int
    malformed: int
    missing: int
    nak_received: int
    nak_sent: int
    probes: int
    pull_received: int
    pull_sent: int
    pushes: int
    rejected: int
    repairs_received: int
    repairs_sent: int
    resent: int
    roll_calls: int
    sent_bytes: int
    sent_messages: int
    sent_packets: int
    source_failures: int
    tokens_received: int
    tokens_released: int
    unknown_dropped: int
    unknown_kept: int
    unwanted_messages: int

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}
