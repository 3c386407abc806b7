"""Loss by chance at every node, of data and control alike: what it costs, and who stalls."""

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
    median_of,
)
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.gauges import StallWatcher, Timeline
from quicksilver.experiments.scenario import Run, run_scenario

STEPS = 20
"""Parts of a run whose rates are compared: how unstable it is."""

FLUSH_S_MAX = 60.0
"""How long it is waited for that all is acknowledged in the end."""

SHARE_WANTED = {0.01: 0.8, 0.05: 0.5}
"""What part of the lossless rate is to be left with a part of the datagrams lost."""

VARIATION_WANTED = {0.01: 0.2}
"""How much the rates of a run's twentieths may vary at most."""

STALL_S_WANTED = {0.2: 0.5, 0.5: 2.0}
"""How long nobody may wait for the next message with a part of the datagrams lost."""


class Rain(Experiment):
    """Every receiver loses a part of all datagrams, each by itself, at full rate."""

    name = "rain"
    figures = "–"
    title = "every receiver loses datagrams, each by itself"
    varies = "nodes, part of the datagrams lost; one seed per round"
    claims = {
        "–": "The papers lose packets at one receiver only; here the sender shall keep 80 % of "
        "its rate with 1 % lost at each of 100 receivers, and 50 % with 5 %"
    }
    sweep = {"nodes": (10, 100), "loss": (0.0, 0.01, 0.05)}
    quick = {"nodes": (10,), "loss": (0.0, 0.01)}
    settings = {**SETTINGS, "machine": "gigabit", "seconds": 2.0, "warmup": 0.5}
    quick_settings = {"seconds": 0.5, "warmup": 0.2}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("variation_received", "CV", "{:.3f}"),
        Column("repair_bytes_share", "repairs", "{:.3f}"),
        Column("control_bytes_share", "control", "{:.4f}"),
        Column("lost_packets", "lost"),
        Column("duplicate_packets", "twice"),
        Column("resent_packets", "resent"),
        Column("roll_calls", "roll calls"),
        Column("repair_ms_mean", "repair, ms", "{:.1f}"),
        Column("ack_ms_mean", "ack, ms", "{:.1f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        loss = float(point.parameters["loss"])

        def disturb(run: Run) -> None:
            for node in run.receivers:
                node.host.weather.drop_rate = loss

        step_s = float(point.parameters["seconds"]) / STEPS
        scenario = make_scenario(point, context, disturb=disturb, timeline_s=step_s)
        return run_scenario(scenario, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for nodes in sorted({row["nodes"] for row in rows}):
            dry = median_of(choose(rows, nodes=nodes, loss=0.0), "messages_per_second")
            for loss in sorted({row["loss"] for row in rows} - {0.0}):
                wet = choose(rows, nodes=nodes, loss=loss)
                if not dry or not wet:
                    continue
                worst = min(row["messages_per_second"] for row in wet) / dry
                unsteady = max(row.get("variation_received") or 0.0 for row in wet)
                wanted = SHARE_WANTED.get(loss)
                found.append(
                    Finding(
                        f"{100 * loss:g} % lost at each of {nodes}: "
                        "of the lossless rate, and variation, in the worst seed",
                        f"{100 * worst:.1f} %, {unsteady:.3f}",
                        None
                        if wanted is None
                        else worst >= wanted and unsteady <= VARIATION_WANTED.get(loss, unsteady),
                    )
                )
        return found


class HeavyLoss(Experiment):
    """Much is lost at a light load: how long does anybody wait for the next message?"""

    name = "heavy-loss"
    figures = "–"
    title = "much is lost at a light load"
    varies = "part of the datagrams lost, at whom: one, the leader of all rings, or everybody"
    claims = {
        "–": "Nothing in the papers; nobody shall wait longer than 0.5 s with 20 % of all "
        "datagrams lost, and 2 s with 50 %"
    }
    sweep = {"loss": (0.2, 0.5), "losers": ("one", "leader", "all")}
    quick = {"loss": (0.2,), "losers": ("all",)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "nodes": 10,
        "rate": 100.0,
        "warmup": 1.0,
        "seconds": 20.0,
    }
    quick_settings = {"seconds": 3.0}
    columns = (
        Column("longest_stall_s", "longest stall, s", "{:.2f}"),
        Column("longest_stall_s_losers", "of losers, s", "{:.2f}"),
        Column("flush_s", "flush, s", "{:.2f}"),
        Column("messages_per_second", "messages/s"),
        Column("repair_bytes_share", "repairs", "{:.2f}"),
        Column("control_bytes_share", "control", "{:.2f}"),
        Column("roll_calls", "roll calls"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        loss = float(point.parameters["loss"])
        watchers: list[StallWatcher] = []

        def disturb(run: Run) -> None:
            losers = {
                "one": [run.receivers[len(run.receivers) // 2]],
                "leader": [run.receivers[0]],
                "all": [*run.receivers, *run.senders],
            }[str(point.parameters["losers"])]
            for node in losers:
                node.host.weather.drop_rate = loss
            run.disturbed = [] if len(losers) > 1 else losers
            watchers.append(StallWatcher(run.cluster, run.receivers))
            run.cluster.watchers.append(watchers[0])

        def finish(run: Run, timeline: Timeline) -> Metrics:
            (watcher,) = watchers
            others = [node for node in run.receivers if node not in run.disturbed]
            return {
                "longest_stall_s": watcher.longest_s(others),
                "longest_stall_s_losers": watcher.longest_s(run.disturbed or run.receivers),
                "flush_s": flush_s(run),
            }

        scenario = make_scenario(point, context, disturb=disturb, finish=finish)
        return run_scenario(scenario, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for loss in sorted({row["loss"] for row in rows}):
            wet = choose(rows, loss=loss)
            worst = max(max(r["longest_stall_s"], r["longest_stall_s_losers"]) for r in wet)
            wanted = STALL_S_WANTED.get(loss)
            found.append(
                Finding(
                    f"{100 * loss:g} % lost: the longest that anybody waited",
                    f"{worst:.2f} s",
                    None if wanted is None else worst <= wanted,
                )
            )
        return found


def flush_s(run: Run) -> float | None:
    """Return how long it takes until all that was sent is acknowledged; None: too long."""
    done: list[float] = []
    began = run.cluster.now
    for application in run.applications:
        application.stop()
    run.senders[0].flush(lambda: done.append(run.cluster.now - began))
    run.cluster.run(FLUSH_S_MAX, lambda: bool(done))
    return done[0] if done else None
