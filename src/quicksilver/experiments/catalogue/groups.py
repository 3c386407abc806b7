"""The number of groups: what the sender pays for each, and what nobody else notices."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Context, Experiment, Finding, Metrics, Point, Row
from quicksilver.experiments.catalogue.simulated import SETTINGS, make_scenario
from quicksilver.experiments.real import RealRun, run_real
from quicksilver.experiments.scenario import run_scenario


class Groups(Experiment):
    """Figures 4.43 to 4.49. Memory is the real runtime's; the simulator shows the protocol."""

    name = "groups"
    figures = "4.43–4.49"
    title = "number of groups"
    varies = "groups"
    places = ("real", "sim")
    claims = {
        "4.43": "All receivers are in all groups, one sender sends to each in turn: the token's "
        "round-trip and pending messages do not change up to about 3,500 groups",
        "4.44": "The sender's memory grows by some 10 KB a group to 100 MB and more, with peaks "
        "50 to 100 % higher",
        "4.45": "Time in the runtime (CLR: allocation, collection) grows with the number of groups",
        "4.46": "Throughput falls with the sender's memory; from 4,000 groups on it becomes "
        "unstable",
        "4.47": "From 3,500 to 4,000 groups on round-trips grow and delay cleaning up, with "
        "spikes; from 6,000 on more than linearly",
        "4.48": "With 7,000 instead of 4,000 groups the slower half of the tokens is slower: it "
        "is disruptions, not every token, that cost time",
        "4.49": "For the most delayed 10 % of tokens the delay at the sender grows with the "
        "number of groups: 50 to 90 ms a hop with many thousands, against 2 ms",
    }
    sweep = {"groups": (1, 16, 256, 1024, 2048, 4096, 8192)}
    quick = {"groups": (1, 64)}
    settings = {**SETTINGS, "nodes": 2, "seconds": 2.0, "warmup": 0.3}
    quick_settings = {"seconds": 0.5, "warmup": 0.2}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("pending_messages_mean", "pending"),
        Column("token_bytes_mean", "token, B"),
        Column("sender_rss_empty_bytes", "empty, MB", "{:.1f}", 1e-6),
        Column("sender_rss_bytes", "sender, MB", "{:.1f}", 1e-6),
        Column("receiver_rss_bytes", "receiver, MB", "{:.1f}", 1e-6),
        Column("sender_cpu_us_per_message", "sender µs", "{:.2f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        if point.place == "sim":
            return run_scenario(make_scenario(point, context), context)
        given = point.parameters
        return run_real(
            RealRun(
                nodes=int(given["nodes"]),
                groups=int(given["groups"]),
                size=int(given["size"]),
                seconds=float(given["seconds"]),
            ),
            context,
        )

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for place in sorted({row["place"] for row in rows}):
            ordered = sorted(
                (row for row in rows if row["place"] == place), key=lambda row: row["groups"]
            )
            if len(ordered) < 2:
                continue
            one, many = ordered[0], ordered[-1]
            ratio = many["messages_per_second"] / max(1.0, one["messages_per_second"])
            found.append(
                Finding(
                    f"throughput with {many['groups']:,} groups against {one['groups']} ({place})",
                    f"{100 * ratio:.0f} %",
                )
            )
            if "sender_rss_empty_bytes" in many:
                extra = many["sender_rss_empty_bytes"] - one["sender_rss_empty_bytes"]
                count = max(1, many["groups"] - one["groups"])
                found.append(
                    Finding(
                        "sender's memory for a group (papers: about 10 KB)",
                        f"{extra / count / 1e3:.2f} KB",
                    )
                )
        return found
