"""Settings of the protocol, varied one at a time: tokens, feedback, copies.

How often tokens circulate (cleaning up sooner against work for tokens), how many ranges
acknowledgements and tokens carry, and how many receivers keep each packet for others.
"""

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


class TokenRate(Experiment):
    """Figure 4.25. Our tokens follow bytes, so what varies is bytes a token."""

    name = "tokenrate"
    figures = "4.25"
    title = "rate of tokens"
    varies = "bytes of data after which a token is released"
    claims = {
        "4.25": "From 1 to 5 tokens a second unacknowledged data falls by 30 % and throughput "
        "gains less than 1 %; beyond 1.25 a second several tokens are under way and do redundant "
        "work",
    }
    sweep = {"token_bytes": (256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)}
    quick = {"token_bytes": (1 << 20, 2 << 20)}
    settings = {**SETTINGS, "nodes": 50, "seconds": 0.5, "warmup": 0.2}
    quick_settings = {"nodes": 5, "seconds": 0.2, "warmup": 0.1}
    columns = (
        Column("tokens_per_second", "token hops/s"),
        Column("messages_per_second", "messages/s"),
        Column("pending_messages_mean", "pending"),
        Column("ack_ms_mean", "ack, ms", "{:.2f}"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("sender_memory_bytes_mean", "sender, MB", "{:.2f}", 1e-6),
        Column("receiver_cpu_percent", "receiver CPU %"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        return run_scenario(make_scenario(point, context), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        ordered = sorted(rows, key=lambda row: row["tokens_per_second"])
        if len(ordered) < 2:
            return []
        slow, fast = ordered[0], ordered[-1]
        times = fast["tokens_per_second"] / max(1e-9, slow["tokens_per_second"])
        pending = fast["pending_bytes_mean"] / max(1.0, slow["pending_bytes_mean"]) - 1
        speed = fast["messages_per_second"] / max(1.0, slow["messages_per_second"]) - 1
        return [
            Finding(
                f"{times:.1f} times as many tokens: pending data, throughput "
                "(papers: 5 times, −30 %, < +1 %)",
                f"{100 * pending:+.0f} %, {100 * speed:+.1f} %",
            )
        ]


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


class Replication(Experiment):
    """Figures 4.29 and 4.30. A packet's replicas are one partition, so rings grow with them."""

    name = "replication"
    figures = "4.29–4.30"
    title = "caching replicas of a packet"
    varies = "replicas"
    claims = {
        "4.29": "In a region of 192 nodes memory of receivers grows linearly with the replicas",
        "4.30": "With half of the nodes caching each packet the token takes three times as long, "
        "and throughput falls sharply although receivers' processors are half idle",
    }
    sweep = {"replicas": (1, 2, 5, 10, 24, 48, 96)}
    quick = {"replicas": (1, 5)}
    settings = {**SETTINGS, "machine": "papers", "nodes": 96, "seconds": 0.5, "warmup": 0.5}
    quick_settings = {"nodes": 10, "seconds": 0.3, "warmup": 0.2}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("receiver_memory_bytes_mean", "receiver, MB", "{:.3f}", 1e-6),
        Column("receiver_cpu_percent", "receiver CPU %"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("ack_ms_mean", "ack, ms", "{:.2f}"),
        Column("pending_messages_mean", "pending"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        replicas = int(point.parameters["replicas"])
        scenario = make_scenario(point, context)
        settings = dict(scenario.settings) | {"replication": replicas}
        if replicas > int(settings.get("partition_size", 5)):
            settings["partition_size"] = replicas
        return run_scenario(replace(scenario, settings=settings), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        known = {row["replicas"]: row for row in rows}
        if 5 not in known or max(known) <= 5:
            return []
        few, many = known[5], known[max(known)]

        def times(name: str) -> float:
            return float(many[name] / max(1e-12, few[name]))

        return [
            Finding(
                f"{max(known)} replicas against 5: receivers' memory, token, throughput "
                "(papers, half the nodes: linear, × 3, sharply lower)",
                f"× {times('receiver_memory_bytes_mean'):.1f}, × {times('token_rtt_ms'):.1f}, "
                f"× {times('messages_per_second'):.3f}",
            )
        ]
