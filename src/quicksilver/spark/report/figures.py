"""Which figures of the papers an experiment's points can show, and their values.

Every figure is one metric against one axis of the sweep, a line for each value of
another. Points that were run several times become a mean with a 95 % interval
(Student's t); of one run there is a value and no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from quicksilver.spark.report.intervals import half_width

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing: what is on its axes, and what the papers say of it."""

    name: str
    experiment: str
    paper: str
    """Number of the figure in the dissertation."""
    title: str
    x: str
    y: str
    x_label: str
    y_label: str
    claim: str
    scale: float = 1.0
    is_log: bool = False
    """The x axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Value:
    """One mark: where, how much, how sure, out of how many runs."""

    x: float
    y: float
    half_width: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Line:
    """Marks that belong together."""

    label: str
    values: tuple[Value, ...]


def _scale(
    name: str, paper: str, title: str, y: str, label: str, claim: str, s: float = 1.0
) -> Figure:
    return Figure(
        name=name,
        experiment="scale",
        paper=paper,
        title=title,
        x="nodes",
        y=y,
        x_label="nodes",
        y_label=label,
        claim=claim,
        scale=s,
        is_log=True,
    )


FIGURES: tuple[Figure, ...] = (
    _scale(
        "scale-throughput",
        "4.18",
        "Throughput against the size of the group",
        "messages_per_second",
        "thousand messages/s",
        "From 2 to 200 nodes throughput falls by about 5 %.",
        1e-3,
    ),
    _scale(
        "scale-memory",
        "4.23",
        "Memory of the sender",
        "sender_memory_bytes_mean",
        "packets held, MB",
        "The sender's memory grows by some 10 MB from 2 to 200 nodes.",
        1e-6,
    ),
    _scale(
        "scale-token",
        "4.24",
        "Token round-trip",
        "token_rtt_ms",
        "ms",
        "The token's round-trip grows linearly, from 0.2 to 0.8 s at 200 nodes.",
    ),
    _scale(
        "scale-ack",
        "4.24",
        "Time to acknowledge",
        "ack_ms_mean",
        "ms",
        "The time to acknowledge grows linearly, from 0.6 to about 1.1 s at 200 nodes.",
    ),
    _scale(
        "scale-pending",
        "4.23",
        "Messages pending acknowledgement",
        "pending_messages_mean",
        "messages",
        "Pending messages grow linearly with the time to acknowledge.",
    ),
    Figure(
        name="tokenrate-pending",
        experiment="tokenrate",
        paper="4.25",
        title="Rate of tokens: unacknowledged data",
        x="token_bytes",
        y="pending_messages_mean",
        x_label="bytes of data a token",
        y_label="messages pending",
        claim="From 1 to 5 tokens a second unacknowledged data falls by 30 %; throughput gains "
        "less than 1 %.",
        is_log=True,
    ),
    Figure(
        name="feedback-throughput",
        experiment="feedback",
        paper="4.26",
        title="O(n) feedback: throughput",
        x="nodes",
        y="messages_per_second",
        x_label="nodes",
        y_label="thousand messages/s",
        claim="With as many ranges as nodes throughput falls and becomes unstable.",
        scale=1e-3,
    ),
    Figure(
        name="feedback-pending",
        experiment="feedback",
        paper="4.27",
        title="O(n) feedback: unacknowledged data",
        x="nodes",
        y="pending_messages_mean",
        x_label="nodes",
        y_label="messages pending",
        claim="With ranges proportional to the number of nodes unacknowledged data falls by 30 %.",
    ),
    Figure(
        name="replication-throughput",
        experiment="replication",
        paper="4.30",
        title="Replicas in the cache: throughput",
        x="replicas",
        y="messages_per_second",
        x_label="replicas of a packet",
        y_label="thousand messages/s",
        claim="With half of the nodes caching each packet throughput falls sharply.",
        scale=1e-3,
        is_log=True,
    ),
    Figure(
        name="replication-memory",
        experiment="replication",
        paper="4.29",
        title="Replicas in the cache: memory of receivers",
        x="replicas",
        y="receiver_memory_bytes_mean",
        x_label="replicas of a packet",
        y_label="packets held, MB",
        claim="Memory of receivers grows linearly with the number of replicas.",
        scale=1e-6,
        is_log=True,
    ),
    *(
        Figure(
            name=f"{experiment}-throughput",
            experiment=experiment,
            paper="4.31",
            title=title,
            x="nodes",
            y="messages_per_second",
            x_label="nodes",
            y_label="thousand messages/s",
            claim=claim,
            scale=1e-3,
            is_log=True,
        )
        for experiment, title, claim in (
            (
                "sleep",
                "One receiver sleeps 0.5 s every 5 s",
                "With one sleeping receiver throughput falls from about 80 nodes on.",
            ),
            (
                "loss",
                "One receiver loses all packets for 10 ms every second",
                "With bursty loss at one receiver throughput falls sharply beyond 160 nodes.",
            ),
        )
    ),
    Figure(
        name="light-cpu",
        experiment="light",
        paper="4.19",
        title="Processor against rate",
        x="rate",
        y="sender_cpu_percent",
        x_label="messages/s",
        y_label="sender's processor, %",
        claim="The sender's load grows more than linearly with the rate, receivers' linearly.",
    ),
    Figure(
        name="light-latency",
        experiment="light",
        paper="4.41",
        title="Latency against rate",
        x="rate",
        y="latency_ms_p50",
        x_label="messages/s",
        y_label="median latency, ms",
        claim="Latency falls up to 6,000 packets/s and then grows.",
    ),
    Figure(
        name="light-pending",
        experiment="light",
        paper="4.40",
        title="Unacknowledged messages against rate",
        x="rate",
        y="pending_messages_mean",
        x_label="messages/s",
        y_label="messages pending",
        claim="Unacknowledged messages grow with the rate, and faster near the sender's limit.",
    ),
    Figure(
        name="light-alarms",
        experiment="light",
        paper="4.42",
        title="Alarm delays at the sender against rate",
        x="rate",
        y="sender_alarm_delay_ms_mean",
        x_label="messages/s",
        y_label="mean delay, ms",
        claim="Alarms are late by 1.5 to 3 ms at receivers and by 7 to 45 ms at the sender near "
        "its limit.",
    ),
    Figure(
        name="groups-throughput",
        experiment="groups",
        paper="4.46",
        title="Throughput against the number of groups",
        x="groups",
        y="messages_per_second",
        x_label="groups",
        y_label="thousand messages/s",
        claim="Throughput falls with the sender's memory, by some 10 KB a group; from 4,000 groups "
        "on it becomes unstable.",
        scale=1e-3,
        is_log=True,
    ),
    Figure(
        name="groups-token",
        experiment="groups",
        paper="4.48",
        title="Token round-trip against the number of groups",
        x="groups",
        y="token_rtt_ms",
        x_label="groups",
        y_label="ms",
        claim="The token's round-trip does not change up to 3,500 groups; beyond, it becomes "
        "unstable.",
        is_log=True,
    ),
    Figure(
        name="overload-variation",
        experiment="overload",
        paper="4.61",
        title="Variation of the rate under overload",
        x="load",
        y="variation_received",
        x_label="offered load / capacity",
        y_label="coefficient of variation",
        claim="The combined rate oscillates with a period of 30 s when load exceeds capacity.",
    ),
    Figure(
        name="churn-throughput",
        experiment="churn",
        paper="section 4.3.7",
        title="Throughput against churn",
        x="changes",
        y="messages_per_second",
        x_label="joins and leaves a second",
        y_label="thousand messages/s",
        claim="A join slows the system down; it soon recovers.",
        scale=1e-3,
    ),
    Figure(
        name="members-views",
        experiment="members",
        paper="section 4.2.1",
        title="Time until crashes are out of the views",
        x="nodes",
        y="crash_view_s",
        x_label="nodes",
        y_label="s",
        claim="The GMS handles the membership of thousands of nodes.",
        is_log=True,
    ),
    Figure(
        name="agree-throughput",
        experiment="agree",
        paper="–",
        title="Simulation against reality",
        x="nodes",
        y="messages_per_second",
        x_label="nodes",
        y_label="thousand messages/s",
        claim="Our own condition: simulation and reality agree within 25 %.",
        scale=1e-3,
    ),
)

LABELLED = ("machine", "senders", "perturbed", "rate", "place", "ranges", "slowness", "nodes")
"""Parameters by which lines are told apart where they vary."""


def lines_of(figure: Figure, rows: Sequence[Row]) -> list[Line]:
    """Return a figure's lines out of finished points; none if they have nothing for it."""
    usable = [
        row
        for row in rows
        if row["experiment"] == figure.experiment
        and isinstance(row.get(figure.y), int | float)
        and isinstance(row.get(figure.x), int | float)
    ]
    varying = _varying(figure, usable)
    by_line: dict[tuple[str, ...], dict[float, list[float]]] = {}
    for row in usable:
        name = tuple(_show(key, row.get(key)) for key in varying)
        marks = by_line.setdefault(name, {})
        marks.setdefault(float(row[figure.x]), []).append(float(row[figure.y]) * figure.scale)
    return [
        Line(
            ", ".join(name) or "measured",
            tuple(Value(x, mean(ys), half_width(ys), len(ys)) for x, ys in sorted(marks.items())),
        )
        for name, marks in sorted(by_line.items())
    ]


def _varying(figure: Figure, rows: Sequence[Row]) -> list[str]:
    """Parameters other than the axis that differ between rows: they make lines."""
    fixed = {figure.x, "round", "seed", "point", "experiment"}
    return [
        key
        for key in LABELLED
        if key not in fixed and len({_show(key, row.get(key)) for row in rows}) > 1
    ]


def _show(key: str, value: object) -> str:
    match key, value:
        case "place", str():
            return {"sim": "simulated", "real": "real processes"}.get(value, value)
        case _, True:
            return str(key)
        case _, False:
            return f"not {key}"
        case "rate", 0 | 0.0:
            return "full rate"
        case _, float():
            return f"{key} {value:g}"
        case "machine", _:
            return str(value)
        case _:
            return f"{value} {key}"
