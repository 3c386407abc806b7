"""A receiver crashes: the view changes, and traffic goes on."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.gauges import Timeline, mean
from quicksilver.experiments.scenario import Run, run_scenario


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
