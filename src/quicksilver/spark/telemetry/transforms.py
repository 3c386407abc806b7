"""Bronze to silver to gold, as functions from table to table.

``to_silver``, ``to_region_seconds`` and ``to_node_totals`` work on streams as they do
on tables: a watermark on a table means nothing to Spark. The others look back and
forth in time, which only tables allow; they are quick enough to be made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as f

from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.bins import BINS_AN_OCTAVE, FLOOR_US
from quicksilver.trace.records import SAMPLE_EVERY

LATE = "1 minute"
"""How late a file of a stream may be: nodes write every ten seconds."""


def contract(table: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Select a contract's columns, in its types."""
    # A cast, even to the same type, makes a new column that has lost its watermark.
    types = dict(table.dtypes)
    return table.select(
        *(
            f.col(name) if types.get(name) == type_ else f.col(name).cast(type_).alias(name)
            for name, type_ in columns.items()
        )
    )


def to_silver(bronze: DataFrame, offsets: DataFrame) -> DataFrame:
    """Align clocks, drop what makes no sense and what is there twice."""
    rows = contract(bronze, schemas.BRONZE)
    shifts = contract(offsets, schemas.OFFSETS)
    is_whole = f.col("at").isNotNull() & f.col("node").isNotNull() & f.col("number").isNotNull()
    aligned = (
        rows.where(is_whole)
        .join(f.broadcast(shifts), on=["run", "node"], how="left")
        .withColumn("at", f.col("at") + f.coalesce("offset_s", f.lit(0.0)))
        .withColumn("time", f.timestamp_micros((f.col("at") * 1e6).cast("bigint")))
        .withColumn("second", f.floor("at"))
    )
    single = aligned.withWatermark("time", LATE).dropDuplicates(["run", "writer", "number", "time"])
    return contract(single, schemas.SILVER)


def _of(kind: str, value: Column) -> Column:
    """The value in rows of a kind, null in others."""
    return f.when(f.col("kind") == kind, value)


def _by_second(table: DataFrame, *keys: str) -> GroupedData:
    return table.groupBy(*keys, f.window("time", "1 second").alias("window"))


def to_region_seconds(silver: DataFrame) -> DataFrame:
    """Losses, repairs, tokens and acknowledgements by node, region and second."""
    rows = contract(silver, schemas.SILVER).where(f.col("region").isNotNull())
    grouped = _by_second(rows, "run", "node", "region")
    packets = f.col("packets")
    found = grouped.agg(
        f.coalesce(f.sum(_of("PacketsMissed", packets)), f.lit(0)).alias("lost_packets"),
        f.coalesce(f.sum(_of("RepairsSent", packets)), f.lit(0)).alias("repairs_by_peers"),
        f.coalesce(f.sum(_of("PacketsResent", packets)), f.lit(0)).alias("repairs_by_sender"),
        f.count(_of("RoundCompleted", f.col("seconds"))).alias("token_rounds"),
        (1e3 * f.avg(_of("RoundCompleted", f.col("seconds")))).alias("token_rtt_ms"),
        (1e3 * f.max(_of("RoundCompleted", f.col("seconds")))).alias("token_rtt_ms_max"),
        f.count(_of("AckReceived", f.col("low"))).alias("acks"),
        f.max(_of("AckReceived", f.col("pending_bytes"))).alias("pending_bytes_max"),
        (1e3 * f.avg(_of("AckReceived", f.col("token_s")))).alias("token_age_ms"),
        (SAMPLE_EVERY * f.count(_of("PacketSent", f.col("sequence")))).alias("sampled_packets"),
    )
    return contract(_with_second(found), schemas.REGION_SECONDS)


def _with_second(grouped: DataFrame) -> DataFrame:
    return grouped.withColumn("second", f.unix_timestamp(f.col("window.start")))


def to_node_totals(silver: DataFrame) -> DataFrame:
    """Totals and levels of every node by the second."""
    rows = contract(silver, schemas.SILVER).where(f.col("kind") == "NodeSampled")
    same = (
        "sent_messages",
        "sent_bytes",
        "delivered_messages",
        "delivered_bytes",
        "repairs_received",
        "repairs_sent",
        "resent",
        "kernel_drops",
        "pending_bytes",
        "queued_bytes",
        "memory_bytes",
        "cpu_s",
    )
    found = _by_second(rows, "run", "node").agg(
        *(f.max(name).alias(name) for name in same),
        f.max("missing").alias("lost_packets"),
        (1e3 * f.max("alarm_delay_s")).alias("alarm_delay_ms"),
    )
    return contract(_with_second(found), schemas.NODE_TOTALS)


