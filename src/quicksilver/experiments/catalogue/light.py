"""A system that is not saturated: processor, latency, late alarms, pending messages."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.real import RealRun, run_real
from quicksilver.experiments.scenario import run_scenario


class Light(Experiment):
    """Figures 4.19 and 4.39 to 4.42."""

    name = "light"
    figures = "4.19, 4.39–4.42"
    title = "light load"
    varies = "messages per second"
    places = ("sim", "real")
    claims = {
        "4.19": "Receivers' load grows linearly with the rate, the sender's more than linearly",
        "4.39": "Memory of receivers is nearly flat, because caching is shared; the sender's "
        "grows with unacknowledged data",
        "4.40": "Tokens come at a fixed rate, so unacknowledged messages grow with the rate; near "
        "the sender's limit the token's round-trip rises sharply, and they grow faster",
        "4.41": "Latency falls with the rate up to 6,000 packets/s and then grows",
        "4.42": "From 7,000 to 8,000/s alarms are late by 3 instead of 1.5 ms at receivers, 45 "
        "instead of 7 ms at the sender",
    }
    sweep = {"rate": (1_000.0, 2_000.0, 4_000.0, 6_000.0, 7_000.0, 8_000.0)}
    quick = {"rate": (1_000.0, 4_000.0)}
    settings = {**SETTINGS, "machine": "papers", "nodes": 20, "seconds": 2.0, "warmup": 0.5}
    quick_settings = {"nodes": 3, "seconds": 0.3, "warmup": 0.2}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("sender_cpu_percent", "sender CPU %", "{:.1f}"),
        Column("receiver_cpu_percent", "receiver CPU %", "{:.1f}"),
        Column("latency_ms_p50", "p50, ms", "{:.3f}"),
        Column("latency_ms_p99", "p99, ms", "{:.3f}"),
        Column("pending_messages_mean", "pending", "{:.1f}"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("sender_alarm_delay_ms_mean", "alarm s., ms", "{:.3f}"),
        Column("receiver_alarm_delay_ms_mean", "alarm r., ms", "{:.3f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        if point.place == "real":
            given = point.parameters
            return run_real(
                RealRun(
                    nodes=int(given["nodes"]),
                    senders=int(given["senders"]),
                    size=int(given["size"]),
                    rate=float(given["rate"]),
                    seconds=float(given["seconds"]),
                ),
                context,
            )
        return run_scenario(make_scenario(point, context, with_latency=True), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        ordered = sorted(rows, key=lambda row: row["rate"])
        if len(ordered) < 2:
            return []
        low, high = ordered[0], ordered[-1]
        times = high["rate"] / low["rate"]
        return [
            Finding(
                f"{times:.0f} times the rate: processor of receivers, of the sender",
                f"× {high['receiver_cpu_percent'] / max(1e-9, low['receiver_cpu_percent']):.1f}, "
                f"× {high['sender_cpu_percent'] / max(1e-9, low['sender_cpu_percent']):.1f}",
            )
        ]
