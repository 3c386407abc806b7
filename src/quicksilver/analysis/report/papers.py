"""The figures of the papers that experiments' points can show.

What the papers say of each is said by its experiment (``Experiment.claims``).
"""

from __future__ import annotations

from typing import Any

from quicksilver.analysis.figures import Bars, Distribution, Figure
from quicksilver.experiments.stalls import FAULTS

AXES = {
    "changes": "joins and leaves per second",
    "groups": "groups",
    "load": "offered load / capacity",
    "nodes": "nodes",
    "rate": "messages/s",
    "replicas": "replicas of a packet",
    "token_bytes": "bytes of data per token",
}
"""What the parameters on x axes are called."""

RATE: dict[str, Any] = {
    "y": "messages_per_second",
    "y_label": "thousand messages/s",
    "scale": 1e-3,
}
PENDING: dict[str, Any] = {"y": "pending_messages_mean", "y_label": "messages pending"}
LOG: dict[str, Any] = {"is_log": True}


def _figure(name: str, paper: str, title: str, x: str, **values: Any) -> Figure:
    """Return a figure; its name begins with that of its experiment."""
    return Figure(
        name=name,
        experiment=name.split("-", maxsplit=1)[0],
        paper=paper,
        title=title,
        x=x,
        x_label=AXES[x],
        **values,
    )


SIZES = (
    _figure(
        "scale-throughput",
        "4.18",
        "Throughput against the size of the group",
        "nodes",
        **RATE,
        **LOG,
    ),
    _figure(
        "scale-memory",
        "4.23",
        "Memory of the sender",
        "nodes",
        y="sender_memory_bytes_mean",
        y_label="packets held, MB",
        scale=1e-6,
        **LOG,
    ),
    _figure(
        "scale-token", "4.24", "Token round-trip", "nodes", y="token_rtt_ms", y_label="ms", **LOG
    ),
    _figure(
        "scale-ack", "4.24", "Time to acknowledge", "nodes", y="ack_ms_mean", y_label="ms", **LOG
    ),
    _figure("scale-pending", "4.23", "Messages pending acknowledgement", "nodes", **PENDING, **LOG),
    _figure(
        "tokens-size",
        "–",
        "Length of a token",
        "nodes",
        y="token_bytes_mean",
        y_label="bytes",
        **LOG,
    ),
    _figure(
        "scopes-managers",
        "–",
        "What the busiest manager says while 1 % of the nodes change a second",
        "nodes",
        y="busiest_kb_per_second",
        y_label="kB/s",
        **LOG,
    ),
    _figure(
        "scopes-latency",
        "–",
        "A tree of scopes: time until a message is known to be everywhere",
        "nodes",
        y="stable_ms",
        y_label="ms",
        **LOG,
    ),
    _figure(
        "tokenrate-pending",
        "4.25",
        "Rate of tokens: unacknowledged data",
        "token_bytes",
        **PENDING,
        **LOG,
    ),
    _figure("feedback-throughput", "4.26", "O(n) feedback: throughput", "nodes", **RATE),
    _figure("feedback-pending", "4.27", "O(n) feedback: unacknowledged data", "nodes", **PENDING),
    _figure(
        "feedback-variation",
        "4.28",
        "O(n) feedback: how unstable throughput is",
        "nodes",
        y="variation_received",
        y_label="variation of throughput, %",
        scale=100.0,
    ),
    _figure(
        "replication-throughput",
        "4.30",
        "Replicas in the cache: throughput",
        "replicas",
        **RATE,
        **LOG,
    ),
    _figure(
        "replication-memory",
        "4.29",
        "Replicas in the cache: memory of receivers",
        "replicas",
        y="receiver_memory_bytes_mean",
        y_label="packets held, MB",
        scale=1e-6,
        **LOG,
    ),
    _figure(
        "overload-variation",
        "4.61",
        "Variation of the rate under overload",
        "load",
        y="variation_received",
        y_label="coefficient of variation",
    ),
    _figure("churn-throughput", "section 4.3.7", "Throughput against churn", "changes", **RATE),
    _figure(
        "members-views",
        "section 4.2.1",
        "Time until crashes are out of the views",
        "nodes",
        y="crash_view_s",
        y_label="s",
        **LOG,
    ),
    _figure("agree-throughput", "–", "Simulation against reality", "nodes", **RATE),
    # The rest is quicksilver's code run by the interpreter, which a profiler cannot part.
    _figure(
        "agree-shares",
        "4.20, 4.21",
        "Where the sender's processor time goes",
        "nodes",
        y="sender_kernel_percent",
        label="kernel",
        more=(("sender_collector_percent", "cyclic collector"),),
        y_label="% of its processor time",
    ),
)
"""The size of the group and what the protocol is set to (4.3.1, 4.3.2)."""


def _perturbed(experiment: str, what: str) -> tuple[Figure, ...]:
    return (
        _figure(f"{experiment}-throughput", "4.31", f"One receiver {what}", "nodes", **RATE, **LOG),
        _figure(
            f"{experiment}-lost",
            "4.32",
            "Packets lost by the perturbed receiver",
            "nodes",
            y="disturbed_loss_percent",
            y_label="% of packets",
            **LOG,
        ),
        _figure(
            f"{experiment}-memory",
            "4.33",
            "Memory of the perturbed receiver",
            "nodes",
            y="disturbed_memory_bytes_mean",
            label="the perturbed one",
            more=(("receiver_memory_bytes_mean", "the others"),),
            y_label="packets held, MB",
            scale=1e-6,
            **LOG,
        ),
        _figure(
            f"{experiment}-pending",
            "4.34",
            "Messages that wait for acknowledgement",
            "nodes",
            **PENDING,
            **LOG,
        ),
        _figure(
            f"{experiment}-recovery",
            "4.35, 4.36",
            f"Tokens and repairs while one {what}",
            "nodes",
            y="token_rtt_ms",
            label="token",
            more=(("repair_ms_mean", "repair"), ("ack_ms_mean", "acknowledgement")),
            y_label="ms",
            **LOG,
        ),
    )


