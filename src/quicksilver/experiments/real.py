"""One run with real processes of this machine, and its metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quicksilver.experiments.base import Context, Metrics
from quicksilver.experiments.gauges import latency_metrics
from quicksilver.lab.instruments import Observed, Usage
from quicksilver.lab.load import Receiver, ReceiverResult, Sender, SenderResult
from quicksilver.lab.load_run import LoadRun, run_load
from quicksilver.stdx.bins import add_counts


@dataclass(frozen=True, kw_only=True)
class RealRun:
    """Parameters of one run with real processes."""

    nodes: int
    """Receivers."""
    senders: int = 1
    groups: int = 1
    size: int = 1000
    rate: float = 0.0
    """Messages a second of all senders together, stamped; 0: as fast as they can."""
    seconds: float = 2.0
    sender: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``lab.load.Sender`` that differ from their defaults."""
    receiver: Mapping[str, Any] = field(default_factory=dict)
    first_receiver: Mapping[str, Any] = field(default_factory=dict)
    """Settings that only the first receiver has, such as faults."""
    gms: tuple[str, ...] = ()
    """Further arguments of the GMS."""


def run_real(run: RealRun, context: Context) -> Metrics:
    """Run the processes and return what was measured."""
    common: dict[str, Any] = {"interface": "lo", "groups": run.groups, "is_observed": True}
    if context.traces is not None:
        common["trace"] = str(context.traces)
        common["trace_records_max"] = context.trace_records_max // (run.nodes + run.senders)
    found = run_load(
        LoadRun(
            sender=Sender(
                **common, size=run.size, seconds=run.seconds, rate=run.rate, **run.sender
            ),
            receiver=Receiver(**common, is_stamped=bool(run.rate), **run.receiver),
            receivers=run.nodes,
            senders=run.senders,
            first_receiver=run.first_receiver,
            gms=run.gms,
        )
    )
    metrics = summarise(run, found.sent, found.got)
    ours = sum(one.usage.cpu_s for one in found.sent) + sum(one.usage.cpu_s for one in found.got)
    metrics["others_cpu_percent"] = 100 * max(0.0, found.busy_s - ours) / found.seconds
    return metrics


def summarise(run: RealRun, sent: Sequence[SenderResult], got: Sequence[ReceiverResult]) -> Metrics:
    """Turn what the processes said into metrics."""
    total = sum(sum(one.sent) for one in sent)
    rates = [one.count / max(1e-9, one.last_at - one.first_at) for one in got]
    observed = [*(one.observed for one in sent), *(one.observed for one in got)]
    rounds: dict[int, list[float]] = {}
    for each in observed:
        for level, (count, mean_s) in each.rounds.items():
            known = rounds.setdefault(level, [0.0, 0.0])
            known[0] += count
            known[1] += count * mean_s
    by_level = [1e3 * rounds[level][1] / rounds[level][0] for level in sorted(rounds)]
    pending = sum(one.observed.pending_bytes_mean for one in sent) / len(sent)
    rate = min(rates)
    metrics: Metrics = {
        "messages_per_second": rate,
        "messages_per_second_max": max(rates),
        "sent_messages_per_second": total / max(one.seconds for one in sent),
        "bytes_per_second": rate * run.size,
        "undelivered_messages": sum(one.lost for one in got),
        "token_rtt_ms": sum(by_level),
        "token_rtt_ms_by_level": by_level,
        "token_levels": len(by_level),
        "ack_ms_little": 1e3 * pending / max(1e-9, rate * run.size),
        "pending_bytes_mean": pending,
        "pending_messages_mean": pending / run.size,
        "sender_cpu_percent": 100 * max(one.usage.cpu_s / one.seconds for one in sent),
        "receiver_cpu_percent": 100 * max(one.usage.cpu_s / one.wall_s for one in got),
        "sender_cpu_us_per_message": 1e6 * sum(one.usage.cpu_s for one in sent) / max(1, total),
        "receiver_cpu_us_per_message": 1e6
        * max(one.usage.cpu_s / max(1, one.count) for one in got),
        "receiver_switches_per_message": max(one.usage.switches / max(1, one.count) for one in got),
        "sender_rss_bytes": max(one.usage.rss_bytes for one in sent),
        "sender_rss_max_bytes": max(one.usage.rss_max_bytes for one in sent),
        "sender_rss_empty_bytes": max(one.rss_empty_bytes for one in sent),
        "receiver_rss_bytes": max(one.usage.rss_bytes for one in got),
        "sender_collections": sum(one.collections for one in sent),
        "lost_packets": sum(one.changes["missing"] for one in got),
        "repaired_packets": sum(one.changes["repairs_received"] for one in got),
        "kernel_drops": sum(one.changes["kernel_drops"] for one in got),
        "cores": os.cpu_count() or 0,
        "sender_alarm_bins": add_counts(one.observed.alarm_bins for one in sent),
        "receiver_alarm_bins": add_counts(one.observed.alarm_bins for one in got),
        **shares("sender", [one.usage for one in sent]),
        **shares("receiver", [one.usage for one in got]),
        **distribution_of_rounds(observed),
    }
    held = [sample for one in sent for sample in one.observed.memory_bytes]
    if held:
        metrics["sender_rss_bytes_mean"] = sum(held) / len(held)
    if run.rate:
        ages = [one.latency for one in got if one.latency is not None]
        metrics |= latency_metrics(max(ages, key=lambda one: one.p99_s, default=None))
        recovery_s = got[0].recovery_s
        metrics["recovery_ms"] = None if recovery_s is None else 1e3 * recovery_s
        metrics["recoveries"] = got[0].losses
    return metrics


def shares(role: str, usages: Sequence[Usage]) -> Metrics:
    """Return where the processor time went: to the kernel, to the cyclic collector."""
    used = max(1e-9, sum(one.cpu_s for one in usages))
    return {
        f"{role}_kernel_percent": 100 * sum(one.kernel_s for one in usages) / used,
        f"{role}_collector_percent": 100 * sum(one.collector_s for one in usages) / used,
    }


def distribution_of_rounds(observed: Sequence[Observed]) -> Metrics:
    """Return how long tokens of the highest ring took, in bins, and the slowest tenth."""
    top = max((level for one in observed for level in one.round_bins), default=None)
    if top is None:
        return {}
    slowest = [s for one in observed for s in one.slowest_rounds_s.get(top, ())]
    return {
        "token_rtt_bins": add_counts(one.round_bins.get(top, ()) for one in observed),
        "token_rtt_ms_slowest_tenth": 1e3 * sum(slowest) / len(slowest),
    }
