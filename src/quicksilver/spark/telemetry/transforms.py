"""Bronze to silver to gold, as functions from table to table.

None of them asks Spark about a table, so that pipelines may call them before the tables
exist. None uses ``withColumn``, nor ``dropDuplicates`` for the same reason: Spark Connect
resolves its table at once, and a pipeline then does not see that one table depends on
another and makes both at the same time. None looks further than ``HORIZON_S`` back or
forth in time: what is made of a part of a trace with a margin is what would be made of
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Row, Window, types
from pyspark.sql import functions as f

from quicksilver.analysis.clocks import align_clocks
from quicksilver.analysis.waves import find_wave
from quicksilver.spark.telemetry import schemas
from quicksilver.stdx.bins import BINS_AN_OCTAVE, FLOOR_US
from quicksilver.trace.records import SAMPLE_EVERY

HORIZON_S = 60
"""A packet that took longer counts as lost, an acknowledgement as none, and of samples
further apart no rate is made."""


def contract(table: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Select a contract's columns, in its types."""
    return table.select(*(f.col(name).cast(type_).alias(name) for name, type_ in columns.items()))


def extended(table: DataFrame, columns: Iterable[str], **made: Column) -> DataFrame:
    """Select columns and new ones, which take the place of those of their name."""
    kept = [name for name in columns if name not in made]
    return table.select(*kept, *(column.alias(name) for name, column in made.items()))


# Clocks


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
    matched = arrived.join(sent, on=keys, how="inner")
    return matched.select(*keys, "node", "at", (f.col("at") - f.col("sent_at")).alias("delay_s"))


def to_evidence(bronze: DataFrame) -> DataFrame:
    """What a trace tells about its nodes' clocks: a row a node, and a row a pair of nodes."""
    rows = contract(bronze, schemas.BRONZE)
    is_sample = f.col("kind") == "NodeSampled"
    bases = (
        rows.where(f.col("node").isNotNull())
        .groupBy("run", "node")
        .agg(
            f.percentile_approx(f.when(is_sample, f.col("wall_s") - f.col("at")), 0.5).alias(
                "base_s"
            )
        )
        .select("*", f.lit(None).alias("sender"), f.lit(None).alias("delay_s"))
    )
    delays = (
        match_packets(rows)
        .groupBy("run", "sender", "node")
        .agg(f.min("delay_s").alias("delay_s"))
        .select("*", f.lit(None).alias("base_s"))
    )
    return contract(bases, schemas.EVIDENCE).unionByName(contract(delays, schemas.EVIDENCE))


def to_offsets(evidence: DataFrame) -> DataFrame:
    """What to add to each node's clock so that the clocks of a run agree: see ``clocks``."""
    rows = contract(evidence, schemas.EVIDENCE)
    columns = [name for name in schemas.EVIDENCE if name != "run"]
    # Not ``applyInPandas``, which asks Spark for the table's columns. One call a run.
    solve = f.udf(
        _solve_run,
        types.ArrayType(schemas.struct(schemas.OFFSETS, without=["run"])),
        useArrow=False,
    )
    solved = (
        rows.groupBy("run")
        .agg(f.collect_list(f.struct(*columns)).alias("evidence"))
        .select("run", f.inline(solve("evidence")))
    )
    return contract(solved, schemas.OFFSETS)


def _solve_run(evidence: Sequence[Row]) -> list[tuple[int, float]]:
    bases = {row["node"]: row["base_s"] for row in evidence if row["sender"] is None}
    delays = {
        (row["sender"], row["node"]): row["delay_s"]
        for row in evidence
        if row["sender"] is not None
    }
    return sorted(align_clocks(bases, delays).items())


# Silver


def to_silver(bronze: DataFrame, offsets: DataFrame) -> DataFrame:
    """Align clocks, drop what makes no sense and what is there twice."""
    rows = contract(bronze, schemas.BRONZE)
    shifts = contract(offsets, schemas.OFFSETS)
    is_whole = f.col("at").isNotNull() & f.col("node").isNotNull() & f.col("number").isNotNull()
    # With the kind among the keys Spark reads only the files of kinds that are asked for;
    # with the time, writers of one name that followed each other are told apart.
    keys = ("run", "kind", "writer", "number", "at")
    rest = [name for name in schemas.BRONZE if name not in keys]
    single = rows.where(is_whole).groupBy(*keys).agg(*(f.first(n).alias(n) for n in rest))
    joined = single.join(f.broadcast(shifts), on=["run", "node"], how="left")
    at = f.col("at") + f.coalesce("offset_s", f.lit(0.0))
    aligned = extended(
        joined,
        schemas.BRONZE,
        at=at,
        time=f.timestamp_micros((at * 1e6).cast("bigint")),
        second=f.floor(at),
    )
    return contract(aligned, schemas.SILVER)


# Gold


def _of(kind: str, value: Column) -> Column:
    """The value in rows of a kind, null in others."""
    return f.when(f.col("kind") == kind, value)


