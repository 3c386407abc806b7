"""What is measured in a simulated run: counters, samples, acknowledgements, a timeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import cos, hypot, pi, sin
from typing import Any

from quicksilver.experiments.base import Metrics
from quicksilver.lab.instruments import Latency, summarise_ages
from quicksilver.stdx.bins import count_delays
from quicksilver.trace.records import (
    AckReceived,
    AnyRecord,
    PacketArrived,
    PacketSent,
    RoundCompleted,
)
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import (
    KIND_DATA,
    KIND_HYBRID,
    KIND_REPAIR,
    KIND_TOKEN,
    POSITION,
    parse_key,
)

SAMPLE_S = 0.02
SAMPLED_RECEIVERS = 16
"""Receivers whose memory is sampled, evenly chosen."""

Stream = tuple[int, int, int]
"""Sender, region and view."""


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which a part of the ordered values lies."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: standard deviation over mean."""
    middle = mean(values)
    if not middle:
        return 0.0
    return float((sum((v - middle) ** 2 for v in values) / len(values)) ** 0.5 / middle)


def strongest_wave(values: Sequence[float], step_s: float) -> tuple[float, float]:
    """Return the period of the strongest oscillation and its amplitude over the mean.

    A discrete Fourier transform of values at even times; whole waves in the run and at
    least four values a wave.
    """
    count, middle = len(values), mean(values)
    if count < 4 or not middle:
        return 0.0, 0.0
    best_s, best = 0.0, 0.0
    for waves in range(1, count // 4 + 1):
        turn = 2 * pi * waves / count
        real = sum((v - middle) * cos(turn * at) for at, v in enumerate(values))
        imaginary = sum((v - middle) * sin(turn * at) for at, v in enumerate(values))
        amplitude = 2 * hypot(real, imaginary) / count / middle
        # Of waves that are equally strong the longest counts; rounding must not choose.
        if amplitude > best + 1e-9:
            best_s, best = count * step_s / waves, amplitude
    return best_s, best


class Traffic:
    """Watches datagrams as they leave, and records: what acknowledging takes."""

    def __init__(self, cluster: Cluster) -> None:
        self.is_on = False
        self.ack_s: list[float] = []
        """From a packet's departure until its sender knows that all have it."""
        self.rounds_s: defaultdict[int, list[float]] = defaultdict(list)
        """Token round-trips by level of the ring."""
        self.packet_s: list[float] = []
        """From departure to arrival of the sampled packets."""
        self.repair_s: list[float] = []
        """From a packet's departure until a repair of it leaves."""
        self.tokens = 0
        self.token_bytes = 0
        self.token_bytes_max = 0
        self.data_bytes = 0
        self.repair_bytes = 0
        self.control_bytes = 0
        """All that is neither data nor repair, tokens included."""
        self._departed: defaultdict[Stream, dict[int, float]] = defaultdict(dict)
        self._low: defaultdict[Stream, int] = defaultdict(int)
        self._sampled: defaultdict[Stream, dict[int, float]] = defaultdict(dict)
        self._leaders: set[int] = set()
        cluster.network.taps.append(self._see)

    def _see(self, at: float, source: Address, destination: Address, packet: bytes) -> None:
        kind = packet[1]
        if self.is_on:
            self._count(kind, len(packet))
        if kind == KIND_DATA:
            _, sender, region, view = parse_key(packet[4:20])
            sequence, _ = POSITION.unpack_from(packet, 20)
            self._departed[sender, region, view].setdefault(sequence, at)
        elif kind == KIND_REPAIR and self.is_on:
            _, sender, region, view = parse_key(packet[4:20])
            sequence, _ = POSITION.unpack_from(packet, 20)
            departed = self._departed[sender, region, view].get(sequence)
            if departed is not None:
                self.repair_s.append(at - departed)

    def _count(self, kind: int, size: int) -> None:
        if kind == KIND_REPAIR:
            self.repair_bytes += size
        elif kind == KIND_DATA or kind == KIND_HYBRID:
            self.data_bytes += size
        else:
            self.control_bytes += size
        if kind == KIND_TOKEN:
            self.tokens += 1
            self.token_bytes += size
            self.token_bytes_max = max(self.token_bytes_max, size)

    def note(self, record: AnyRecord) -> None:
        """Take a record of any node."""
        if isinstance(record, AckReceived):
            stream = (record.node, record.region, record.view)
            departed, sampled = self._departed[stream], self._sampled[stream]
            for sequence in range(self._low[stream], record.low):
                sampled.pop(sequence, None)
                at = departed.pop(sequence, None)
                if at is not None and self.is_on:
                    self.ack_s.append(record.at - at)
            self._low[stream] = max(self._low[stream], record.low)
        elif isinstance(record, RoundCompleted) and self.is_on:
            self.rounds_s[record.level].append(record.seconds)
            if not record.level:
                self._leaders.add(record.node)
        elif isinstance(record, PacketSent):
            self._sampled[record.node, record.region, record.view][record.sequence] = record.at
        elif isinstance(record, PacketArrived) and self.is_on:
            stream = (record.sender, record.region, record.view)
            sent_at = self._sampled[stream].get(record.sequence)
            if sent_at is not None:
                self.packet_s.append(record.at - sent_at)

    def metrics(self, seconds: float) -> Metrics:
        ordered = sorted(self.ack_s)
        levels = sorted(self.rounds_s)
        each = [mean(self.rounds_s[level]) for level in levels]
        found: Metrics = {
            "ack_ms_mean": 1e3 * mean(ordered),
            "ack_ms_p50": 1e3 * percentile(ordered, 0.5),
            "ack_ms_p99": 1e3 * percentile(ordered, 0.99),
            "token_rtt_ms": 1e3 * sum(each),
            "token_rtt_ms_by_level": [round(1e3 * value, 6) for value in each],
            "token_levels": len(levels),
            "tokens_per_second": self.tokens / seconds,
            "token_bytes_mean": self.token_bytes / self.tokens if self.tokens else 0.0,
            "token_bytes_max": self.token_bytes_max,
            "repair_bytes_share": self.repair_bytes / max(1, self.data_bytes),
            "control_bytes_share": self.control_bytes / max(1, self.data_bytes),
        }
        if levels:
            top = sorted(self.rounds_s[levels[-1]])
            slowest = top[-max(1, len(top) // 10) :]
            found["token_rtt_bins"] = count_delays(top)
            found["token_rtt_ms_slowest_tenth"] = 1e3 * mean(slowest)
        if self._leaders and self.rounds_s[0]:
            rounds = len(self.rounds_s[0]) / len(self._leaders)
            found["token_interval_ms"] = 1e3 * seconds / rounds
        if self.packet_s:
            found["packet_ms_mean"] = 1e3 * mean(self.packet_s)
        if self.repair_s:
            found["repair_ms_mean"] = 1e3 * mean(self.repair_s)
        return found


class Snapshot:
    """Counters of some nodes at one moment, to be subtracted from a later one."""

    ENGINE = (
        "delivered_packets",
        "delivered_bytes",
        "duplicates",
        "missing",
        "nak_sent",
        "pull_sent",
        "pushes",
        "repairs_received",
        "repairs_sent",
        "resent",
        "roll_calls",
        "sent_messages",
        "sent_packets",
        "cache_refused",
        "ahead_dropped",
    )
    HOST = ("busy_s", "receive_drops", "port_drops", "turns", "alarms", "alarm_delay_s")

    def __init__(self, nodes: Sequence[SimNode]) -> None:
        self.nodes = list(nodes)
        self.messages = [delivered_by(node) for node in nodes]
        self.values = {
            name: [getattr(node.engine.counters, name) for node in nodes] for name in self.ENGINE
        } | {name: [getattr(node.host.counters, name) for node in nodes] for name in self.HOST}

    def since(self, before: Snapshot) -> dict[str, list[float]]:
        """What happened between two snapshots, node by node."""
        changes = {
            name: [b - a for a, b in zip(before.values[name], self.values[name], strict=True)]
            for name in self.values
        }
        changes["messages"] = [b - a for a, b in zip(before.messages, self.messages, strict=True)]
        return changes


def delivered_by(node: SimNode) -> int:
    """How many messages a node's application was given."""
    return sum(node.delivered.values())


class Samples:
    """Levels, looked at every few milliseconds."""

    def __init__(
        self,
        cluster: Cluster,
        senders: Sequence[SimNode],
        receivers: Sequence[SimNode],
        disturbed: Sequence[SimNode],
        size: int,
    ) -> None:
        self.is_on = False
        self.pending_bytes: list[float] = []
        self.sender_memory: list[float] = []
        self.receiver_memory: list[float] = []
        self.disturbed_memory: list[float] = []
        self.alarm_max: dict[str, list[float]] = {"sender": [], "receiver": []}
        self._cluster = cluster
        self._senders = senders
        self._disturbed = disturbed
        others = [node for node in receivers if node not in disturbed]
        self._receivers = others[:: max(1, len(others) // SAMPLED_RECEIVERS)]
        self._size = size
        cluster.events.after(SAMPLE_S, self._look)
        cluster.events.after(1.0, self._look_at_alarms)

    def _look(self) -> None:
        self._cluster.events.after(SAMPLE_S, self._look)
        if not self.is_on:
            return
        for node in self._senders:
            self.pending_bytes.append(node.session.pending_bytes())
            self.sender_memory.append(node.memory_bytes())
        self.receiver_memory.extend(node.memory_bytes() for node in self._receivers)
        self.disturbed_memory.extend(node.memory_bytes() for node in self._disturbed)

    def _look_at_alarms(self) -> None:
        """The longest alarm delay of each second, as Figures 4.37 and 4.38 have it."""
        self._cluster.events.after(1.0, self._look_at_alarms)
        for role, nodes in (("sender", self._senders), ("receiver", self._receivers)):
            for node in nodes:
                if self.is_on:
                    self.alarm_max[role].append(node.host.counters.alarm_delay_s_max)
                node.host.counters.alarm_delay_s_max = 0.0

    def metrics(self) -> Metrics:
        pending = mean(self.pending_bytes)
        found: Metrics = {
            "pending_bytes_mean": pending,
            "pending_bytes_max": max(self.pending_bytes, default=0.0),
            "pending_messages_mean": pending / self._size if self._size else 0.0,
            "sender_memory_bytes_mean": mean(self.sender_memory),
            "sender_memory_bytes_max": max(self.sender_memory, default=0.0),
            "receiver_memory_bytes_mean": mean(self.receiver_memory),
            "receiver_memory_bytes_max": max(self.receiver_memory, default=0.0),
            "sender_alarm_delay_ms_max": 1e3 * max(self.alarm_max["sender"], default=0.0),
            "receiver_alarm_delay_ms_max": 1e3 * max(self.alarm_max["receiver"], default=0.0),
            "sender_alarm_bins": count_delays(self.alarm_max["sender"]),
            "receiver_alarm_bins": count_delays(self.alarm_max["receiver"]),
        }
        if self.disturbed_memory:
            found["disturbed_memory_bytes_mean"] = mean(self.disturbed_memory)
        return found


class Timeline:
    """Totals at even times: what oscillation, freezes and crashes are seen in."""

    def __init__(
        self,
        cluster: Cluster,
        senders: Sequence[SimNode],
        receivers: Sequence[SimNode],
        disturbed: Sequence[SimNode],
        step_s: float,
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.step_s = step_s
        self._cluster = cluster
        self._senders = senders
        self._receivers = receivers
        self._disturbed = disturbed
        self._origin = cluster.now
        self._look()

    def _look(self) -> None:
        self._cluster.events.after(self.step_s, self._look)
        others = [n for n in self._receivers if n not in self._disturbed and not n.is_dead]
        counts = [delivered_by(node) for node in others] or [0]
        self.rows.append(
            {
                "at_s": round(self._cluster.now - self._origin, 6),
                "sent_messages": sum(n.engine.counters.sent_messages for n in self._senders),
                "received_messages_min": min(counts),
                "received_messages_max": max(counts),
                "received_messages_disturbed": [delivered_by(n) for n in self._disturbed],
                "pending_bytes": sum(n.session.pending_bytes() for n in self._senders),
                "view_members": max((len(n.member_since) for n in others), default=0),
                "alive": sum(1 for n in self._receivers if not n.is_dead),
            }
        )

    def rates(self, name: str, start_s: float, end_s: float, step_s: float = 1.0) -> list[float]:
        """Return what a total grew by in each step of a part of the run, a second."""
        every = max(1, round(step_s / self.step_s))
        chosen = [row for row in self.rows if start_s - 1e-9 <= row["at_s"] <= end_s + 1e-9]
        marks = chosen[::every]
        return [(b[name] - a[name]) / (b["at_s"] - a["at_s"]) for a, b in pairwise(marks)]


class LatencyWatcher(Watcher):
    """Collects the ages of stamped messages."""

    name = "latency"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.is_on = False
        self.ages_s: list[float] = []
        self.by_node: dict[int, list[tuple[float, float]]] = {}
        """For each node: when a message arrived, and how old it was."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        if not self.is_on:
            return
        now = self.cluster.now
        age = now - int.from_bytes(payload[:8], "little") / 1e9
        self.ages_s.append(age)
        self.by_node.setdefault(node.index, []).append((now, age))

    def metrics(self) -> Metrics:
        return latency_metrics(summarise_ages(self.ages_s))


class StallWatcher(Watcher):
    """Notes the longest time for which each node was given nothing."""

    name = "stalls"

    def __init__(self, cluster: Cluster, nodes: Sequence[SimNode]) -> None:
        super().__init__(cluster)
        self._last = {node.index: cluster.now for node in nodes}
        self._longest_s = dict.fromkeys(self._last, 0.0)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        now, index = self.cluster.now, node.index
        waited_s = now - self._last[index]
        if waited_s > self._longest_s[index]:
            self._longest_s[index] = waited_s
        self._last[index] = now

    def longest_s(self, nodes: Sequence[SimNode]) -> float:
        """Return how long one of some nodes waited, those included that still wait."""
        now = self.cluster.now
        return max(max(self._longest_s[n.index], now - self._last[n.index]) for n in nodes)


def latency_metrics(latency: Latency | None) -> Metrics:
    """Return mean and percentiles, in milliseconds, of real messages or simulated ones."""
    if latency is None:
        return {}
    return {
        "latency_ms_mean": 1e3 * latency.mean_s,
        "latency_ms_p50": 1e3 * latency.p50_s,
        "latency_ms_p99": 1e3 * latency.p99_s,
        "latency_ms_max": 1e3 * latency.max_s,
    }
