"""A receiver stands still for ten seconds: who goes on, and does it catch up?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    Finding,
    Metrics,
    Point,
    Row,
)
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.gauges import Timeline, delivered_by, mean
from quicksilver.experiments.scenario import Run, run_scenario


class Freeze(Experiment):
    """Figure 4.62: undetected, as there, and with the failure detector's usual timeout."""

    name = "freeze"
    figures = "4.62"
    title = "one receiver freezes"
    varies = "whether the failure detector gives the frozen node up; messages per second"
    claims = {
        "4.62": "A receiver sleeps for 10 s undetected, 80 MB behind: recovery runs at a steady, "
        "limited rate, multicast is suppressed until the node starts to catch up, and the system "
        "stabilises",
    }
    sweep = {"failure_timeout": (20.0, 3.0), "rate": (0.0, 1000.0)}
    quick = {"failure_timeout": (20.0, 1.2), "rate": (0.0,)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 20,
        "warmup": 2.0,
        "seconds": 20.0,
        "freeze": 10.0,
    }
    quick_settings = {"nodes": 5, "warmup": 0.5, "seconds": 5.0, "freeze": 2.0}
    columns = (
        Column("before_messages_per_second", "before/s"),
        Column("during_messages_per_second", "during/s"),
        Column("after_messages_per_second", "after/s"),
        Column("stalled_s", "stalled, s", "{:.2f}"),
        Column("caught_up_s", "caught up, s", "{:.2f}"),
        Column("disturbed_exclusions", "excluded"),
        Column("lost_packets", "lost"),
        Column("repaired_packets", "repaired"),
        Column("resent_packets", "resent"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        freeze_s = float(point.parameters["freeze"])

        def disturb(run: Run) -> None:
            node = run.receivers[len(run.receivers) // 2]
            run.disturbed = [node]
            run.at(run.scenario.warmup_s, lambda: node.freeze(freeze_s))

        def finish(run: Run, timeline: Timeline) -> Metrics:
            return judge_freeze(run, timeline, freeze_s)

        scenario = make_scenario(point, context, disturb=disturb, finish=finish)
        return run_scenario(scenario, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for row in rows:
            kind = "excluded" if row["disturbed_exclusions"] else "kept"
            kind += f", {row['rate']:,.0f}/s" if row["rate"] else ", full rate"
            part = row["after_messages_per_second"] / max(1.0, row["before_messages_per_second"])
            during = row["during_messages_per_second"] / max(1.0, row["before_messages_per_second"])
            found.append(
                Finding(
                    f"frozen node {kind}: the rest afterwards, against before "
                    f"(during the freeze: {100 * during:.0f} %)",
                    f"{100 * part:.1f} %",
                    part >= 0.95,
                )
            )
            caught = row["caught_up_s"]
            found.append(
                Finding(
                    f"frozen node {kind}: it catches up",
                    f"{caught:.2f} s after it woke" if caught is not None else "not in the run",
                    caught is not None,
                )
            )
        return found


def judge_freeze(run: Run, timeline: Timeline, freeze_s: float) -> Metrics:
    """Rates of the others before, during and after, and when the frozen node was even."""
    start = run.scenario.warmup_s
    woke, end = start + freeze_s, start + run.scenario.seconds
    step = timeline.step_s
    name = "received_messages_min"
    before = timeline.rates(name, start / 2, start, step)
    during = timeline.rates(name, start, woke, step)
    after = timeline.rates(name, woke, end, step)
    usual = mean(before)
    stalled = sum(step for rate in timeline.rates(name, start, end, step) if rate < 0.1 * usual)
    caught_up = None
    for row in timeline.rows:
        behind = row["received_messages_max"] - row["received_messages_disturbed"][0]
        if row["at_s"] >= woke and behind <= usual * step and not run.disturbed[0].exclusions:
            caught_up = row["at_s"] - woke
            break
    if run.disturbed[0].exclusions:
        caught_up = _back_after(run, timeline, woke, usual)
    settled = after[len(after) // 2 :]
    return {
        "before_messages_per_second": usual,
        "during_messages_per_second": mean(during),
        "after_messages_per_second": mean(settled),
        "stalled_s": stalled,
        "caught_up_s": caught_up,
        "frozen_messages": delivered_by(run.disturbed[0]),
    }


def _back_after(run: Run, timeline: Timeline, woke: float, usual: float) -> float | None:
    """An excluded node comes back as a new one: even when it receives at the others' rate."""
    rows = timeline.rows
    for a, b in pairwise(rows):
        gained = b["received_messages_disturbed"][0] - a["received_messages_disturbed"][0]
        if a["at_s"] >= woke and gained >= 0.5 * usual * timeline.step_s:
            return float(b["at_s"] - woke)
    return None