def to_region_seconds(silver: DataFrame) -> DataFrame:
    """Losses, repairs, tokens and acknowledgements by node, region and second."""
    rows = contract(silver, schemas.SILVER)
    told = (
        "PacketsMissed",
        "RepairsSent",
        "PacketsResent",
        "RoundCompleted",
        "AckReceived",
        "PacketSent",
    )
    packets = f.col("packets")
    found = (
        rows.where(f.col("kind").isin(*told))
        .groupBy("run", "node", "region", "second")
        .agg(
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
    )
    return contract(found, schemas.REGION_SECONDS)


def to_group_seconds(silver: DataFrame) -> DataFrame:
    """Messages and bytes by node, group and second."""
    rows = contract(silver, schemas.SILVER).where(f.col("kind") == "GroupSampled")
    totals = ("sent_messages", "sent_bytes", "received_messages", "received_bytes")
    passed = f.nullif(f.sum("seconds"), f.lit(0.0))
    found = rows.groupBy("run", "node", "group", "second").agg(
        f.max("group_name").alias("group_name"),
        f.max("regions").alias("regions"),
        f.max("groups").alias("groups"),
        *(f.sum(name).alias(name) for name in totals),
        (f.sum("sent_messages") / passed).alias("sent_per_s"),
        (f.sum("received_messages") / passed).alias("received_per_s"),
    )
    return contract(found, schemas.GROUP_SECONDS)


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
    found = rows.groupBy("run", "node", "second").agg(
        *(f.max(name).alias(name) for name in same),
        f.max("missing").alias("lost_packets"),
        (1e3 * f.max("alarm_delay_s")).alias("alarm_delay_ms"),
        (1e3 * f.max("inversion_s")).alias("inversion_ms"),
    )
    return contract(found, schemas.NODE_TOTALS)


def to_node_seconds(totals: DataFrame) -> DataFrame:
    """Rates from totals: what changed since the sample before."""
    rows = contract(totals, schemas.NODE_TOTALS)
    before = Window.partitionBy("run", "node").orderBy("second")

    def rate(name: str, scale: float = 1.0) -> Column:
        return scale * (f.col(name) - f.lag(name).over(before)) / f.col("passed")

    passed = f.col("second") - f.lag("second").over(before)
    found = rows.select("*", passed.alias("passed")).select(
        "*",
        rate("sent_messages").alias("sent_per_s"),
        rate("delivered_messages").alias("delivered_per_s"),
        rate("delivered_bytes", 1e-6).alias("delivered_mb_per_s"),
        rate("lost_packets").alias("lost_per_s"),
        rate("repairs_received").alias("repairs_per_s"),
        rate("kernel_drops").alias("drops_per_s"),
        rate("cpu_s", 100.0).alias("cpu_percent"),
    )
    # Null for a node's first sample.
    is_rate = f.col("passed") <= HORIZON_S
    return contract(found.where(is_rate), schemas.NODE_SECONDS)


def to_latencies(silver: DataFrame) -> DataFrame:
    """How long packets took, in bins, by sender, receiver, region and second."""
    matched = match_packets(contract(silver, schemas.SILVER))
    delay_us = f.greatest(f.col("delay_s") * 1e6, f.lit(FLOOR_US))
    number = f.floor(BINS_AN_OCTAVE * f.log2(delay_us / FLOOR_US))
    found = (
        matched.where(f.abs("delay_s") <= HORIZON_S)
        .select("*", number.alias("bin"), f.floor("at").alias("second"))
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
    place = f.when(is_packet, f.col("sequence")).otherwise(f.col("low") - 0.5)
    stream = rows.where(is_packet | (f.col("kind") == "AckReceived")).select(
        "*", place.alias("place")
    )
    # Backwards: Spark keeps a minimum of all rows before, and of all that follow makes a
    # new one for each row.
    later = (
        Window.partitionBy("run", "node", "region", "view")
        .orderBy(f.desc("place"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    acked_at = f.min(_of("AckReceived", f.col("at"))).over(later)
    found = stream.select("*", (1e3 * (acked_at - f.col("at"))).alias("ack_ms")).where(
        is_packet & f.col("ack_ms").between(0, 1e3 * HORIZON_S)
    )
    return contract(found, schemas.ACK_TIMES)


def to_repairs(silver: DataFrame) -> DataFrame:
    """Who repaired what for whom, by the second."""
    rows = contract(silver, schemas.SILVER)
    is_peer = f.col("kind") == "RepairsSent"
    told = extended(
        rows.where(is_peer | (f.col("kind") == "PacketsResent")),
        ["run", "region", "second", "packets"],
        origin=f.when(is_peer, f.lit("peer")).otherwise(f.lit("sender")),
        from_node=f.col("node"),
        to_node=f.when(is_peer, f.col("to")),
        sender=f.when(is_peer, f.col("sender")).otherwise(f.col("node")),
    )
    found = told.groupBy("run", "region", "second", "origin", "from_node", "to_node", "sender").agg(
        f.sum("packets").alias("packets")
    )
    return contract(found, schemas.REPAIRS)


def silver_to_node_seconds(silver: DataFrame) -> DataFrame:
    """Rates of every node by the second."""
    return to_node_seconds(to_node_totals(silver))


def to_waves(node_seconds: DataFrame) -> DataFrame:
    """The strongest wave in what each node receives, second by second: see ``waves``."""
    rows = contract(node_seconds, schemas.NODE_SECONDS)
    wave = schemas.struct(schemas.WAVES, without=["run", "node"])
    find = f.udf(find_wave, wave, useArrow=False)
    rates = f.collect_list(f.struct("second", "delivered_per_s"))
    found = (
        rows.groupBy("run", "node")
        .agg(f.array_sort(rates)["delivered_per_s"].alias("rates"))
        .select("run", "node", f.inline(f.array(find("rates"))))
    )
    return contract(found, schemas.WAVES)


GOLD: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "region_seconds": to_region_seconds,
    "group_seconds": to_group_seconds,
    "node_totals": to_node_totals,
    "node_seconds": silver_to_node_seconds,
    "latencies": to_latencies,
    "ack_times": to_ack_times,
    "repairs": to_repairs,
}
"""Every gold table and how it is made of silver. Each has the columns ``run`` and ``second``."""
