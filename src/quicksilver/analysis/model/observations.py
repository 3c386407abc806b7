"""What the model is fitted to: one run each, in SI units, out of experiments' points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quicksilver.analysis.errors import BadInputError
from quicksilver.experiments.store import POINTS, PointStore

USED = frozenset({"scale", "light", "tokenrate", "agree"})
"""Experiments of an undisturbed group; the model knows no other."""

SATURATED = 0.95
"""From this load on a sender counts as saturated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One run; None is what it did not measure."""

    origin: str
    """Experiment and point, or run of a trace."""
    setting: str
    """What it ran on: a simulated machine, real processes, a trace."""
    nodes: int
    offered: float | None = None
    """Messages a second that were asked for; 0: as many as go. None: unknown."""
    message_bytes: float = 1000.0
    ring_size: int = 5
    rate: float | None = None  # µ
    memory: float | None = None  # ms
    pending: float | None = None  # ps
    ack_s: float | None = None  # ΔA
    latency_s: float | None = None  # ΔL
    token_interval_s: float | None = None  # ΔT
    round_trip_s: float | None = None  # ΔR
    load: float | None = None  # θs

    @property
    def is_saturated(self) -> bool:
        return self.load is not None and self.load >= SATURATED


def read_points(folder: Path, remark: Callable[[str], None] = lambda _: None) -> list[Observation]:
    """Return what a folder of an experiment offers; raises BadInputError if it is empty."""
    rows = [point.row() for point in PointStore(folder).finished()]
    if not rows:
        raise BadInputError(f"{folder / POINTS} has no finished point; run the experiment again")
    name = str(rows[-1]["experiment"])
    if name not in USED:
        remark(
            f"{folder}: {name} is not used, the model is of one undisturbed sender; "
            f"it takes {', '.join(sorted(USED))}"
        )
        return []
    alone = [row for row in rows if row.get("senders", 1) == 1 and row.get("groups", 1) == 1]
    if len(alone) < len(rows):
        remark(f"{folder}: {len(rows) - len(alone)} points are not of one sender and one group")
    return [observe(row) for row in alone]


def observe(row: Mapping[str, Any]) -> Observation:
    """Return a finished point as an observation."""

    def get(name: str, scale: float = 1.0) -> float | None:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return scale * value

    is_simulated = row["place"] == "sim"
    senders = row.get("senders", 1)
    rate = get("sent_messages_per_second") or get("messages_per_second")
    rated = row.get("messages_per_second")
    # At full rate a window's worth may have been sent in a short run and not arrived:
    # what arrives is what is sustained.
    if isinstance(rated, int | float) and row["place"] == "sim":
        rate = float(rated)
    # A timed acknowledgement; real processes know it by Little's law only, which would
    # make Equation 4.3 true by definition.
    ack_s = get("ack_ms_mean", 1e-3)
    return Observation(
        origin=f"{row['experiment']}: {row['point']}",
        setting=str(row.get("machine", "simulated")) if is_simulated else "real processes",
        nodes=int(row["nodes"]),
        offered=get("rate") if "rate" in row else 0.0,
        message_bytes=get("size") or 1000.0,
        ring_size=int(get("partition_size") or 5),
        rate=rate / senders if rate else None,
        memory=get("sender_memory_bytes_mean") if is_simulated else get("sender_rss_bytes_mean"),
        pending=get("pending_messages_mean"),
        ack_s=ack_s or None,
        latency_s=get("packet_ms_mean", 1e-3),
        token_interval_s=get("token_interval_ms", 1e-3),
        round_trip_s=get("token_rtt_ms", 1e-3) or None,
        load=get("sender_cpu_percent", 1e-2),
    )


def check_alike(observations: Sequence[Observation]) -> None:
    """One fit is of one machine and one size of messages; raises BadInputError."""
    settings = sorted({o.setting for o in observations})
    if len(settings) > 1:
        raise BadInputError(
            f"runs on different machines ({', '.join(settings)}) have different parameters; "
            "fit them one by one"
        )
    sizes = sorted({o.message_bytes for o in observations})
    if settings != ["traces"] and len(sizes) > 1:
        raise BadInputError(
            f"runs with messages of {', '.join(f'{s:g}' for s in sizes)} bytes; the model is of "
            "one size, fit them one by one"
        )


def full_rate(observations: Sequence[Observation]) -> list[Observation]:
    """Return the runs that sent as fast as they could."""
    return [o for o in observations if o.offered == 0 or (o.offered is None and o.is_saturated)]
