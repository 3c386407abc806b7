"""``python -m bench.spark.run``: the connector's rates as shares of Spark's own ceiling.

Everything is measured in one session, in turns, after a round that is thrown
away; the result is the median of the rounds. A receiver counts what the sink
sends, in a process of its own, and must have every row.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.recorder.writer import LogConfig, LogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 4_000


class Plan(msgspec.Struct, frozen=True):
    """What is measured."""

    rows: int
    sink_rows: int
    size: int
    rounds: int
    order: str


def fill_log(path: Path, plan: Plan) -> None:
    """Record as many rows as a query reads."""
    writer = LogWriter(path, "bench", LogConfig(does_sync=False))
    values = [bytes([n % 251]) * plan.size for n in range(BATCH_ROWS)]
    for first in range(0, plan.rows, BATCH_ROWS):
        count = min(BATCH_ROWS, plan.rows - first)
        numbers = range(first, first + count)
        writer.pending.append(
            values[:count], cluster=1, sender=1, sequences=numbers, batch=1, at_us=first
        )
        writer.flush()
    writer.close()


def serve(pipe: Connection) -> None:
    """Run a GMS in this process, until the pipe is closed."""
    import asyncio

    from quicksilver.membership.gms import GmsOptions, serve_gms

    async def work() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
        options = GmsOptions(host="127.0.0.1", port=0)
        await serve_gms(options, stop, lambda at: pipe.send(f"{at[0]}:{at[1]}"))

    asyncio.run(work())


def count_rows(gms: str, pipe: Connection) -> None:
    """Join the group and count what arrives; tell whenever asked."""
    from quicksilver import sync
    from quicksilver.node.messages import Burst

    seen = 0

    def note(burst: Burst) -> None:
        nonlocal seen
        seen += len(burst.payloads)

    with sync.connect(gms, interface="lo") as node:
        node.join("bench")
        node.on_burst(note)
        pipe.send("ready")
        while pipe.recv() == "count":
            pipe.send(seen)


class Receiver:
    """A GMS and a counting member, as processes."""

    def __init__(self) -> None:
        make = multiprocessing.get_context("spawn")
        self._gms_pipe, theirs = make.Pipe()
        self._processes: list[Any] = [make.Process(target=serve, args=(theirs,))]
        self._processes[0].start()
        self.gms: str = self._gms_pipe.recv()
        self._pipe, theirs = make.Pipe()
        self._processes.append(make.Process(target=count_rows, args=(self.gms, theirs)))
        self._processes[1].start()
        assert self._pipe.recv() == "ready"

    def count(self) -> int:
        """Return how many rows arrived so far."""
        self._pipe.send("count")
        return int(self._pipe.recv())

    def close(self) -> None:
        """End both."""
        self._pipe.send("end")
        self._gms_pipe.send("end")
        for process in self._processes:
            process.join(10)
            process.kill()


def rate(work: Callable[[], None], rows: int) -> float:
    """Return rows a second."""
    begun = time.perf_counter()
    work()
    return rows / (time.perf_counter() - begun)


def measure(plan: Plan, spark: SparkSession, path: Path, receiver: Receiver) -> dict[str, float]:
    """Return the median rate of each path."""
    from bench.spark.ceiling import MemorySource

    spark.dataSource.register(MemorySource)

    def memory(rows: int) -> DataFrame:
        reader = spark.read.format("memory_batches")
        return reader.options(rows=str(rows), size=str(plan.size)).load()

    def into_nothing(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def read_log() -> None:
        reader = spark.read.format("quicksilver")
        frame = reader.options(path=str(path), subscribe="bench", minPartitions="2").load()
        into_nothing(frame)

    def discard() -> None:
        frame = memory(plan.sink_rows).select("value")
        frame.write.format("memory_batches").mode("append").save()

    def publish() -> None:
        options = {"gms": receiver.gms, "topic": "bench", "order": plan.order}
        writer = memory(plan.sink_rows).select("value").write.format("quicksilver")
        writer.mode("append").options(**options, **{"quicksilver.interface": "lo"}).save()

    paths: dict[str, tuple[Callable[[], None], int]] = {
        "memory": (lambda: into_nothing(memory(plan.rows)), plan.rows),
        "source": (read_log, plan.rows),
        "discard": (discard, plan.sink_rows),
        "sink": (publish, plan.sink_rows),
    }
    rates: dict[str, list[float]] = {name: [] for name in paths}
    for number in range(plan.rounds + 1):
        for name, (work, rows) in paths.items():
            found = rate(work, rows)
            if number:
                rates[name].append(found)
    got, sent = receiver.count(), (plan.rounds + 1) * plan.sink_rows
    if got != sent:
        raise SystemExit(f"the receiver has {got} of {sent} rows")
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> None:
    """Measure and print, as text and as one line of JSON."""
    from quicksilver.spark.sessions import session

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--sink-rows", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--order", choices=("content", "arrival"), default="content")
    given = parser.parse_args()
    plan = Plan(given.rows, given.sink_rows, given.size, given.rounds, given.order)
    receiver = Receiver()
    try:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name)
            fill_log(path, plan)
            with session("bench", master="local[2]") as spark:
                rates = measure(plan, spark, path, receiver)
    finally:
        receiver.close()
    for name, found in rates.items():
        print(f"{name:8} {found:12,.0f} rows/s")
    shares = {
        "source_of_memory": round(rates["source"] / rates["memory"], 3),
        "sink_of_discard": round(rates["sink"] / rates["discard"], 3),
    }
    print(msgspec.json.encode({**msgspec.structs.asdict(plan), **rates, **shares}).decode())


if __name__ == "__main__":
    main()