PERTURBED = (
    *_perturbed("sleep", "sleeps 0.5 s every 5 s"),
    *_perturbed("loss", "loses all packets for 10 ms every second"),
)
"""One receiver that has trouble (4.3.3)."""

LOADS = (
    _figure(
        "light-cpu",
        "4.19",
        "Processor against rate",
        "rate",
        y="sender_cpu_percent",
        label="sender",
        more=(("receiver_cpu_percent", "receivers"),),
        y_label="processor, %",
    ),
    _figure(
        "light-latency",
        "4.41",
        "Latency against rate",
        "rate",
        y="latency_ms_p50",
        label="median",
        more=(("latency_ms_p99", "99 %"),),
        y_label="latency, ms",
    ),
    _figure("light-pending", "4.40", "Unacknowledged messages against rate", "rate", **PENDING),
    _figure(
        "light-alarms",
        "4.42",
        "Alarm delays against rate",
        "rate",
        y="sender_alarm_delay_ms_mean",
        label="sender",
        more=(("receiver_alarm_delay_ms_mean", "receivers"),),
        y_label="mean delay, ms",
    ),
    _figure(
        "light-memory",
        "4.39",
        "Memory against rate",
        "rate",
        y="sender_memory_bytes_mean",
        label="sender",
        more=(("receiver_memory_bytes_mean", "receivers"),),
        y_label="packets held, MB",
        scale=1e-6,
    ),
    _figure(
        "light-token",
        "4.40",
        "Token round-trip against rate",
        "rate",
        y="token_rtt_ms",
        y_label="ms",
    ),
    _figure(
        "groups-throughput",
        "4.46",
        "Throughput against the number of groups",
        "groups",
        **RATE,
        **LOG,
    ),
    _figure(
        "groups-token",
        "4.43",
        "Token round-trip against the number of groups",
        "groups",
        y="token_rtt_ms",
        y_label="ms",
        **LOG,
    ),
    _figure(
        "groups-pending",
        "4.43",
        "Unacknowledged messages against the number of groups",
        "groups",
        **PENDING,
        **LOG,
    ),
    _figure(
        "groups-memory",
        "4.44",
        "Memory against the number of groups",
        "groups",
        y="sender_rss_bytes",
        label="sender after the run",
        more=(
            ("sender_rss_empty_bytes", "sender, nothing sent"),
            ("receiver_rss_bytes", "receivers"),
        ),
        y_label="resident, MB",
        scale=1e-6,
        **LOG,
    ),
    _figure(
        "groups-collector",
        "4.45",
        "Where the sender's processor time goes, against the number of groups",
        "groups",
        y="sender_collector_percent",
        label="cyclic collector",
        more=(("sender_kernel_percent", "kernel"),),
        y_label="% of its processor time",
        **LOG,
    ),
    _figure(
        "groups-ack",
        "4.47",
        "Time to acknowledge against the number of groups",
        "groups",
        y="ack_ms_mean",
        label="timed",
        more=(("ack_ms_little", "by Little's law"),),
        y_label="ms",
        **LOG,
    ),
    _figure(
        "groups-slowest",
        "4.49",
        "The slowest tenth of the tokens against the number of groups",
        "groups",
        y="token_rtt_ms_slowest_tenth",
        y_label="their mean round-trip, ms",
        **LOG,
    ),
)
"""Rates, groups and memory of the runtime (4.3.4, 4.3.5)."""

FIGURES = (*SIZES, *PERTURBED, *LOADS)

DISTRIBUTIONS = (
    *(
        Distribution(
            name=f"{experiment}-alarms-{role}s",
            experiment=experiment,
            paper=paper,
            title=f"Latest alarm of each second, {role}s",
            bins=f"{role}_alarm_bins",
            by="perturbed",
            x_label="ms",
        )
        for experiment in ("sleep", "loss")
        for role, paper in (("receiver", "4.37"), ("sender", "4.38"))
    ),
    Distribution(
        name="groups-tokens",
        experiment="groups",
        paper="4.48",
        title="Token round-trips, cumulative",
        bins="token_rtt_bins",
        by="groups",
        x_label="ms",
        is_cumulative=True,
    ),
)

BARS = (
    Bars(
        name="memory-allocating",
        experiment="memory",
        paper="4.22",
        title="What making payloads costs the sender",
        by="variant",
        kinds=("base", "made-anew", "pulled", "pulled-anew", "gc-default", "gc-disabled"),
        y="sender_cpu_us_per_message",
        y_label="processor, µs per message",
    ),
    Bars(
        name="stalls-longest",
        experiment="stalls",
        paper="–",
        title="Longest stall of those to whom nothing happened, at full rate",
        by="fault",
        kinds=FAULTS,
        y="stall_s",
        y_label="s",
        group="edition",
        floor=1e-4,
    ),
)
