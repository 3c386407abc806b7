"""What memory costs in this runtime: the papers' central claim, put to CPython."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    ExperimentError,
    Finding,
    Metrics,
    Point,
    Row,
    mean_of,
)
from quicksilver.experiments.real import RealRun, run_real

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "base": {},
    "pulled": {"mode": "pull"},
    "made-anew": {"preallocated": False},
    "pulled-anew": {"mode": "pull", "preallocated": False},
    "no-buffer": {"engine": {"queue_bytes_max": 64 << 10}},
    "large-buffer": {"engine": {"queue_bytes_max": 256 << 20}},
    "small-window": {"engine": {"window_bytes_max": 1 << 20}},
    "gc-default": {"collector": "default"},
    "gc-frozen": {"collector": "frozen"},
    "gc-disabled": {"collector": "disabled"},
    "held-100": {"held_mb": 100},
    "held-500": {"held_mb": 500},
    "held-500-gc-default": {"held_mb": 500, "collector": "default"},
    "held-500-gc-disabled": {"held_mb": 500, "collector": "disabled"},
    "receiver-keeps": {},
    "replicas-1": {},
    "replicas-2": {},
}
"""What differs from the base; ``held`` is at sender and receivers alike."""

BOTH = frozenset({"collector", "held_mb"})
"""Settings that receivers share with the sender."""


class Memory(Experiment):
    """Sections 4.3.1 and 4.3.2, as far as they are about the runtime and not the size."""

    name = "memory"
    figures = "4.20–4.23, 4.29, 4.30 (claim)"
    title = "memory of the runtime"
    varies = "buffering, replicas, collector, pull against push, memory held"
    places = ("real",)
    claims = {
        "4.20–4.23": "Overheads of memory management limit performance everywhere: 10 MB more at "
        "the sender raise them by 10 to 15 % and lower throughput by 5 %; the costs grow linearly "
        "with the memory in use, not only those of collecting it",
        "4.22": "The bulk of the overhead is allocating byte arrays in the application; 12 to 14 "
        "% of the time is copying memory",
    }
    sweep = {"variant": tuple(VARIANTS), "rate": (0.0, 20_000.0)}
    quick = {"variant": ("base", "pulled"), "rate": (0.0,)}
    settings = {"nodes": 2, "size": 1000, "seconds": 2.0}
    quick_settings = {"seconds": 0.5, "nodes": 1}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("sender_cpu_us_per_message", "sender µs", "{:.2f}"),
        Column("receiver_cpu_us_per_message", "receiver µs", "{:.2f}"),
        Column("latency_ms_p50", "p50, ms", "{:.2f}"),
        Column("latency_ms_p99", "p99, ms", "{:.2f}"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("sender_rss_max_bytes", "sender, MB", "{:.0f}", 1e-6),
        Column("receiver_rss_bytes", "receiver, MB", "{:.0f}", 1e-6),
        Column("sender_collections", "collections"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        given = point.parameters
        variant = str(given["variant"])
        if variant not in VARIANTS:
            known = ", ".join(VARIANTS)
            raise ExperimentError(f"memory has no variant {variant[:40]!r}; there are {known}")
        changes = dict(VARIANTS[variant])
        receiver = {key: value for key, value in changes.items() if key in BOTH}
        gms: tuple[str, ...] = ()
        if variant == "receiver-keeps":
            receiver["keeps"] = 100_000
        if variant.startswith("replicas-"):
            gms = ("--replication", variant.removeprefix("replicas-"))
        return run_real(
            RealRun(
                nodes=int(given["nodes"]),
                size=int(given["size"]),
                rate=float(given["rate"]),
                seconds=float(given["seconds"]),
                sender=changes,
                receiver=receiver,
                gms=gms,
            ),
            context,
        )

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        base = mean_of(
            [r for r in rows if r["variant"] == "base" and not r["rate"]], "messages_per_second"
        )
        if not base:
            return []
        for variant in VARIANTS:
            some = [r for r in rows if r["variant"] == variant and not r["rate"]]
            rate = mean_of(some, "messages_per_second")
            if rate is not None and variant != "base":
                found.append(
                    Finding(
                        f"throughput of {variant} against base", f"{100 * (rate / base - 1):+.0f} %"
                    )
                )
        return found
