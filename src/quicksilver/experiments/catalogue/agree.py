"""The same small configuration simulated and real: do they agree?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    Finding,
    Metrics,
    Place,
    Point,
    Row,
    Value,
    choose,
    median_of,
)
from quicksilver.experiments.calibration import local_machine
from quicksilver.experiments.machines import load_machine
from quicksilver.experiments.real import RealRun, run_real
from quicksilver.experiments.scenario import Run, Scenario, run_scenario

WITHIN = 0.25

COMPARED = (
    ("messages_per_second", "throughput"),
    ("token_rtt_ms", "token round-trip, loaded"),
    ("light_token_rtt_ms", "token round-trip, light load"),
    ("recovery_ms", "recovery of a loss"),
)


class Agree(Experiment):
    """All processes share this machine's cores, and so do the simulated hosts."""

    name = "agree"
    figures = "–"
    title = "simulation against reality"
    varies = "nodes; where it runs (medians of --rounds)"
    places = ("sim", "real")
    claims = {
        "–": "None in the papers: our own condition for believing the simulator is that it and "
        "reality agree within 25 %",
        "4.20, 4.21": "From 2 to 200 nodes time in the runtime grows, allocation by 10 %, "
        "collection by 15 %, while throughput falls by 5 %",
    }
    sweep = {"nodes": (2, 4, 8, 12)}
    quick = {"nodes": (2,)}
    settings = {
        "size": 1000,
        "seconds": 2.0,
        "light_rate": 1000.0,
        "light_seconds": 6.0,
        "loss_percent": 1.0,
        "cores": 0,
    }
    quick_settings = {"seconds": 0.4, "light_seconds": 1.0}
    columns = (
        Column("messages_per_second", "messages/s"),
        Column("token_rtt_ms", "token, ms", "{:.2f}"),
        Column("light_token_rtt_ms", "token light, ms", "{:.2f}"),
        Column("light_latency_ms_p50", "p50 light, ms", "{:.2f}"),
        Column("recovery_ms", "recovery, ms", "{:.1f}"),
        Column("recoveries", "losses"),
        Column("pending_bytes_mean", "pending, MB", "{:.2f}", 1e-6),
        Column("sender_cpu_percent", "sender CPU %"),
        Column("receiver_cpu_percent", "receiver CPU %"),
        Column("others_cpu_percent", "others CPU %"),
    )

    def points(
        self,
        *,
        axes: Mapping[str, Sequence[Value]],
        settings: Mapping[str, Value],
        place: Place | None,
        rounds: int,
        seed: int,
    ) -> Iterator[Point]:
        for each in self.places if place is None else (place,):
            yield from super().points(
                axes=axes, settings=settings, place=each, rounds=rounds, seed=seed
            )

    def run(self, point: Point, context: Context) -> Metrics:
        loaded, light = (
            (_run_real(point, context, is_light=is_light) for is_light in (False, True))
            if point.place == "real"
            else (_run_simulated(point, context, is_light=is_light) for is_light in (False, True))
        )
        return loaded | {
            "light_token_rtt_ms": light["token_rtt_ms"],
            "light_latency_ms_p50": light["latency_ms_p50"],
            "light_latency_ms_p99": light["latency_ms_p99"],
            "light_sender_cpu_percent": light["sender_cpu_percent"],
            "light_receiver_cpu_percent": light["receiver_cpu_percent"],
            "recovery_ms": light["recovery_ms"],
            "recoveries": light["recoveries"],
        }

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        for nodes in sorted({row["nodes"] for row in rows}):
            for name, title in COMPARED:
                ours = median_of(choose(rows, nodes=nodes, place="sim"), name)
                real = median_of(choose(rows, nodes=nodes, place="real"), name)
                if ours is not None and real:
                    found.append(
                        Finding(
                            f"{title}, {nodes} nodes: simulated against real",
                            f"{ours:,.2f} against {real:,.2f}: {100 * (ours / real - 1):+.0f} %",
                            abs(ours / real - 1) <= WITHIN,
                        )
                    )
        return found


def _run_real(point: Point, context: Context, *, is_light: bool) -> Metrics:
    given = point.parameters
    faults = f"loss={given['loss_percent']}%,kinds=data"
    return run_real(
        RealRun(
            nodes=int(given["nodes"]),
            size=int(given["size"]),
            seconds=float(given["light_seconds" if is_light else "seconds"]),
            rate=float(given["light_rate"]) if is_light else 0.0,
            first_receiver={"faults": faults} if is_light else {},
        ),
        context,
    )


def _run_simulated(point: Point, context: Context, *, is_light: bool) -> Metrics:
    given = point.parameters
    nodes = int(given["nodes"])
    machine = local_machine(load_machine(context.model) if context.model else None, nodes)
    loss = float(given["loss_percent"]) / 100

    def disturb(run: Run) -> None:
        if is_light:
            run.receivers[0].host.weather.drop_rate = loss
            run.receivers[0].host.weather.spares_control = True

    changes: dict[str, Any] = {
        "rate": float(given["light_rate"]) if is_light else 0.0,
        "seconds": float(given["light_seconds" if is_light else "seconds"]),
        "with_latency": is_light,
        "disturb": disturb,
    }
    scenario = Scenario(
        machine=machine,
        nodes=nodes,
        size=int(given["size"]),
        warmup_s=0.3,
        cores=int(given["cores"]) or os.cpu_count() or 1,
    )
    return run_scenario(replace(scenario, **changes), context)
