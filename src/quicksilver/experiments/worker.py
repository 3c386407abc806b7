"""One real process of an experiment: a sender or a receiver.

Started as ``python -m quicksilver.experiments.worker ROLE SETTINGS``; speaks JSON
lines with its parent: says that it is ready, waits for a line, does its work, and
says what it measured.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from quicksilver.experiments.latency import latency_metrics, recovery_ms
from quicksilver.multicast.config import EngineConfig
from quicksilver.net.faults import parse_faults
from quicksilver.node import sync
from quicksilver.node.messages import Burst
from quicksilver.node.sampling import sampling
from quicksilver.stdx.bins import count_delays
from quicksilver.trace.folders import split_target
from quicksilver.trace.parquet import ParquetTrace
from quicksilver.trace.records import AckReceived, AnyRecord, NodeSampled, RoundCompleted

ARRIVALS_MAX = 400_000
"""Stamped messages whose age is kept."""


def main() -> None:
    """Run the role that the first argument names."""
    role = sys.argv[1]
    settings = json.loads(sys.argv[2])
    {"receiver": run_receiver, "sender": run_sender}[role](settings)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)  # noqa: T201  # how it speaks to its parent


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def kernel_s() -> float:
    """Return the part of the processor time that the kernel used for this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


class CollectorTime:
    """Adds up the processor time that the cyclic garbage collector takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        gc.callbacks.append(self.note)

    def note(self, phase: str, info: dict[str, int]) -> None:
        """Hear from the collector that it begins or ends."""
        del info
        now = time.thread_time()
        if phase == "start":
            self._began = now
        else:
            self.seconds += now - self._began


def switches() -> int:
    """Return how often this process has left its core, by itself or not."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def rss_bytes() -> int:
    """Return the resident memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Ledger:
    """Sums of what the node's records say; a tracer."""

    def __init__(self, trace: ParquetTrace | None) -> None:
        self.rounds: dict[int, list[float]] = {}
        self.pending: list[int] = []
        self.token_s: list[float] = []
        self.samples: list[NodeSampled] = []
        self._trace = trace

    def __call__(self, record: AnyRecord) -> None:
        if isinstance(record, RoundCompleted):
            self.rounds.setdefault(record.level, []).append(record.seconds)
        elif isinstance(record, AckReceived):
            self.pending.append(record.pending_bytes)
            self.token_s.append(record.token_s)
        elif isinstance(record, NodeSampled):
            self.samples.append(record)
        if self._trace is not None:
            self._trace(record)

    def close(self) -> None:
        if self._trace is not None:
            self._trace.close()

    def clear(self) -> None:
        """Forget the warm-up."""
        self.rounds.clear()
        self.pending.clear()
        self.token_s.clear()
        self.samples.clear()

    def report(self) -> dict[str, Any]:
        return {
            "rounds": {
                level: [len(found), sum(found) / len(found)] for level, found in self.rounds.items()
            },
            "pending_bytes_mean": sum(self.pending) / len(self.pending) if self.pending else 0.0,
            "pending_bytes_max": max(self.pending, default=0),
            "acks": len(self.pending),
            "round_bins": {level: count_delays(found) for level, found in self.rounds.items()},
            "slowest_rounds_s": {
                level: sorted(found)[-max(1, len(found) // 10) :]
                for level, found in self.rounds.items()
            },
            "alarm_bins": count_delays(sample.alarm_delay_s for sample in self.samples),
            "memory_bytes": [sample.memory_bytes for sample in self.samples],
        }


@contextmanager
def connect(settings: dict[str, Any], ledger: Ledger) -> Iterator[sync.Node]:
    """Have a node meanwhile, whose records the ledger takes."""
    with closing(ledger), make_node(settings, ledger) as node, sampling(node.core):
        yield node


def make_node(settings: dict[str, Any], ledger: Ledger) -> sync.Node:
    faults = settings.get("faults", "")
    return sync.connect(
        settings["gms"],
        interface="lo",
        packet_bytes=settings.get("packet_bytes") or None,
        faults=parse_faults(faults) if faults else None,
        connect_timeout_s=60.0,
        tracer=ledger,
        tune_gc=settings.get("collector", "tuned") == "tuned",
        engine=EngineConfig(**settings.get("engine", {})),
    )


def prepare_memory(settings: dict[str, Any]) -> list[Any]:
    """Set the collector, and hold as many objects as the experiment wants held."""
    collector = settings.get("collector", "tuned")
    held: list[Any] = []
    mb = int(settings.get("held_mb", 0))
    if mb:
        # Small containers, which the collector visits, as an application's state would be.
        held = [[place, str(place)] for place in range(mb * 1_000_000 // 150)]
    if collector == "disabled":
        gc.disable()
    elif collector == "frozen":
        gc.collect()
        gc.freeze()
    return held


def open_trace(settings: dict[str, Any]) -> ParquetTrace | None:
    """Return where this process's records go."""
    target = settings.get("trace")
    if target is None:
        return None
    folder, run = split_target(Path(target), "point")
    room = settings["trace_records_max"]
    return ParquetTrace(folder, run, settings["trace_writer"], records_max=room)


def group_names(count: int) -> list[str]:
    return [f"e{place}" for place in range(count)]


def run_receiver(settings: dict[str, Any]) -> None:
    """Count what arrives; with stamps, note how old it is."""
    ledger = Ledger(open_trace(settings))
    is_stamped = settings.get("stamped", False)
    keeps = settings.get("keeps", 0)
    kept: list[bytes] = []
    times: array[float] = array("d")
    ages: array[float] = array("d")
    state = [0, 0.0, 0.0]
    clock = time.monotonic

    def handle(burst: Burst) -> None:
        now = clock()
        payloads = burst.payloads
        if not state[0]:
            state[1] = now
        state[0] += len(payloads)
        state[2] = now
        if keeps:
            kept.extend(payloads)
            if len(kept) > keeps:
                del kept[: len(kept) - keeps]
        if is_stamped and len(ages) < ARRIVALS_MAX:
            for payload in payloads:
                times.append(now)
                ages.append(now - int.from_bytes(payload[:8], "little") / 1e9)

    held = prepare_memory(settings)
    collector = CollectorTime()
    with connect(settings, ledger) as node:
        node.join_all(group_names(settings["groups"]))
        node.on_burst(handle)
        node.stats()
        say(ready=True)
        sys.stdin.readline()
        ledger.clear()
        began_cpu, began, began_switches = cpu_s(), clock(), switches()
        began_kernel, began_collector = kernel_s(), collector.seconds
        before = node.stats().counters
        total = json.loads(sys.stdin.readline())["sent"]
        deadline = clock() + 30
        while state[0] < total and clock() < deadline:
            time.sleep(0.02)
        after = node.stats().counters
        recovery, losses = recovery_ms(list(zip(times, ages, strict=True)))
        say(
            count=state[0],
            first=state[1],
            last=state[2],
            cpu_s=cpu_s() - began_cpu,
            kernel_s=kernel_s() - began_kernel,
            collector_s=collector.seconds - began_collector,
            switches=switches() - began_switches,
            wall_s=clock() - began,
            rss_bytes=rss_bytes(),
            collections=[each["collections"] for each in gc.get_stats()],
            missing=_change(before, after, "missing"),
            repairs=_change(before, after, "repairs_received"),
            kernel_drops=_change(before, after, "kernel_drops"),
            recovery_ms=recovery,
            losses=losses,
            latency=latency_metrics(ages),
            **ledger.report(),
        )
        sys.stdin.readline()
    del held


def _change(before: Any, after: Any, name: str) -> float:
    return float(after.get(name, 0)) - float(before.get(name, 0))


def run_sender(settings: dict[str, Any]) -> None:
    """Send as fast as it goes, or at a rate; pushed or pulled."""
    ledger = Ledger(open_trace(settings))
    held = prepare_memory(settings)
    collector = CollectorTime()
    with connect(settings, ledger) as node:
        groups = node.open_all(group_names(settings["groups"]))
        empty = rss_bytes()
        say(ready=True)
        sys.stdin.readline()
        clock = time.monotonic
        began_cpu, began = cpu_s(), clock()
        began_kernel, began_collector = kernel_s(), collector.seconds
        ledger.clear()
        if settings.get("rate"):
            sent = _send_at_rate(groups, settings)
        elif settings.get("mode") == "pull":
            sent = _send_pulled(groups, settings)
        else:
            sent = _send_pushed(groups, settings)
        node.flush(timeout_s=60)
        ended = clock()
        say(
            sent=sent,
            seconds=ended - began,
            cpu_s=cpu_s() - began_cpu,
            kernel_s=kernel_s() - began_kernel,
            collector_s=collector.seconds - began_collector,
            rss_bytes=rss_bytes(),
            rss_empty_bytes=empty,
            rss_max_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            collections=[each["collections"] for each in gc.get_stats()],
            **ledger.report(),
        )
        sys.stdin.readline()
    del held


def _send_pushed(groups: list[sync.Group], settings: dict[str, Any]) -> int:
    """One ``send`` a message; without ``preallocated``, each is made anew as in the papers."""
    size = settings["size"]
    clock = time.monotonic
    end = clock() + settings["seconds"]
    sends = [group.send for group in groups]
    payload = bytes(size)
    count = 0
    if settings.get("preallocated", True):
        while clock() < end:
            for _ in range(max(1, 256 // len(sends))):
                for send in sends:
                    send(payload)
                count += len(sends)
    else:
        while clock() < end:
            for _ in range(max(1, 256 // len(sends))):
                for send in sends:
                    send(bytes(size))
                count += len(sends)
    return count


def _send_pulled(groups: list[sync.Group], settings: dict[str, Any]) -> int:
    """Be asked for each message."""
    size = settings["size"]
    clock = time.monotonic
    end = clock() + settings["seconds"]
    payload = bytes(size)
    is_made_anew = not settings.get("preallocated", True)
    state = [0, 0]

    def give() -> bytes | None:
        state[0] += 1
        if not state[0] & 255 and clock() >= end:
            state[1] += 1
            return None
        return bytes(size) if is_made_anew else payload

    for group in groups:
        group.send_from(give)
    while not state[1] or clock() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    return state[0] - state[1]


def _send_at_rate(groups: list[sync.Group], settings: dict[str, Any]) -> int:
    """Send stamped messages at an even rate, to the groups in turn."""
    tail = bytes(max(0, settings["size"] - 8))
    clock = time.monotonic_ns
    interval = 1e9 / settings["rate"]
    total = int(settings["rate"] * settings["seconds"])
    started = clock()
    count = len(groups)
    for number in range(total):
        due = started + number * interval
        while (early := due - clock()) > 0:
            # Sleeping is a little late, which stamps allow for; spinning would take a core.
            if early > 100_000:
                time.sleep(early / 1e9)
        groups[number % count].send(clock().to_bytes(8, "little") + tail)
    return total


if __name__ == "__main__":
    main()