def to_node_seconds(totals: DataFrame) -> DataFrame:
    """Rates from totals: what changed since the sample before."""
    rows = contract(totals, schemas.NODE_TOTALS)
    before = Window.partitionBy("run", "node").orderBy("second")
    passed = f.col("second") - f.lag("second").over(before)

    def rate(name: str, scale: float = 1.0) -> Column:
        return scale * (f.col(name) - f.lag(name).over(before)) / passed

    found = rows.select(
        "*",
        rate("sent_messages").alias("sent_per_s"),
        rate("delivered_messages").alias("delivered_per_s"),
        rate("delivered_bytes", 1e-6).alias("delivered_mb_per_s"),
        rate("lost_packets").alias("lost_per_s"),
        rate("repairs_received").alias("repairs_per_s"),
        rate("cpu_s", 100.0).alias("cpu_percent"),
    )
    return contract(found.where(f.col("sent_per_s").isNotNull()), schemas.NODE_SECONDS)


def match_packets(rows: DataFrame) -> DataFrame:
    """Pair departures of sampled packets with their arrivals: delay in seconds."""
    sent = rows.where(f.col("kind") == "PacketSent").select(
        "run",
        f.col("node").alias("sender"),
        "region",
        "view",
        "sequence",
        f.col("at").alias("sent_at"),
    )
    arrived = rows.where(f.col("kind") == "PacketArrived").select(
        "run", "node", "sender", "region", "view", "sequence", "at"
    )
    keys = ["run", "sender", "region", "view", "sequence"]
    return arrived.join(sent, on=keys, how="inner").withColumn(
        "delay_s", f.col("at") - f.col("sent_at")
    )


def to_latencies(silver: DataFrame) -> DataFrame:
    """How long packets took, in bins, by sender, receiver, region and second."""
    matched = match_packets(contract(silver, schemas.SILVER))
    delay_us = f.greatest(f.col("delay_s") * 1e6, f.lit(FLOOR_US))
    number = f.floor(BINS_AN_OCTAVE * f.log2(delay_us / FLOOR_US))
    found = (
        matched.withColumn("bin", number)
        .withColumn("second", f.floor("at"))
        .groupBy("run", "sender", "node", "region", "second", "bin")
        .agg(f.count(f.lit(1)).alias("packets"))
    )
    return contract(found, schemas.LATENCIES)


def to_ack_times(silver: DataFrame) -> DataFrame:
    """When senders knew that all had a packet.

    Of a stream the first acknowledgement above a packet's number is the one that
    counts. Numbers and acknowledgements grow with time, so in the order of numbers it is
    the earliest of all that follow.
    """
    rows = contract(silver, schemas.SILVER)
    is_packet = f.col("kind") == "PacketSent"
    stream = rows.where(is_packet | (f.col("kind") == "AckReceived")).withColumn(
        "place", f.when(is_packet, f.col("sequence")).otherwise(f.col("low") - 0.5)
    )
    later = (
        Window.partitionBy("run", "node", "region", "view")
        .orderBy("place")
        .rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    acked_at = f.min(_of("AckReceived", f.col("at"))).over(later)
    found = stream.withColumn("ack_ms", 1e3 * (acked_at - f.col("at"))).where(
        is_packet & f.col("ack_ms").isNotNull() & (f.col("ack_ms") >= 0)
    )
    return contract(found, schemas.ACK_TIMES)


def to_repairs(silver: DataFrame) -> DataFrame:
    """Who repaired what for whom, by the second."""
    rows = contract(silver, schemas.SILVER)
    is_peer = f.col("kind") == "RepairsSent"
    found = (
        rows.where(is_peer | (f.col("kind") == "PacketsResent"))
        .withColumn("origin", f.when(is_peer, f.lit("peer")).otherwise(f.lit("sender")))
        .withColumn("from_node", f.col("node"))
        .withColumn("to_node", f.when(is_peer, f.col("to")))
        .withColumn("sender", f.when(is_peer, f.col("sender")).otherwise(f.col("node")))
        .groupBy("run", "region", "second", "origin", "from_node", "to_node", "sender")
        .agg(f.sum("packets").alias("packets"))
    )
    return contract(found, schemas.REPAIRS)
