"""One run in virtual time: a cluster, senders, perhaps a misfortune, and what came of it.

Receivers are members of all groups and do nothing but receive; senders are nodes
of their own outside the groups. After the warm-up everything is measured for
``seconds``; disturbances may begin with the warm-up or later, as they like.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from quicksilver.experiments.base import Context, ExperimentError, Metrics
from quicksilver.experiments.gauges import (
    LatencyWatcher,
    Samples,
    Snapshot,
    Timeline,
    Traffic,
    mean,
    variation,
)
from quicksilver.experiments.machines import Machine
from quicksilver.experiments.senders import PacedSender, PullSender, Sender
from quicksilver.lab.instruments import recovery_s
from quicksilver.membership.config import ServiceConfig
from quicksilver.trace.folders import TIMELINE, split_target
from quicksilver.trace.parquet import ParquetTrace
from quicksilver.trace.records import AnyRecord
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.samples import sample_cluster
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import NodeId
from quicksilver.wire.packets import Body, parse_body

REMEMBERED_MAX = 4096
"""Packets: more than are under way between the first receiver and the last."""


class SharedParser:
    """``parse_body`` with a memory of the packets that it has just seen.

    In a simulation hundreds of engines are given the very same bytes, and cutting
    them into messages is a pure function of these. All nodes of a run are configured
    with one such parser: a packet is cut once and the result shown to all. Runs are the
    same, and take two thirds of the time (60 receivers, 59 messages a packet).
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, Body | None]] = {}
        """By identity; the entry keeps the packet alive, so no other has its number."""

    def __call__(self, data: bytes, flags: int, sender: NodeId, batch: int) -> Body | None:
        known = self._known
        found = known.get(id(data))
        if found is not None:
            return found[1]
        body = parse_body(data, flags, sender, batch)
        if len(known) >= REMEMBERED_MAX:
            # Oldest first: a dictionary keeps the order of insertion.
            for key in list(known)[: REMEMBERED_MAX // 2]:
                del known[key]
        known[id(data)] = (data, body)
        return body


SETTLE_S = 120.0
"""Virtual time that joining may take."""

SETTLE_STEP_S = 0.01

VARIATION_STEPS_MIN = 5
"""Of fewer steps of a timeline nobody could tell how much they vary."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Parameters of one simulated run."""

    machine: Machine
    nodes: int
    """Receivers."""
    senders: int = 1
    groups: int = 1
    regions: int = 1
    """Receivers are divided into so many regions; each is in all groups."""
    size: int = 1000
    rate: float = 0.0
    """Messages a second of all senders together; 0: as fast as they can (pulled)."""
    warmup_s: float = 0.5
    seconds: float = 2.0
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of engines that differ from the machine's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the cluster that differ from the defaults."""
    gms: Mapping[str, Any] = field(default_factory=dict)
    cores: int = 0
    """Cores that all nodes share, as processes of one machine; 0: a machine each."""
    with_latency: bool = False
    """Stamp messages (at a rate only) and measure how old they arrive."""
    timeline_s: float = 0.25
    disturb: Callable[[Run], None] | None = None
    """Called as the warm-up begins; may name nodes in ``run.disturbed``."""
    finish: Callable[[Run, Timeline], Metrics] | None = None
    """Called in the end, to measure what only this scenario has."""


def open_trace(context: Context) -> ParquetTrace | None:
    """Return where a simulated point's records go; virtual time waits for the writer."""
    if context.traces is None:
        return None
    folder, run = split_target(context.traces, "point")
    return ParquetTrace(folder, run, "sim", waits=True, records_max=context.trace_records_max)


class Run:
    """A scenario under way: its cluster, nodes, senders and gauges."""

    def __init__(self, scenario: Scenario, context: Context) -> None:
        self.scenario = scenario
        self.context = context
        self._trace = open_trace(context)
        machine = scenario.machine
        self.cluster = Cluster(
            seed=context.seed,
            config=replace(machine.config(), parse_body=SharedParser(), **scenario.config),
            model=machine.model(),
            link=machine.link,
            settings=ClusterSettings(**scenario.settings),
            gms_config=ServiceConfig(**scenario.gms),
            tracer=self._take_record,
            cores=scenario.cores,
        )
        self.traffic = Traffic(self.cluster)
        if self._trace is not None:
            sample_cluster(self.cluster, self._trace)
        self.disturbed: list[SimNode] = []
        self.groups = [f"g{place}" for place in range(scenario.groups)]
        started = self.cluster.start(scenario.senders + scenario.nodes)
        self.senders = started[: scenario.senders]
        self.receivers = started[scenario.senders :]
        self.applications: list[Sender] = []
        self.latency: LatencyWatcher | None = None
        self.warm_at = 0.0
        """When the warm-up began, in virtual time; timelines count from here."""

    @property
    def now(self) -> float:
        """Seconds since the warm-up began."""
        return self.cluster.now - self.warm_at

    def at(self, when: float, work: Callable[[], None]) -> None:
        """Have something happen, counted from the beginning of the warm-up."""
        self.cluster.events.at(self.warm_at + when, work)

    def _take_record(self, record: AnyRecord) -> None:
        self.traffic.note(record)
        if self._trace is not None:
            self._trace(record)

    def join(self) -> float:
        """Let everybody in; return how long it took, in virtual time."""
        for place, node in enumerate(self.receivers):
            node.join(*self.groups)
            if self.scenario.regions > 1:
                node.join(f"part{place % self.scenario.regions}")
        for node in self.senders:
            node.open(*self.groups)
        self.wait_settled()
        return self.cluster.now

    def wait_settled(self) -> None:
        """Run until all who are alive are in what they asked for."""
        # Looked at now and then, and not after every event: there are thousands.
        until = self.cluster.now + SETTLE_S
        while not self.cluster.is_settled():
            if self.cluster.now > until:
                raise ExperimentError(f"the cluster did not form within {SETTLE_S:.0f} s")
            self.cluster.run(SETTLE_STEP_S)

    def start_senders(self) -> None:
        scenario = self.scenario
        count = len(self.senders)
        for place, node in enumerate(self.senders):
            if scenario.rate:
                self.applications.append(
                    PacedSender(
                        self.cluster,
                        node,
                        self.groups,
                        size=scenario.size,
                        rate=scenario.rate / count,
                        phase=place / count,
                        is_stamped=scenario.with_latency,
                    )
                )
            else:
                self.applications.append(PullSender(node, self.groups, scenario.size))

    def close(self) -> None:
        if self._trace is not None:
            self._trace.close()


@contextmanager
def simulating() -> Iterator[None]:
    """Make this process quick at simulating: collect garbage rarely."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run_scenario(scenario: Scenario, context: Context) -> Metrics:
    """Run a scenario and return what was measured."""
    metrics, _ = run_with_timeline(scenario, context)
    return metrics


def run_with_timeline(scenario: Scenario, context: Context) -> tuple[Metrics, Timeline]:
    """The same, with the totals over time."""
    with simulating():
        started = time.perf_counter()
        run = Run(scenario, context)
        try:
            return _measure(run, started)
        finally:
            run.close()


def _measure(run: Run, started: float) -> tuple[Metrics, Timeline]:
    scenario = run.scenario
    cluster = run.cluster
    joined_s = run.join()
    if scenario.with_latency:
        run.latency = LatencyWatcher(cluster)
        cluster.watchers.append(run.latency)
    run.warm_at = cluster.now
    if scenario.disturb is not None:
        scenario.disturb(run)
    timeline = Timeline(cluster, run.senders, run.receivers, run.disturbed, scenario.timeline_s)
    samples = Samples(cluster, run.senders, run.receivers, run.disturbed, scenario.size)
    run.start_senders()
    cluster.run(scenario.warmup_s)
    run.traffic.is_on = samples.is_on = True
    if run.latency is not None:
        run.latency.is_on = True
    began, events = time.perf_counter(), cluster.events.happened
    before = Snapshot(run.senders), Snapshot(run.receivers)
    cluster.run(scenario.seconds)
    wall_s = time.perf_counter() - began
    after = Snapshot(run.senders), Snapshot(run.receivers)
    metrics = _judge(run, before, after)
    metrics |= run.traffic.metrics(scenario.seconds) | samples.metrics()
    rates = timeline.rates(
        "received_messages_min",
        scenario.warmup_s,
        scenario.warmup_s + scenario.seconds,
        timeline.step_s,
    )
    if len(rates) >= VARIATION_STEPS_MIN:
        metrics["variation_received"] = variation(rates)
    if run.latency is not None:
        metrics |= run.latency.metrics()
        first = run.latency.by_node.get(run.receivers[0].index, [])
        seconds, metrics["recoveries"] = recovery_s(first)
        metrics["recovery_ms"] = None if seconds is None else 1e3 * seconds
    if scenario.finish is not None:
        metrics |= scenario.finish(run, timeline)
    metrics |= {
        "join_s": joined_s,
        "simulated_s": scenario.seconds,
        "wall_s": wall_s,
        "total_wall_s": time.perf_counter() - started,
        "events": cluster.events.happened - events,
        "node_seconds_per_second": len(cluster.nodes) * scenario.seconds / max(1e-9, wall_s),
    }
    _write_timeline(run, timeline)
    return metrics, timeline


def _judge(
    run: Run, before: tuple[Snapshot, Snapshot], after: tuple[Snapshot, Snapshot]
) -> Metrics:
    seconds = run.scenario.seconds
    sent = after[0].since(before[0])
    got = after[1].since(before[1])
    disturbed = [place for place, node in enumerate(run.receivers) if node in run.disturbed]
    whole = [
        place
        for place, node in enumerate(run.receivers)
        if node not in run.disturbed and not node.is_dead
    ]
    rates = [got["messages"][place] / seconds for place in whole] or [0.0]
    expected = max(got["delivered_packets"], default=0.0)
    metrics: Metrics = {
        "messages_per_second": min(rates),
        "messages_per_second_max": max(rates),
        "sent_messages_per_second": sum(sent["sent_messages"]) / seconds,
        "sent_packets_per_second": sum(sent["sent_packets"]) / seconds,
        "bytes_per_second": min(rates) * run.scenario.size,
        "sender_cpu_percent": 100 * mean(sent["busy_s"]) / seconds,
        "receiver_cpu_percent": 100 * mean([got["busy_s"][p] for p in whole]) / seconds,
        "lost_packets": sum(got["missing"]),
        "repaired_packets": sum(got["repairs_received"]),
        "duplicate_packets": sum(got["duplicates"]),
        "naks": sum(got["nak_sent"]),
        "resent_packets": sum(sent["resent"]),
        "roll_calls": sum(got["roll_calls"]),
        "kernel_drops": sum(got["receive_drops"]) + sum(sent["receive_drops"]),
        "switch_drops": sum(got["port_drops"]) + sum(sent["port_drops"]),
        "sender_alarm_delay_ms_mean": 1e3
        * sum(sent["alarm_delay_s"])
        / max(1, sum(sent["alarms"])),
        "receiver_alarm_delay_ms_mean": 1e3
        * sum(got["alarm_delay_s"])
        / max(1, sum(got["alarms"])),
    }
    metrics["fairness"] = min(sent["sent_messages"]) / max(1.0, *sent["sent_messages"])
    link = run.scenario.machine.host.nic_bytes_per_s
    if link:
        metrics["link_percent"] = 100 * min(rates) * run.scenario.size / link
    if disturbed:
        place = disturbed[0]
        lost = got["missing"][place]
        metrics |= {
            "disturbed_messages_per_second": got["messages"][place] / seconds,
            "disturbed_loss_percent": 100 * lost / max(1.0, expected),
            "disturbed_cpu_percent": 100 * got["busy_s"][place] / seconds,
            "disturbed_memory_bytes": run.receivers[place].memory_bytes(),
            "disturbed_exclusions": run.receivers[place].exclusions,
        }
    return metrics


def _write_timeline(run: Run, timeline: Timeline) -> None:
    folder = run.context.traces
    if folder is not None:
        lines = [msgspec.json.encode(row) + b"\n" for row in timeline.rows]
        (folder / TIMELINE).write_bytes(b"".join(lines))
