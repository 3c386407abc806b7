"""``quicksilver bench latency`` and ``idle``: what waiting and doing nothing cost."""

from __future__ import annotations

import json
from typing import Any

from quicksilver.cli.bench.throughput import PROCESS, Plan, measure_ours, start_gms
from quicksilver.experiments.processes import Family

LOW_RATE = 1000.0


def measure_latency(
    *, receivers: int, size: int, seconds: float, interface: str, rates: tuple[float, ...] = ()
) -> list[dict[str, Any]]:
    """Return one-way percentiles at low load and at half of what can be reached."""
    if not rates:
        plan = Plan(
            receivers=receivers, size=size, seconds=2, interface=interface, with_ceiling=False
        )
        rates = (LOW_RATE, measure_ours(plan)["messages_per_second"] / 2)
    return [
        _measure(receivers=receivers, size=size, seconds=seconds, interface=interface, rate=rate)
        for rate in rates
    ]


def _measure(
    *, receivers: int, size: int, seconds: float, interface: str, rate: float
) -> dict[str, Any]:
    with Family() as family:
        settings = {
            "gms": start_gms(family),
            "interface": interface,
            "packet_bytes": None,
            "size": size,
            "seconds": seconds,
            "rate": rate,
        }
        takers = [
            family.start(f"receiver {i}", (*PROCESS, "latency-receiver", json.dumps(settings)))
            for i in range(receivers)
        ]
        for taker in takers:
            taker.read()
        sender = family.start("sender", (*PROCESS, "latency-sender", json.dumps(settings)))
        sender.read()
        sender.write(go=True)
        sent = sender.read()
        for taker in takers:
            taker.write(sent=sent["sent"])
        got = [taker.read() for taker in takers]
        sender.write(done=True)
    report: dict[str, Any] = {
        "rate": round(rate),
        "reached": round(sent["sent"] / sent["seconds"]),
        "receivers": receivers,
        "size": size,
        "lost": sum(g["lost"] for g in got),
    }
    for name in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us"):
        report[name] = round(max(g[name] for g in got), 1)
    return report


def measure_idle(*, nodes: int, seconds: float, interface: str) -> dict[str, Any]:
    """Return the part of a core that a node of a silent cluster uses."""
    with Family() as family:
        settings = {
            "gms": start_gms(family),
            "interface": interface,
            "packet_bytes": None,
            "seconds": seconds,
        }
        children = [
            family.start(f"node {i}", (*PROCESS, "idle", json.dumps(settings)))
            for i in range(nodes)
        ]
        for child in children:
            child.read()
        for child in children:
            child.write(go=True)
        used = [child.read() for child in children]
    return {
        "nodes": nodes,
        "seconds": seconds,
        "cpu_percent_per_node": round(max(u["cpu_s"] for u in used) / seconds * 100, 3),
        "rss_bytes": max(u["rss_bytes"] for u in used),
    }
