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
from quicksilver.experiments.gauges import Timeline, strongest_wave, variation
from quicksilver.experiments.scenario import Run, Scenario, run_scenario

CV_MAX = 0.05
"""A rate whose seconds vary by more than this oscillates."""


WAVE_MAX = 0.05
"""So does one with a single wave of more than this part of the mean."""


class Overload(Experiment):
    """Figure 4.61. Receivers are slow; capacity is what one sender, pulled, delivers."""

    name = "overload"
    figures = "4.61"
    title = "offered load beyond capacity"
    varies = "offered load, as a part of what receivers can take"
    claims = {
        "4.61": "In a group of 110 nodes the combined rate oscillates with a period of 30 s when "
        "the offered load exceeds the capacity of receivers",
    }
    sweep = {"load": (0.9, 1.1, 1.5), "senders": (1, 2)}
    quick = {"load": (0.9, 1.1), "senders": (1,)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 50,
        "slowness": 20.0,
        "seconds": 64.0,
        "warmup": 2.0,
    }
    quick_settings = {"nodes": 5, "seconds": 2.0, "warmup": 0.5}
    columns = (
        Column("capacity_messages_per_second", "capacity/s"),
        Column("offered_messages_per_second", "offered/s"),
        Column("messages_per_second", "messages/s"),
        Column("variation_sent", "CV sent", "{:.4f}"),
        Column("variation_received", "CV received", "{:.4f}"),
        Column("wave_period_s", "wave, s", "{:.1f}"),
        Column("wave_amplitude", "its amplitude", "{:.4f}"),
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
        probe = replace(
            scenario, senders=1, rate=0.0, warmup_s=1.0, seconds=min(2.0, scenario.seconds)
        )
        capacity = float(run_scenario(probe, quiet)["messages_per_second"])
        offered = capacity * float(point.parameters["load"])

        def finish(run: Run, timeline: Timeline) -> Metrics:
            end = scenario.warmup_s + scenario.seconds
            sent = timeline.rates("sent_messages", scenario.warmup_s, end)
            got = timeline.rates("received_messages_min", scenario.warmup_s, end)
            period_s, wave = strongest_wave(
                timeline.rates("received_messages_min", scenario.warmup_s, end, timeline.step_s),
                timeline.step_s,
            )
            return {
                "wave_period_s": period_s,
                "wave_amplitude": wave,
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
        for senders in sorted({row["senders"] for row in rows}):
            some = choose(rows, senders=senders)
            calm = mean_of(choose(some, load=0.9), "variation_received")
            for load in sorted({row["load"] for row in some if row["load"] > 1}):
                found += _judge(choose(some, load=load), load, senders, calm)
        return found


def _judge(rows: Sequence[Row], load: float, senders: int, calm: float | None) -> list[Finding]:
    cv = mean_of(rows, "variation_received")
    rate = mean_of(rows, "messages_per_second")
    capacity = mean_of(rows, "capacity_messages_per_second")
    if cv is None or rate is None or not capacity:
        return []
    beside = f" (at 90 %: {calm:.4f})" if calm is not None else ""
    return [
        Finding(
            f"no oscillation at {100 * load:.0f} % offered load, {senders} sender(s): "
            "variation of the seconds' throughput",
            f"{cv:.4f}{beside}, {100 * rate / capacity:.0f} % of capacity delivered",
            cv <= CV_MAX,
        ),
        *_waves(rows, load, senders),
    ]


def _waves(rows: Sequence[Row], load: float, senders: int) -> list[Finding]:
    """The strongest wave of each run: an oscillation would be one that stands out."""
    return [
        Finding(
            f"strongest wave at {100 * load:.0f} % offered load, {senders} sender(s)",
            f"period {row['wave_period_s']:.1f} s, amplitude {100 * row['wave_amplitude']:.2f} %",
            row["wave_amplitude"] <= WAVE_MAX,
        )
        for row in rows
        if row.get("wave_amplitude") is not None
    ]
