"""What one engine counted: plain integers, read by statistics and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counts since the engine was made; only the core thread writes them."""

    abandoned: int = 0
    absent_dropped: int = 0
    ack_received: int = 0
    ack_refused: int = 0
    ack_sent: int = 0
    ahead_dropped: int = 0
    assembly_waits: int = 0
    bad_envelopes: int = 0
    cache_refused: int = 0
    delivered_bytes: int = 0
    delivered_messages: int = 0
    delivered_packets: int = 0
    duplicates: int = 0
    foreign: int = 0
    gone_received: int = 0
    gone_sent: int = 0
    lost_to_crash: int = 0
    malformed: int = 0
    missing: int = 0
    nak_received: int = 0
    nak_sent: int = 0
    overtaken: int = 0
    probes: int = 0
    pull_received: int = 0
    pull_sent: int = 0
    pushes: int = 0
    rejected: int = 0
    relayed_packets: int = 0
    relays_dropped: int = 0
    repairs_received: int = 0
    repairs_refused: int = 0
    repairs_sent: int = 0
    resends_refused: int = 0
    resent: int = 0
    roll_calls: int = 0
    sent_bytes: int = 0
    sent_messages: int = 0
    sent_packets: int = 0
    source_failures: int = 0
    tokens_received: int = 0
    tokens_released: int = 0
    unconfirmed: int = 0
    unconfirmed_by_gone: int = 0
    unknown_dropped: int = 0
    unknown_kept: int = 0
    unproven: int = 0
    unwanted_messages: int = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}
