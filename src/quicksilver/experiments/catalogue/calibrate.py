"""What packets, bytes, messages and tokens cost on this machine, with real sockets."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.calibration import calibrate, machine_from
from quicksilver.experiments.machines import save_machine

MACHINE_FILE = "machine.json"


class Calibrate(Experiment):
    """Costs by whole processes, and by parts alone; writes a machine for ``--model``."""

    name = "calibrate"
    figures = "4.50–4.57 (parameters)"
    title = "costs on this machine"
    varies = "nothing; several rounds tell the noise"
    places = ("real",)
    claims = {
        "4.10": "A message costs the sender 110 µs when saturated, of which memory is a part",
        "4.5": "A receiver delays a token by 3.4 ms and the sender by 191 ms",
    }
    sweep = {"form": ("processes",)}
    quick = {"form": ("processes",)}
    settings = {"seconds": 2.0, "rounds_each": 3}
    quick_settings = {"seconds": 0.4, "rounds_each": 1}
    columns = (
        Column("send_message_us", "send: message µs", "{:.3f}"),
        Column("send_packet_us", "packet µs", "{:.2f}"),
        Column("send_byte_ns", "byte ns", "{:.4f}"),
        Column("send_copy_us", "a receiver µs", "{:.2f}"),
        Column("deliver_message_us", "receive: message µs", "{:.3f}"),
        Column("receive_packet_us", "packet µs", "{:.2f}"),
        Column("receive_byte_ns", "byte ns", "{:.4f}"),
        Column("token_us", "token µs", "{:.1f}"),
        Column("wake_us", "wake µs", "{:.0f}"),
        Column("cold_us", "cold, an other µs", "{:.0f}"),
        Column("cold_us_max", "at most µs", "{:.0f}"),
        Column("latency_us", "latency µs", "{:.0f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        metrics = calibrate(
            seconds=float(point.parameters["seconds"]),
            rounds=int(point.parameters["rounds_each"]),
            context=context,
        )
        if context.folder is not None:
            save_machine(context.folder / MACHINE_FILE, machine_from(metrics))
        return metrics

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        return [
            Finding(
                "engine alone, in one process: receive a packet of 59 messages",
                f"{row['engine_receive_packet_us']:.1f} µs",
            )
            for row in rows[:1]
        ]
