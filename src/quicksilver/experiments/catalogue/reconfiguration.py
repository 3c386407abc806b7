"""The view changes in full traffic: a crash, many joins at once, nodes that come and go."""

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
from quicksilver.experiments.gauges import Timeline, mean, variation
from quicksilver.experiments.scenario import Run, run_scenario
from quicksilver.trials.node import SimNode


class Crash(Experiment):
    """Figure 4.63. ``silent``: the connection to the GMS stays up, as if the cable was cut."""

    name = "crash"
    figures = "4.63"
    title = "crash and reconfiguration"
    varies = "nodes; how the crash is noticed"
    claims = {
        "4.63": "After a crash the rate of sending, receiving and acknowledging dips while the "
        "system reconfigures, over some ten seconds, and then recovers",
    }
    sweep = {"nodes": (20, 100), "silent": (False, True)}
    quick = {"nodes": (6,), "silent": (False,)}
    settings = {**SETTINGS, "machine": "gigabit", "warmup": 1.0, "seconds": 6.0}
    quick_settings = {"warmup": 0.5, "seconds": 2.0}
    columns = (
        Column("before_messages_per_second", "before/s"),
        Column("lowest_messages_per_second", "lowest/s"),
        Column("after_messages_per_second", "after/s"),
        Column("slow_s", "slow, s", "{:.2f}"),
        Column("lost_packets", "lost"),
        Column("resent_packets", "resent"),
        Column("roll_calls", "roll calls"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        is_silent = bool(point.parameters["silent"])

        def disturb(run: Run) -> None:
            node = run.receivers[len(run.receivers) // 2]
            run.disturbed = [node]

            def die() -> None:
                if is_silent:
                    run.cluster.network.set_island(node.index, 1)
                else:
                    node.crash()

            run.at(run.scenario.warmup_s, die)

        def finish(run: Run, timeline: Timeline) -> Metrics:
            return judge_dip(run, timeline)

        scenario = make_scenario(point, context, disturb=disturb, finish=finish, timeline_s=0.05)
        return run_scenario(scenario, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        return [
            Finding(
                f"{row['nodes']} nodes, {'silent' if row['silent'] else 'noticed'}: "
                "the rest goes on as before",
                f"{100 * row['after_messages_per_second'] / row['before_messages_per_second']:.1f} "
                f"% of the rate, after {row['slow_s']:.2f} s",
                row["after_messages_per_second"] >= 0.95 * row["before_messages_per_second"],
            )
            for row in rows
            if row["before_messages_per_second"]
        ]


def judge_dip(run: Run, timeline: Timeline) -> Metrics:
    """Rates before, at the lowest and in the last quarter; how long it was below 90 %."""
    start = run.scenario.warmup_s
    end = start + run.scenario.seconds
    step = timeline.step_s
    name = "received_messages_min"
    usual = mean(timeline.rates(name, start / 2, start, step))
    rates = timeline.rates(name, start, end, step)
    return {
        "before_messages_per_second": usual,
        "lowest_messages_per_second": min(rates, default=0.0),
        "after_messages_per_second": mean(rates[3 * len(rates) // 4 :]),
        "slow_s": sum(step for rate in rates if rate < 0.9 * usual),
    }


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


class Churn(Experiment):
    """Further members join and leave at a rate; those that stay are measured."""

    name = "churn"
    figures = "section 4.3.7"
    title = "churn"
    varies = "joins and leaves per second"
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
