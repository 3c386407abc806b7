"""More feedback to the sender: acknowledgements and tokens with more ranges."""

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
from quicksilver.experiments.scenario import Run, run_scenario
from quicksilver.wire.control import RANGES_MAX

STEPS = 20
"""Parts of a run whose rates are compared: how unstable it is."""


class Feedback(Experiment):
    """Figures 4.26 to 4.28: a single number, our 24 ranges, as many as there are nodes."""

    name = "feedback"
    figures = "4.26–4.28"
    title = "O(n) feedback"
    varies = "ranges in tokens and acknowledgements (0: as many as nodes), nodes"
    claims = {
        "4.26": "With as many ranges as nodes throughput falls, because tokens cost more",
        "4.27": "With ranges proportional to the number of nodes unacknowledged data falls by 30 %",
        "4.28": "Throughput becomes unstable: receivers must deliver in order, and the window no "
        "longer says what they hold",
    }
    sweep = {"ranges": (1, 24, 0), "nodes": (10, 50, 100)}
    quick = {"ranges": (1, 24), "nodes": (5,)}
    settings = {
        **SETTINGS,
        "machine": "gigabit",
        "loss": 0.01,
        "seconds": 2.0,
        "warmup": 0.5,
    }
    quick_settings = {"seconds": 0.3, "warmup": 0.2}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("pending_messages_mean", "pending"),
        Column("ack_ms_mean", "ack, ms", "{:.2f}"),
        Column("token_bytes_mean", "token, B"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("receiver_memory_bytes_mean", "receiver, MB", "{:.2f}", 1e-6),
        Column("variation_received", "CV", "{:.3f}"),
        Column("lost_packets", "lost"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        loss = float(point.parameters["loss"])

        def disturb(run: Run) -> None:
            for node in run.receivers:
                node.host.weather.drop_rate = loss

        ranges = int(point.parameters["ranges"]) or int(point.parameters["nodes"])
        step_s = float(point.parameters["seconds"]) / STEPS
        scenario = make_scenario(point, context, disturb=disturb, timeline_s=step_s)
        told = {"ranges_told_max": min(ranges, RANGES_MAX)}
        return run_scenario(replace(scenario, config={**scenario.config, **told}), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for nodes in sorted({row["nodes"] for row in rows}):
            one = choose(rows, nodes=nodes, ranges=1)
            for ranges, title in ((24, "24 ranges"), (0, f"{nodes} ranges")):
                many = choose(rows, nodes=nodes, ranges=ranges)
                a, b = mean_of(one, "pending_bytes_mean"), mean_of(many, "pending_bytes_mean")
                c, d = mean_of(one, "messages_per_second"), mean_of(many, "messages_per_second")
                if a and b and c and d:
                    found.append(
                        Finding(
                            f"{title} against 1, {nodes} nodes: pending data, throughput",
                            f"{100 * (b / a - 1):+.0f} %, {100 * (d / c - 1):+.1f} %",
                        )
                    )
        return found
