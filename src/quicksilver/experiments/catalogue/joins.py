"""Nodes join a group in full traffic, all at once."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.crash import judge_dip
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.gauges import Timeline
from quicksilver.experiments.scenario import Run, run_scenario
from quicksilver.trials.node import SimNode


class Joins(Experiment):
    """What section 4.3.7 says of joins, and design goals on batching."""

    name = "joins"
    figures = "section 4.3.7"
    title = "joining in full traffic"
    varies = "nodes that join at once"
    claims = {
        "section 4.3.7": "A join results in a slowdown, but the system soon recovers",
    }
    sweep = {"joiners": (1, 10, 50)}
    quick = {"joiners": (1, 3)}
    settings = {**SETTINGS, "machine": "gigabit", "nodes": 50, "warmup": 1.0, "seconds": 3.0}
    quick_settings = {"nodes": 5, "warmup": 0.5, "seconds": 1.0}
    columns = (
        Column("joined_s", "joined after, s", "{:.3f}"),
        Column("before_messages_per_second", "before/s"),
        Column("lowest_messages_per_second", "lowest/s"),
        Column("after_messages_per_second", "after/s"),
        Column("slow_s", "slow, s", "{:.2f}"),
        Column("views", "views"),
        Column("lost_packets", "lost"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        count = int(point.parameters["joiners"])
        joiners: list[SimNode] = []
        ready: list[float] = []

        def disturb(run: Run) -> None:
            joiners.extend(run.cluster.start(count))

            def join() -> None:
                for node in joiners:
                    node.join(*run.groups)
                look()

            def look() -> None:
                if all(node.joined <= node.ready for node in joiners):
                    ready.append(run.now - run.scenario.warmup_s)
                else:
                    run.cluster.events.after(0.001, look)

            run.at(run.scenario.warmup_s, join)

        def finish(run: Run, timeline: Timeline) -> Metrics:
            directory = run.receivers[0].session.directory
            return judge_dip(run, timeline) | {
                "joined_s": ready[0] if ready else None,
                "views": max((view.view for view in directory.groups.values()), default=0),
            }

        scenario = make_scenario(point, context, disturb=disturb, finish=finish, timeline_s=0.05)
        return run_scenario(scenario, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        return [
            Finding(
                f"{row['joiners']} at once: joined, and the others slower than 90 % for",
                f"{row['joined_s']:.3f} s, {row['slow_s']:.2f} s"
                if row["joined_s"] is not None
                else "not joined in the run",
                row["joined_s"] is not None
                and row["after_messages_per_second"] >= 0.95 * row["before_messages_per_second"],
            )
            for row in sorted(rows, key=lambda row: row["joiners"])
        ]
