"""One process of a benchmark: a sender or a receiver, ours or the ceiling's.

Started by ``quicksilver.cli.bench.throughput`` as ``python -m``; takes its
settings as one JSON argument and speaks JSON lines with its parent.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from quicksilver.cli.bench import ceiling
from quicksilver.cli.bench.workload import Tally
from quicksilver.net.faults import parse_faults
from quicksilver.node import sync
from quicksilver.node.messages import Burst
from quicksilver.node.sampling import sampling
from quicksilver.trace.folders import split_target
from quicksilver.trace.records import Tracer


def main() -> None:
    """Run the role that the first argument names."""
    role = sys.argv[1]
    settings = json.loads(sys.argv[2])
    {
        "idle": run_idle,
        "latency-receiver": run_latency_receiver,
        "latency-sender": run_latency_sender,
        "sender": run_sender,
        "receiver": run_receiver,
        "ceiling-sender": run_ceiling_sender,
        "ceiling-receiver": run_ceiling_receiver,
    }[role](settings)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def usage() -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": used.ru_utime + used.ru_stime, "rss_bytes": rss_bytes()}


def rss_bytes() -> int:
    """Return the resident memory of this process now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def group_names(count: int) -> list[str]:
    return [f"bench-{place}" for place in range(count)]


@contextmanager
def connect(settings: dict[str, Any], faults: str = "") -> Iterator[sync.Node]:
    with _opening_trace(settings) as tracer:
        node = _make_node(settings, faults, tracer)
        with node, sampling(node.core):
            yield node


def _opening_trace(settings: dict[str, Any]) -> AbstractContextManager[Tracer | None]:
    target = settings.get("trace")
    if target is None:
        return nullcontext()
    from quicksilver.trace.parquet import ParquetTrace

    return ParquetTrace(*split_target(Path(target), "bench"), f"{sys.argv[1]}-{os.getpid()}")


def _make_node(settings: dict[str, Any], faults: str, tracer: Tracer | None) -> sync.Node:
    return sync.connect(
        settings["gms"],
        interface=settings["interface"],
        packet_bytes=settings["packet_bytes"],
        faults=parse_faults(faults) if faults else None,
        connect_timeout_s=60.0,
        tracer=tracer,
    )


def run_receiver(settings: dict[str, Any]) -> None:
    groups = settings["groups"]
    times = [0.0, 0.0]
    with connect(settings, settings.get("faults", "")) as node:
        clock = time.monotonic
        joined = node.join_all(group_names(groups))
        # Groups are numbered densely, so their numbers index the table as they are.
        tally = Tally(1 + max(group.id for group in joined))

        def handle(burst: Burst) -> None:
            now = clock()
            if not times[0]:
                times[0] = now
            times[1] = now
            if burst.group is not None:
                tally.handle_run(burst.group, burst.first, burst.payloads)
            else:
                tally.handle_mixed(burst.groups, burst.sequences, burst.payloads)

        node.on_burst(handle)
        node.stats()
        before = usage()
        say(ready=True)
        by_place = json.loads(sys.stdin.readline())["sent"]
        sent = [0] * len(tally.expected)
        for group in joined:
            sent[group.id] = by_place[int(group.name.removeprefix("bench-"))]
        deadline = clock() + 30
        while tally.missing(sent) and clock() < deadline:
            time.sleep(0.02)
        after = usage()
        say(
            count=tally.count,
            lost=tally.missing(sent),
            disorders=tally.disorders,
            first=times[0],
            last=times[1],
            cpu_s=after["cpu_s"] - before["cpu_s"],
            rss_bytes=after["rss_bytes"],
            stats=node.stats().counters,
        )


