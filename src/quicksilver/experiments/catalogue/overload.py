"""More offered than receivers can take: does the rate oscillate?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from quicksilver.experiments.scenario import Run, Scenario, run_scenario

CV_MAX = 0.05
"""A rate whose seconds vary by more than this oscillates."""


class Overload(Experiment):
    """Figure 4.61. Receivers are slow; capacity is what a pulled run delivers."""

    name = "overload"
    figures = "4.61"
    title = "offered load beyond capacity"
    varies = "offered load, as a part of what receivers can take"
    claim = (
        "In a group of 110 nodes the combined rate oscillates with a period of 30 s when the "
        "offered load exceeds the capacity of receivers."
    )
    sweep = {"load": (0.9, 1.0, 1.1, 1.5)}
    quick = {"load": (0.9, 1.1)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 50,
        "senders": 2,
        "slowness": 20.0,
        "seconds": 10.0,
        "warmup": 1.0,
    }
    quick_settings = {"nodes": 5, "seconds": 2.0, "warmup": 0.5}
    columns = (
        Column("capacity_messages_per_second", "capacity/s"),
        Column("offered_messages_per_second", "offered/s"),
        Column("messages_per_second", "messages/s"),
        Column("variation_sent", "CV sent", "{:.4f}"),
        Column("variation_received", "CV received", "{:.4f}"),
        Column("receiver_cpu_percent", "receiver CPU %"),
        Column("lost_packets", "lost"),
        Column("kernel_drops", "drops"),
        Column("pending_messages_mean", "pending"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        def slow_down(run: Run) -> None:
            for node in run.receivers:
                node.host.set_slowness(float(point.parameters["slowness"]))

        scenario = make_scenario(point, context, disturb=slow_down)
        quiet = Context(seed=context.seed, model=context.model)
        probe = replace(scenario, rate=0.0, warmup_s=1.0, seconds=min(2.0, scenario.seconds))
        capacity = float(run_scenario(probe, quiet)["messages_per_second"])
        offered = capacity * float(point.parameters["load"])

        def finish(run: Run, timeline: Timeline) -> Metrics:
            end = scenario.warmup_s + scenario.seconds
            sent = timeline.rates("sent_messages", scenario.warmup_s, end)
            got = timeline.rates("received_messages_min", scenario.warmup_s, end)
            return {
                "capacity_messages_per_second": capacity,
                "offered_messages_per_second": offered,
                "variation_sent": variation(sent),
                "variation_received": variation(got),
                "received_per_second": [round(rate) for rate in got],
            }

        loaded: Scenario = replace(scenario, rate=offered, finish=finish)
        return run_scenario(loaded, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        calm = mean_of(choose(rows, load=0.9), "variation_received")
        for load in sorted({row["load"] for row in rows if row["load"] > 1}):
            some = choose(rows, load=load)
            cv = mean_of(some, "variation_received")
            rate, capacity = (
                mean_of(some, "messages_per_second"),
                mean_of(some, "capacity_messages_per_second"),
            )
            if cv is None or rate is None or not capacity:
                continue
            beside = f" (at 90 %: {calm:.4f})" if calm is not None else ""
            found.append(
                Finding(
                    f"no oscillation at {100 * load:.0f} % offered load: "
                    "variation of the seconds' throughput",
                    f"{cv:.4f}{beside}, {100 * rate / capacity:.0f} % of capacity delivered",
                    cv <= CV_MAX,
                )
            )
        return found
