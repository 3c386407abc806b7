"""Contracts of the tables that traces become, as Spark writes types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from quicksilver.trace.parquet import fields_of
from quicksilver.trace.records import AnyRecord

_SPARK = {
    "int64": "bigint",
    "float64": "double",
    "string": "string",
    "list<int64>": "array<bigint>",
}


def _union() -> dict[str, str]:
    """Columns of all kinds of records together; one name has one type."""
    found: dict[str, str] = {}
    for kind in get_args(AnyRecord):
        for name, type_ in fields_of(kind):
            assert found.setdefault(name, _SPARK[type_]) == _SPARK[type_], name
    return found


KINDS: Final = tuple(sorted(kind.__name__ for kind in get_args(AnyRecord)))

BRONZE: Final[Mapping[str, str]] = {
    "run": "string",
    "kind": "string",
    "writer": "string",
    "number": "bigint",
    **_union(),
}
"""As written: the columns of all kinds, null where a kind has none."""

OFFSETS: Final[Mapping[str, str]] = {"run": "string", "node": "bigint", "offset_s": "double"}
"""What to add to a node's clock so that the clocks of a run agree."""

SILVER: Final[Mapping[str, str]] = {**BRONZE, "time": "timestamp", "second": "bigint"}
"""No row twice; ``at`` and ``time`` by a clock that all nodes share."""

REGION_SECONDS: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "region": "bigint",
    "second": "bigint",
    "lost_packets": "bigint",
    "repairs_by_peers": "bigint",
    "repairs_by_sender": "bigint",
    "token_rounds": "bigint",
    "token_rtt_ms": "double",
    "token_rtt_ms_max": "double",
    "acks": "bigint",
    "pending_bytes_max": "bigint",
    "token_age_ms": "double",
    "sampled_packets": "bigint",
}
"""What a node recorded about a region in a second."""

NODE_TOTALS: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "second": "bigint",
    "sent_messages": "bigint",
    "sent_bytes": "bigint",
    "delivered_messages": "bigint",
    "delivered_bytes": "bigint",
    "lost_packets": "bigint",
    "repairs_received": "bigint",
    "repairs_sent": "bigint",
    "resent": "bigint",
    "kernel_drops": "bigint",
    "pending_bytes": "bigint",
    "queued_bytes": "bigint",
    "memory_bytes": "bigint",
    "cpu_s": "double",
    "alarm_delay_ms": "double",
}
"""Totals of a node at the end of a second, and its highest levels in it."""

NODE_SECONDS: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "second": "bigint",
    "sent_per_s": "double",
    "delivered_per_s": "double",
    "delivered_mb_per_s": "double",
    "lost_per_s": "double",
    "repairs_per_s": "double",
    "cpu_percent": "double",
    "pending_bytes": "bigint",
    "queued_bytes": "bigint",
    "memory_bytes": "bigint",
    "alarm_delay_ms": "double",
}
"""Rates between one sample of a node and the next."""

LATENCIES: Final[Mapping[str, str]] = {
    "run": "string",
    "sender": "bigint",
    "node": "bigint",
    "region": "bigint",
    "second": "bigint",
    "bin": "bigint",
    "packets": "bigint",
}
"""Sampled packets by the time from departure to arrival, in bins of a quarter octave."""

ACK_TIMES: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "region": "bigint",
    "second": "bigint",
    "ack_ms": "double",
}
"""Of each sampled packet: from its departure until the sender knew that all have it."""

REPAIRS: Final[Mapping[str, str]] = {
    "run": "string",
    "region": "bigint",
    "second": "bigint",
    "origin": "string",
    "from_node": "bigint",
    "to_node": "bigint",
    "sender": "bigint",
    "packets": "bigint",
}
"""Who repaired what for whom; a sender that resends does so for a whole region."""


def ddl(contract: Mapping[str, str]) -> str:
    """Return a contract as Spark reads schemas."""
    return ", ".join(f"{name} {type_}" for name, type_ in contract.items())
