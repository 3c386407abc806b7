"""Sections of the page that come from traces: seconds, losses and repairs, delays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quicksilver.spark.report.drawing import as_image, draw_cdf, draw_events, draw_seconds
from quicksilver.spark.report.events import (
    SHOWN,
    Event,
    busiest_stretch,
    choose_sentences,
    tell,
)
from quicksilver.spark.report.page import Picture, Section
from quicksilver.spark.telemetry.bins import percentile_ms
from quicksilver.trace.folders import run_folder, safe_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS_MAX = 20_000
ROUNDS_MAX = 4_000
NODES_MAX = 24
"""Nodes that are drawn second by second; of more the busiest."""


def section_of(tables: Mapping[str, DataFrame], folder: Path, run: str, out: Path) -> Section:
    """Return one run's section, its figures drawn."""
    name = safe_name(run)
    section = Section(name=f"run-{name}", title=f"run {run}", origin=str(run_folder(folder, run)))
    facts = tables["runs"].where(f.col("run") == run).collect()[0]
    began = float(facts["began_s"])
    section.remarks.append(
        f"{facts['records']:,} records of {facts['nodes']} nodes in {facts['seconds']:.1f} s"
        + ("." if facts["is_whole"] else "; not all processes ended their trace in order.")
        + (f" {facts['dropped']:,} records were dropped." if facts["dropped"] else "")
    )
    _add_anomalies(section, tables, run)
    _add_seconds(section, tables, run, out)
    _add_delays(section, tables, run, out)
    _add_events(section, tables, run, out, began)
    return section


def _of(table: DataFrame, run: str) -> DataFrame:
    return table.where(f.col("run") == run)


def _add_anomalies(section: Section, tables: Mapping[str, DataFrame], run: str) -> None:
    for row in _of(tables["slow_receivers"], run).limit(5).collect():
        section.remarks.append(
            f"Slow receiver: node {row['node']} was named in {100 * row['share']:.0f} % of the "
            f"acknowledgements of region {row['region']}."
        )
    oscillating = _of(tables["oscillation"], run).where("is_oscillating")
    for row in oscillating.limit(5).collect():
        section.remarks.append(
            f"Oscillation: what node {row['node']} receives swings by "
            f"{100 * row['amplitude']:.0f} % with a period of {row['period_s']:.1f} s."
        )
    for row in _of(tables["hot_regions"], run).limit(5).collect():
        section.remarks.append(
            f"Hot region: {row['region']} has {100 * row['share']:.0f} % of the packets."
        )


def _add_seconds(section: Section, tables: Mapping[str, DataFrame], run: str, out: Path) -> None:
    seconds = _of(tables["node_seconds"], run)
    busiest = (
        seconds.groupBy("node")
        .agg(f.sum(f.col("delivered_per_s") + f.col("sent_per_s")).alias("load"))
        .orderBy(f.desc("load"), "node")
        .limit(NODES_MAX)
    )
    by_node: defaultdict[int, list[Any]] = defaultdict(list)
    for row in seconds.join(busiest, on="node", how="inner").orderBy("node", "second").collect():
        by_node[row["node"]].append(row)
    if not any(len(rows) > 1 for rows in by_node.values()):
        return
    name = f"{section.name}-seconds"
    draw_seconds(out, name, by_node)
    section.pictures.append(
        Picture(image=as_image(out / f"{name}.svg"), title=f"{len(by_node)} nodes by the second")
    )


def _add_delays(section: Section, tables: Mapping[str, DataFrame], run: str, out: Path) -> None:
    counts = {
        int(row["bin"]): int(row["packets"])
        for row in _of(tables["latencies"], run)
        .groupBy("bin")
        .agg(f.sum("packets").alias("packets"))
        .collect()
    }
    if not counts:
        return
    name = f"{section.name}-delays"
    draw_cdf(out, name, counts)
    parts = {p: percentile_ms(counts.items(), p / 100) for p in (50, 90, 99)}
    words = ", ".join(f"p{p} {value:.3g} ms" for p, value in parts.items() if value is not None)
    acks = _of(tables["ack_times"], run).agg(f.avg("ack_ms"), f.count("ack_ms")).collect()[0]
    if acks[1]:
        words += (
            f"; {acks[0]:.3g} ms until a packet is known to be everywhere (mean of {acks[1]:,})"
        )
    section.pictures.append(
        Picture(
            image=as_image(out / f"{name}.svg"),
            title=f"Delays of {sum(counts.values()):,} sampled packets, in log bins",
            measured=words,
        )
    )


def _add_events(
    section: Section, tables: Mapping[str, DataFrame], run: str, out: Path, began: float
) -> None:
    trace = _of(tables["trace"], run)
    rows = trace.where(f.col("kind").isin(*SHOWN)).orderBy("at").limit(EVENTS_MAX).collect()
    told = [event for row in rows if (event := tell(row.asDict())) is not None]
    if not told:
        section.remarks.append("Nothing was lost and no view changed.")
        return
    losses = [event.at for event in told if event.kind not in ("ViewInstalled", "ViewRetired")]
    start, end = busiest_stretch(losses or [event.at for event in told])
    seen: list[Event] = [event for event in told if start <= event.at <= end]
    rounds = [
        (float(row["at"]), round(1e6 * row["seconds"]))
        for row in trace.where(f.col("kind") == "RoundCompleted")
        .where(f.col("at").between(start, end))
        .orderBy("at")
        .limit(ROUNDS_MAX)
        .collect()
    ]
    name = f"{section.name}-events"
    draw_events(out, name, seen, rounds, began)
    section.pictures.append(
        Picture(
            image=as_image(out / f"{name}.svg"),
            title=f"The busiest stretch, from {start - began:.2f} to {end - began:.2f} s: "
            "arrows go from who repairs to who lacked packets",
            is_wide=True,
        )
    )
    section.sentences = [
        (f"{event.at - began:.4f}", str(event.node), event.sentence)
        for event in choose_sentences(told)
    ]
