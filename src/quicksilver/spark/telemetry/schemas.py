"""Contracts of the tables that traces become, as Spark writes types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, get_args

from quicksilver.trace.parquet import fields_of
from quicksilver.trace.records import AnyRecord

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SPARK = {
    "int64": "bigint",
    "float64": "double",
    "string": "string",
    "list<int64>": "array<bigint>",
}


def _union() -> dict[str, str]:
    """Columns of all kinds of records together; one name has one type."""
    found = {"writer": "string", "number": "int64"}
    for kind in get_args(AnyRecord):
        for name, type_ in fields_of(kind):
            assert found.setdefault(name, type_) == type_, name
    return found


RECORD_TYPES: Final[Mapping[str, str]] = _union()
"""Columns of trace files, and their types as Arrow calls them."""


KINDS: Final = tuple(sorted(kind.__name__ for kind in get_args(AnyRecord)))

BRONZE: Final[Mapping[str, str]] = {
    "run": "string",
    "kind": "string",
    **{name: _SPARK[type_] for name, type_ in RECORD_TYPES.items()},
}
"""As written: the columns of all kinds, null where a kind has none."""

EVIDENCE: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "sender": "bigint",
    "base_s": "double",
    "delay_s": "double",
}
"""What tells clocks apart: a node's time of day less its clock, or, with a sender, the
shortest time of a packet from there by both clocks."""

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
    "inversion_ms": "double",
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
    "drops_per_s": "double",
    "cpu_percent": "double",
    "pending_bytes": "bigint",
    "queued_bytes": "bigint",
    "memory_bytes": "bigint",
    "alarm_delay_ms": "double",
    "inversion_ms": "double",
}
"""Rates between one sample of a node and the next."""

GROUP_SECONDS: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "group": "bigint",
    "group_name": "string",
    "regions": "array<bigint>",
    "second": "bigint",
    "groups": "bigint",
    "sent_messages": "bigint",
    "sent_bytes": "bigint",
    "received_messages": "bigint",
    "received_bytes": "bigint",
    "sent_per_s": "double",
    "received_per_s": "double",
}
"""What a node sent to a group and received from it, told in a second. Group 0 stands for
``groups`` others; those that are told apart are one each."""

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


WAVES: Final[Mapping[str, str]] = {
    "run": "string",
    "node": "bigint",
    "seconds": "bigint",
    "period_s": "double",
    "amplitude": "double",
    "rhythm": "double",
    "is_oscillating": "boolean",
}
"""The strongest wave in what a node receives."""

GOLD: Final[Mapping[str, Mapping[str, str]]] = {
    "region_seconds": REGION_SECONDS,
    "group_seconds": GROUP_SECONDS,
    "node_totals": NODE_TOTALS,
    "node_seconds": NODE_SECONDS,
    "latencies": LATENCIES,
    "ack_times": ACK_TIMES,
    "repairs": REPAIRS,
}


def ddl(contract: Mapping[str, str]) -> str:
    """Return a contract as Spark reads schemas."""
    return ", ".join(f"{name} {type_}" for name, type_ in contract.items())


def struct(contract: Mapping[str, str], *, without: Sequence[str] = ()) -> StructType:
    """Return a contract of simple types, or the rest of it, as Spark's own type.

    In a pipeline's definitions no text may be parsed: that would ask Spark.
    """
    from pyspark.sql import types

    simple = {
        "string": types.StringType(),
        "bigint": types.LongType(),
        "double": types.DoubleType(),
        "boolean": types.BooleanType(),
    }
    return types.StructType(
        [
            types.StructField(name, simple[type_])
            for name, type_ in contract.items()
            if name not in without
        ]
    )
