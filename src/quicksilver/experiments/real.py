"""One run with real processes of this machine: a GMS, senders and receivers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quicksilver.experiments.base import Context, Metrics
from quicksilver.experiments.processes import Child, Family
from quicksilver.stdx.bins import add_counts

WORKER = ("-m", "quicksilver.experiments.worker")


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """What to run."""

    nodes: int
    """Receivers."""
    senders: int = 1
    groups: int = 1
    size: int = 1000
    rate: float = 0.0
    """Messages a second of all senders together, stamped; 0: as fast as they can."""
    seconds: float = 2.0
    sender: Mapping[str, Any] = field(default_factory=dict)
    """Settings of senders: see ``worker``."""
    receiver: Mapping[str, Any] = field(default_factory=dict)
    first_receiver: Mapping[str, Any] = field(default_factory=dict)
    """Settings that only the first receiver has, such as faults."""
    gms: tuple[str, ...] = ()
    """Further arguments of the GMS."""


def run_real(run: RealRun, context: Context) -> Metrics:
    """Run it and return what was measured."""
    with Family() as family:
        argv = ("-m", "quicksilver.cli.main", "gms", "--host", "127.0.0.1", "--port", "0", "--json")
        address = family.start("GMS", (*argv, *run.gms)).read()["address"]
        common: dict[str, Any] = {
            "gms": address,
            "groups": run.groups,
            "size": run.size,
            "seconds": run.seconds,
            "stamped": bool(run.rate),
        }

        def start(role: str, place: int, settings: Mapping[str, Any]) -> Child:
            mine = common | dict(settings)
            if context.traces is not None:
                mine["trace"] = str(context.traces)
                mine["trace_writer"] = f"{role}-{place}"
                mine["trace_records_max"] = context.trace_records_max // (run.nodes + run.senders)
            return family.start(f"{role} {place}", (*WORKER, role, json.dumps(mine)))

        receivers = [
            start("receiver", place, {**run.receiver, **(run.first_receiver if not place else {})})
            for place in range(run.nodes)
        ]
        for receiver in receivers:
            receiver.read()
        senders = [
            start("sender", place, {**run.sender, "rate": run.rate / run.senders})
            for place in range(run.senders)
        ]
        for sender in senders:
            sender.read()
        began, busy = time.monotonic(), machine_busy_s()
        for child in (*receivers, *senders):
            child.write(go=True)
        sent = [sender.read() for sender in senders]
        total = sum(one["sent"] for one in sent)
        for receiver in receivers:
            receiver.write(sent=total)
        got = [receiver.read() for receiver in receivers]
        took, busy = time.monotonic() - began, machine_busy_s() - busy
        for child in (*receivers, *senders):
            child.write(done=True)
    metrics = summarise(run, sent, got)
    ours = sum(one["cpu_s"] for one in (*sent, *got))
    metrics["others_cpu_percent"] = 100 * max(0.0, busy - ours) / took
    return metrics


def machine_busy_s() -> float:
    """Return the processor time that all processes of this machine have used."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft_irq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")


def summarise(run: RealRun, sent: list[dict[str, Any]], got: list[dict[str, Any]]) -> Metrics:
    """Turn what the processes said into metrics."""
    total = sum(one["sent"] for one in sent)
    rates = [one["count"] / max(1e-9, one["last"] - one["first"]) for one in got]
    rounds: dict[str, list[float]] = {}
    for one in (*sent, *got):
        for level, (count, mean_s) in one["rounds"].items():
            known = rounds.setdefault(level, [0.0, 0.0])
            known[0] += count
            known[1] += count * mean_s
    by_level = [1e3 * rounds[level][1] / rounds[level][0] for level in sorted(rounds)]
    pending = sum(one["pending_bytes_mean"] for one in sent) / len(sent)
    rate = min(rates)
    metrics: Metrics = {
        "messages_per_second": rate,
        "messages_per_second_max": max(rates),
        "sent_messages_per_second": total / max(one["seconds"] for one in sent),
        "bytes_per_second": rate * run.size,
        "undelivered_messages": sum(total - one["count"] for one in got),
        "token_rtt_ms": sum(by_level),
        "token_rtt_ms_by_level": by_level,
        "token_levels": len(by_level),
        "ack_ms_little": 1e3 * pending / max(1e-9, rate * run.size),
        "pending_bytes_mean": pending,
        "pending_messages_mean": pending / run.size,
        "sender_cpu_percent": 100 * max(one["cpu_s"] / one["seconds"] for one in sent),
        "receiver_cpu_percent": 100 * max(one["cpu_s"] / one["wall_s"] for one in got),
        "sender_cpu_us_per_message": 1e6 * sum(one["cpu_s"] for one in sent) / max(1, total),
        "receiver_cpu_us_per_message": 1e6
        * max(one["cpu_s"] / max(1, one["count"]) for one in got),
        "receiver_switches_per_message": max(one["switches"] / max(1, one["count"]) for one in got),
        "sender_rss_bytes": max(one["rss_bytes"] for one in sent),
        "sender_rss_max_bytes": max(one["rss_max_bytes"] for one in sent),
        "sender_rss_empty_bytes": max(one["rss_empty_bytes"] for one in sent),
        "receiver_rss_bytes": max(one["rss_bytes"] for one in got),
        "sender_collections": sum(sum(one["collections"]) for one in sent),
        "lost_packets": sum(one["missing"] for one in got),
        "repaired_packets": sum(one["repairs"] for one in got),
        "kernel_drops": sum(one["kernel_drops"] for one in got),
        "cores": os.cpu_count() or 0,
        "sender_alarm_bins": add_counts(one["alarm_bins"] for one in sent),
        "receiver_alarm_bins": add_counts(one["alarm_bins"] for one in got),
        **shares("sender", sent),
        **shares("receiver", got),
        **distribution_of_rounds([*sent, *got]),
    }
    held = [sample for one in sent for sample in one["memory_bytes"]]
    if held:
        metrics["sender_rss_bytes_mean"] = sum(held) / len(held)
    if run.rate:
        worst = max(got, key=lambda one: one["latency"].get("latency_ms_p99", 0.0))
        metrics |= worst["latency"]
        metrics["recovery_ms"] = got[0]["recovery_ms"]
        metrics["recoveries"] = got[0]["losses"]
    return metrics


def shares(role: str, reports: list[dict[str, Any]]) -> Metrics:
    """Return where the processor time went: to the kernel, to the cyclic collector."""
    used = max(1e-9, sum(one["cpu_s"] for one in reports))
    return {
        f"{role}_kernel_percent": 100 * sum(one["kernel_s"] for one in reports) / used,
        f"{role}_collector_percent": 100 * sum(one["collector_s"] for one in reports) / used,
    }


def distribution_of_rounds(reports: list[dict[str, Any]]) -> Metrics:
    """Return how long tokens of the highest ring took, in bins, and the slowest tenth."""
    top = max((level for one in reports for level in one["round_bins"]), default=None)
    if top is None:
        return {}
    slowest = [s for one in reports for s in one["slowest_rounds_s"].get(top, ())]
    return {
        "token_rtt_bins": add_counts(one["round_bins"].get(top, ()) for one in reports),
        "token_rtt_ms_slowest_tenth": 1e3 * sum(slowest) / len(slowest),
    }
