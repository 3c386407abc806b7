"""How many receivers keep each packet for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.scenario import run_scenario


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
