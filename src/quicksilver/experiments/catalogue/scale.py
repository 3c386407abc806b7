"""Throughput, acknowledgement, tokens, pending messages and memory against the size."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

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
from quicksilver.experiments.scenario import run_scenario

LINK_PERCENT_MIN = 95
LINK_PERCENT_MIN_LARGE = 90
"""What several senders are to carry together, up to 50 nodes and beyond."""

FAIRNESS_MIN = 0.9


class Scale(Experiment):
    """Figures 4.18 and 4.20 to 4.24."""

    name = "scale"
    figures = "4.18, 4.20–4.24"
    title = "size of the group"
    varies = "nodes, senders"
    claims = {
        "4.18": "From 2 to 200 nodes throughput falls by about 5 %",
        "4.23": "The sender's memory grows by some 10 MB, and pending messages linearly with the "
        "time to acknowledge",
        "4.24": "The time to acknowledge grows linearly, from 0.6 to about 1.1 s at 200 nodes, "
        "and the token's round-trip from 0.2 to 0.8 s; deeper rings would make it logarithmic",
    }
    sweep = {"nodes": (2, 10, 50, 100, 200), "senders": (1, 2, 8)}
    quick = {"nodes": (2, 10), "senders": (1,)}
    settings = {**SETTINGS, "seconds": 1.0, "warmup": 0.3}
    quick_settings = {"seconds": 0.2, "warmup": 0.1}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("link_percent", "of the link, %", "{:.1f}"),
        Column("fairness", "least/largest sender", "{:.2f}"),
        Column("ack_ms_mean", "ack, ms", "{:.2f}"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("token_levels", "levels"),
        Column("pending_messages_mean", "pending"),
        Column("sender_memory_bytes_mean", "sender, MB", "{:.2f}", 1e-6),
        Column("sender_cpu_percent", "sender CPU %"),
        Column("receiver_cpu_percent", "receiver CPU %"),
        Column("lost_packets", "lost"),
        Column("switch_drops", "switch drops"),
        Column("node_seconds_per_second", "node s/s", "{:.1f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        return run_scenario(make_scenario(point, context), context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found: list[Finding] = []
        for senders in sorted({row["senders"] for row in rows}):
            some = choose(rows, senders=senders)
            found += _throughput(some, senders) + _growth(some, senders)
            if senders > 1:
                found += _sharing(choose(some, rate=0.0), senders)
        return found


def _throughput(rows: Sequence[Row], senders: int) -> list[Finding]:
    sizes = sorted({row["nodes"] for row in rows})
    if len(sizes) < 2:
        return []
    last = max((n for n in sizes if n <= 200), default=sizes[-1])
    small = mean_of(choose(rows, nodes=sizes[0]), "messages_per_second")
    large = mean_of(choose(rows, nodes=last), "messages_per_second")
    if not small or large is None:
        return []
    return [
        Finding(
            f"throughput at {last} nodes ≥ 97 % of that at {sizes[0]}, "
            f"{senders} sender{'s' if senders > 1 else ''} (papers: 95 %)",
            f"{100 * large / small:.1f} %",
            large >= 0.97 * small if last >= 200 else None,
        )
    ]


def _sharing(rows: Sequence[Row], senders: int) -> list[Finding]:
    """Several senders together fill the link, and share it evenly."""
    found = []
    for nodes in sorted({row["nodes"] for row in rows}):
        some = choose(rows, nodes=nodes)
        link = mean_of(some, "link_percent")
        fairness = mean_of(some, "fairness")
        if link is None or fairness is None:
            continue
        goal = LINK_PERCENT_MIN if nodes <= 50 else LINK_PERCENT_MIN_LARGE
        found.append(
            Finding(
                f"{senders} senders at full rate, {nodes} nodes: ≥ {goal} % of the link, the "
                "slowest within a tenth of the fastest",
                f"{link:.1f} %, {fairness:.2f}",
                link >= goal and fairness >= FAIRNESS_MIN,
            )
        )
    return found


def _growth(rows: Sequence[Row], senders: int) -> list[Finding]:
    """Compare growth with log n and with n: from one size to one ten times as large."""
    sizes = sorted({row["nodes"] for row in rows if row["nodes"] >= 10})
    if len(sizes) < 2:
        return []
    first, last = sizes[0], sizes[-1]
    found = []
    for name, title in (("token_rtt_ms", "token round-trip"), ("ack_ms_mean", "time to ack")):
        a = mean_of(choose(rows, nodes=first), name)
        b = mean_of(choose(rows, nodes=last), name)
        if a and b:
            by_log = log(last) / log(first)
            found.append(
                Finding(
                    f"{title} from {first} to {last} nodes, {senders} sender(s): "
                    f"× {by_log:.1f} would be logarithmic, × {last / first:.0f} linear",
                    f"× {b / a:.1f} ({a:.2f} to {b:.2f} ms)",
                    b / a <= 2 * by_log if last >= 10 * first else None,
                )
            )
    return found
