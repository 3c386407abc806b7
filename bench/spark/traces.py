"""Made traces of any length, in the schema of real ones: seeded, and made by Spark's workers.

A hundred nodes in ten regions; ten of them send. Longer traces are longer runs of the
same cluster. Every node has a clock of its own, and some packets are lost and repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.trace import records
from quicksilver.trace.folders import KIND, run_folder
from quicksilver.trace.parquet import fields_of
from quicksilver.trace.records import SAMPLE_EVERY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUN_NAME = "made"
REGIONS = 10
MEMBERS = 10
NODES = REGIONS * MEMBERS
PACKETS = 100
"""Sampled packets of a sender in a second."""
ACKS = 100
LOSSES = 5
"""Of a node in a second."""
GROUPS = 10
ROUNDS = 10
FILE_ROWS = 250_000
BEGAN_S = 1_700_000_000.0

A_SECOND: Mapping[type[records.AnyRecord], int] = {
    records.PacketSent: REGIONS * PACKETS,
    records.PacketArrived: REGIONS * PACKETS * (MEMBERS - 1),
    records.AckReceived: REGIONS * ACKS,
    records.RoundCompleted: REGIONS * ROUNDS,
    records.NodeSampled: NODES,
    records.GroupSampled: NODES * GROUPS,
    records.PacketsMissed: NODES * LOSSES,
    records.RepairsSent: NODES * LOSSES,
}
"""Records of a second, by kind. Of a second's records ``i`` is the number."""

ROWS_A_SECOND = sum(A_SECOND.values())

# Node ``n`` is in region ``n div 10``; the first of each region sends.
_PLACES: Mapping[type[records.AnyRecord], str] = {
    records.PacketSent: f"(i div {PACKETS}) * {MEMBERS}",
    records.PacketArrived: (
        f"(i div {PACKETS * (MEMBERS - 1)}) * {MEMBERS} + 1 + i % {MEMBERS - 1}"
    ),
    records.AckReceived: f"(i div {ACKS}) * {MEMBERS}",
    records.RoundCompleted: f"(i div {ROUNDS}) * {MEMBERS} + 1",
    records.NodeSampled: "i",
    records.GroupSampled: f"i div {GROUPS}",
    records.PacketsMissed: f"i div {LOSSES}",
    records.RepairsSent: f"i div {LOSSES}",
}

_PACKET = f"(i % {PACKETS})"
_ARRIVED = f"((i div {MEMBERS - 1}) % {PACKETS})"
_DELAY_S = "(0.0002 + (chance % 1000) * 1e-6 + if(chance % 997 = 0, 0.5, 0))"

_MOMENTS: Mapping[type[records.AnyRecord], str] = {
    records.PacketSent: f"{_PACKET} / {PACKETS}",
    records.PacketArrived: f"{_ARRIVED} / {PACKETS} + {_DELAY_S}",
    records.AckReceived: f"(i % {ACKS}) / {ACKS} + 0.005 + (chance % 1000) * 1e-6",
}

_VALUES: Mapping[str, str] = {
    "region": f"place div {MEMBERS}",
    "view": "1",
    "level": "0",
    "seconds": "0.01 + (chance % 1000) * 1e-5",
    "senders": "1",
    "missing": "second",
    "sequence": f"{SAMPLE_EVERY} * (second * {PACKETS} + packet)",
    "low": f"{SAMPLE_EVERY} * (second * {ACKS} + i % {ACKS}) + 1",
    "slowest": f"place + 1 + chance % {MEMBERS - 1}",
    "token_s": "0.004",
    "sender": f"place div {MEMBERS} * {MEMBERS}",
    "to": f"place div {MEMBERS} * {MEMBERS} + chance % {MEMBERS}",
    "packets": "1 + chance % 8",
    "wall_s": f"{BEGAN_S} + second",
    "cpu_s": "second * 0.4",
    "alarm_delay_s": "(chance % 100) * 1e-5",
    "inversion_s": "(chance % 100) * 1e-6",
    "group": f"1 + i % {GROUPS}",
    "group_name": f"concat('group', i % {GROUPS})",
    "regions": f"array(cast(place div {MEMBERS} as bigint))",
    "groups": "1",
    "pending_bytes": "chance % 1000000",
    "queued_bytes": "0",
    "memory_bytes": "50000000 + chance % 1000000",
}
"""How columns are made; totals, which are not here, grow by a thousand a second."""


def write_trace(spark: SparkSession, folder: Path, rows: int, seed: int) -> int:
    """Write a trace of about so many records; returns how many."""
    seconds = max(2, round(rows / ROWS_A_SECOND))
    for kind, a_second in A_SECOND.items():
        count = seconds * a_second
        place = run_folder(folder, RUN_NAME) / f"{KIND}{kind.__name__}"
        packet = _ARRIVED if kind is records.PacketArrived else _PACKET
        (
            spark.range(0, count, 1, max(2, -(-count // FILE_ROWS)))
            .selectExpr(
                "id",
                f"id div {a_second} as second",
                f"id % {a_second} as i",
                f"pmod(xxhash64(id, {seed}, '{kind.__name__}'), 1000003) as chance",
            )
            .selectExpr("*", f"{_PLACES[kind]} as place", f"{packet} as packet")
            .selectExpr(
                "concat('node-', place) as writer",
                "id as number",
                *(f"cast({_value(kind, n)} as {_SPARK[t]}) as `{n}`" for n, t in fields_of(kind)),
            )
            .write.option("compression", "zstd")
            .parquet(str(place))
        )
    return seconds * ROWS_A_SECOND


_SPARK = {
    "int64": "bigint",
    "float64": "double",
    "string": "string",
    "list<int64>": "array<bigint>",
}


def _value(kind: type[records.AnyRecord], name: str) -> str:
    if name == "at":
        # Every node's clock is some thousand seconds from the others'.
        return f"place * 1000.0D + second + {_MOMENTS.get(kind, '0.5')}"
    if name == "node":
        return "1 + place"
    if name in ("sender", "to", "slowest"):
        return f"1 + {_VALUES[name]}"
    return _VALUES.get(name, "second * 1000")
