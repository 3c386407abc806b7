"""Nodes come and go all the time."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    Finding,
    Metrics,
    Point,
    Row,
    choose,
    mean_of,
)
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.gauges import Timeline, variation
from quicksilver.experiments.scenario import Run, run_scenario


class Churn(Experiment):
    """Further members join and leave at a rate; those that stay are measured."""

    name = "churn"
    figures = "section 4.3.7"
    title = "churn"
    varies = "joins and leaves a second"
    claims = {
        "section 4.3.7": "Reconfiguration can destabilise a large system; QSM suspends multicast "
        "and recovery meanwhile and buffers unexpected packets for a while",
    }
    sweep = {"changes": (0.0, 1.0, 10.0, 50.0)}
    quick = {"changes": (0.0, 5.0)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 40,
        "visitors": 10,
        "warmup": 1.0,
        "seconds": 5.0,
    }
    quick_settings = {"nodes": 5, "visitors": 2, "warmup": 0.3, "seconds": 1.0}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("variation_received", "CV", "{:.3f}"),
        Column("changes_made", "changes"),
        Column("views", "views"),
        Column("ack_ms_mean", "ack, ms", "{:.2f}"),
        Column("pending_messages_mean", "pending"),
        Column("lost_packets", "lost"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        rate = float(point.parameters["changes"])
        made = [0]

        def disturb(run: Run) -> None:
            visitors = run.cluster.start(int(point.parameters["visitors"]))

            def change() -> None:
                node = visitors[made[0] % len(visitors)]
                if node.joined:
                    node.leave(*run.groups)
                else:
                    node.join(*run.groups)
                made[0] += 1
                run.cluster.events.after(1.0 / rate, change)

            if rate:
                run.at(run.scenario.warmup_s / 2, change)

        def finish(run: Run, timeline: Timeline) -> Metrics:
            start = run.scenario.warmup_s
            rates = timeline.rates(
                "received_messages_min", start, start + run.scenario.seconds, timeline.step_s
            )
            directory = run.receivers[0].session.directory
            return {
                "variation_received": variation(rates),
                "changes_made": made[0],
                "views": max((view.view for view in directory.groups.values()), default=0),
            }

        return run_scenario(make_scenario(point, context, disturb=disturb, finish=finish), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        calm = mean_of(choose(rows, changes=0.0), "messages_per_second")
        if not calm:
            return []
        return [
            Finding(
                f"throughput at {row['changes']:g} changes/s against none",
                f"{100 * row['messages_per_second'] / calm:.1f} %",
            )
            for row in sorted(rows, key=lambda row: row["changes"])
            if row["changes"]
        ]
