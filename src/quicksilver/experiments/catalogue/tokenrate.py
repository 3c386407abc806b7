"""How often tokens circulate: cleaning up sooner against work for tokens."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.scenario import run_scenario


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
