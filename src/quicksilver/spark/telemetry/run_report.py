"""Sections of the page that come from traces: seconds, losses and repairs, delays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quicksilver.analysis.drawing import as_image, draw_cdf
from quicksilver.analysis.page import Picture, Section, Sentence, Table
from quicksilver.analysis.report.events import (
    SHOWN,
    Event,
    Round,
    choose_sentences,
    choose_stretches,
    tell,
)
from quicksilver.analysis.report.timelines import draw_events, draw_seconds
from quicksilver.spark.telemetry.reading import find_problems
from quicksilver.spark.telemetry.views import make_views
from quicksilver.stdx.bins import percentile_ms
from quicksilver.trace.folders import run_folder, safe_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_MAX = 20_000
ROUNDS_MAX = 4_000
ARRIVALS_MAX = 8_000
NODES_MAX = 24
"""Nodes that are drawn second by second; of more the busiest."""
LOSERS_MAX = 12
REPAIRS_MAX = 2_000
HELPERS_MAX = 4
"""Rows and names of the table of repairs."""


def tell_runs(
    spark: SparkSession,
    traced: Mapping[Path, Sequence[str]],
    out: Path,
    remark: Callable[[str], None] = lambda _: None,
) -> list[Section]:
    """Return a section for each run of some folders, its figures drawn."""
    found = []
    for folder, names in traced.items():
        for problem in find_problems(folder, names):
            remark(problem)
        tables = make_views(spark, folder, names)
        found += [section_of(tables, folder, name, out) for name in names]
    return found


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
    _add_repairs(section, tables, run)
    _add_events(section, tables, run, out, began)
    return section


def _of(table: DataFrame, run: str) -> DataFrame:
    return table.where(f.col("run") == run)


def _add_anomalies(section: Section, tables: Mapping[str, DataFrame], run: str) -> None:
    for row in _of(tables["slow_receivers"], run).limit(5).collect():
        section.remarks.append(
            f"Slow receiver: of the time that senders waited longer than usual for region "
            f"{row['region']}, {100 * row['share']:.0f} % was for node {row['node']}."
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
        by_node[row["node"]].append(row.asDict())
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
            measured=f"{words}.",
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
    stretches = choose_stretches(told)
    for place, (what, start, end) in enumerate(stretches):
        seen: list[Event] = [event for event in told if start <= event.at <= end]
        rounds = _rounds(trace, start, end)
        name = f"{section.name}-events-{place + 1}"
        tracks = draw_events(
            out, name, what, seen, rounds, _arrivals(trace, start, end), (start, end), began
        )
        nodes = len({event.node for event in seen})
        section.pictures.append(
            Picture(
                image=as_image(out / f"{name}.svg"),
                title=f"{what}: from {start - began:.2f} to {end - began:.2f} s",
                measured=f"{len(seen):,} events of {nodes} nodes; {min(tracks, nodes)} are drawn. "
                "Dots are sampled packets that arrived. Arrows go from who repairs to who lacked "
                "packets; larger marks are more packets; a red track is a node that failed.",
                is_wide=True,
            )
        )
    section.sentences = [
        Sentence(f"{event.at - began:.4f}", str(event.node), event.kind, event.sentence)
        for event in choose_sentences(told, stretches=stretches)
    ]


def _rounds(trace: DataFrame, start: float, end: float) -> list[Round]:
    rows = (
        trace.where(f.col("kind") == "RoundCompleted")
        .where(f.col("at").between(start, end))
        .orderBy("at")
        .limit(ROUNDS_MAX)
        .collect()
    )
    return [Round(float(row["at"]), int(row["level"]), float(row["seconds"])) for row in rows]


def _arrivals(trace: DataFrame, start: float, end: float) -> list[tuple[float, int]]:
    rows = (
        trace.where(f.col("kind") == "PacketArrived")
        .where(f.col("at").between(start, end))
        .select("at", "node")
        .orderBy("at")
        .limit(ARRIVALS_MAX)
        .collect()
    )
    return [(float(row["at"]), int(row["node"])) for row in rows]


def _add_repairs(section: Section, tables: Mapping[str, DataFrame], run: str) -> None:
    """A table: who lost how much, and who made it good."""
    lost = {
        row["node"]: int(row["lost"])
        for row in _of(tables["region_seconds"], run)
        .groupBy("node")
        .agg(f.sum("lost_packets").alias("lost"))
        .where("lost > 0")
        .orderBy(f.desc("lost"), "node")
        .limit(LOSERS_MAX)
        .collect()
    }
    if not lost:
        return
    repaired: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    resent = 0
    rows = (
        _of(tables["repairs"], run)
        .groupBy("to_node", "from_node", "origin")
        .agg(f.sum("packets").alias("packets"))
        .orderBy(f.desc("packets"), "from_node")
        .limit(REPAIRS_MAX)
        .collect()
    )
    for row in rows:
        if row["to_node"] is None:
            resent += int(row["packets"])
        else:
            repaired[row["to_node"]].append((int(row["from_node"]), int(row["packets"])))
    body = []
    for node, packets in lost.items():
        helpers = repaired.get(node, [])
        names = ", ".join(f"node {who} ({count:,})" for who, count in helpers[:HELPERS_MAX])
        more = len(helpers) - HELPERS_MAX
        names += f" and {more} more" if more > 0 else ""
        made_good = sum(count for _, count in helpers)
        body.append((f"node {node}", f"{packets:,}", f"{made_good:,}", names or "–"))
    section.tables.append(
        Table(
            title="Who lost packets, and who repaired them",
            head=("node", "packets missed", "repairs sent to it", "by"),
            rows=body,
        )
    )
    if resent:
        section.remarks.append(f"Senders repeated {resent:,} packets for whole regions.")