def run_sender(settings: dict[str, Any]) -> None:
    groups = settings["groups"]
    payload = bytes(settings["size"])
    with connect(settings) as node:
        opened = node.open_all(group_names(groups))
        say(ready=True)
        sys.stdin.readline()
        before = usage()
        clock = time.monotonic
        started = clock()
        end = started + settings["seconds"]
        sent = [0] * groups
        count = 0
        if groups == 1:
            send = opened[0].send
            while clock() < end:
                for _ in range(256):
                    send(payload)
                count += 256
            sent[0] = count
        else:
            sends = [group.send for group in opened]
            rounds = max(1, 256 // groups)
            step = 256
            place = 0
            while clock() < end:
                if groups <= step:
                    for _ in range(rounds):
                        for send in sends:
                            send(payload)
                    count += rounds
                else:
                    for send in sends[place : place + step]:
                        send(payload)
                    place = place + step if place + step < groups else 0
                    count += 1
            sent = _sent_counts(groups, count, step)
        node.flush(timeout_s=60)
        flushed = clock()
        after = usage()
        say(
            sent=sent,
            seconds=flushed - started,
            cpu_s=after["cpu_s"] - before["cpu_s"],
            rss_bytes=after["rss_bytes"],
            stats=node.stats().counters,
        )
        sys.stdin.readline()


def _sent_counts(groups: int, count: int, step: int) -> list[int]:
    """Return how many messages went to each group after ``count`` steps."""
    if groups <= step:
        return [count] * groups
    sent = [0] * groups
    slices = -(-groups // step)
    for which in range(slices):
        times = count // slices + (1 if which < count % slices else 0)
        for place in range(which * step, min(groups, (which + 1) * step)):
            sent[place] = times
    return sent


def run_latency_sender(settings: dict[str, Any]) -> None:
    """Send time stamps at an even rate."""
    tail = bytes(max(0, settings["size"] - 8))
    with connect(settings) as node:
        group = node.open(group_names(1)[0])
        say(ready=True)
        sys.stdin.readline()
        clock = time.monotonic_ns
        interval = 1e9 / settings["rate"]
        started = clock()
        total = int(settings["rate"] * settings["seconds"])
        for number in range(total):
            due = started + number * interval
            while (early := due - clock()) > 0:
                if early > 200_000:
                    time.sleep((early - 100_000) / 1e9)
            group.send(clock().to_bytes(8, "little") + tail)
        node.flush(timeout_s=60)
        say(sent=total, seconds=(clock() - started) / 1e9)
        sys.stdin.readline()


def run_latency_receiver(settings: dict[str, Any]) -> None:
    """Collect how old messages are when the application gets them."""
    ages: array[int] = array("q")
    clock = time.monotonic_ns
    with connect(settings) as node:
        node.join(group_names(1)[0])

        def handle(burst: Burst) -> None:
            now = clock()
            for payload in burst.payloads:
                ages.append(now - int.from_bytes(payload[:8], "little"))

        node.on_burst(handle)
        node.stats()
        say(ready=True)
        total = json.loads(sys.stdin.readline())["sent"]
        deadline = time.monotonic() + 20
        while len(ages) < total and time.monotonic() < deadline:
            time.sleep(0.02)
        ordered = sorted(ages)

        def percentile(part: float) -> float:
            return ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1e3

        say(
            count=len(ages),
            lost=total - len(ages),
            p50_us=percentile(0.5),
            p90_us=percentile(0.9),
            p99_us=percentile(0.99),
            p999_us=percentile(0.999),
            max_us=ordered[-1] / 1e3,
        )


def run_idle(settings: dict[str, Any]) -> None:
    """Join a group, and measure what doing nothing costs."""
    with connect(settings) as node:
        node.join(group_names(1)[0])
        say(ready=True)
        sys.stdin.readline()
        before = usage()
        time.sleep(settings["seconds"])
        after = usage()
        say(cpu_s=after["cpu_s"] - before["cpu_s"], rss_bytes=after["rss_bytes"])


def run_ceiling_sender(settings: dict[str, Any]) -> None:
    say(ready=True)
    sys.stdin.readline()
    sent = ceiling.run_sender(
        interface=settings["address"],
        address=tuple(settings["multicast"]),
        groups=settings["groups"],
        size=settings["size"],
        seconds=settings["seconds"],
        packet_bytes=settings["packet_bytes"],
    )
    say(sent=sent, cpu_s=usage()["cpu_s"])


def run_ceiling_receiver(settings: dict[str, Any]) -> None:
    tally, first, last = ceiling.run_receiver(
        interface=settings["address"],
        address=tuple(settings["multicast"]),
        groups=settings["groups"],
        packet_bytes=settings["packet_bytes"],
        quiet_s=1.0,
    )
    say(count=tally.count, first=first, last=last, cpu_s=usage()["cpu_s"])


if __name__ == "__main__":
    main()
