"""Quotes in groups, averages by Spark, results back in a group.

::

    quotes.fx, quotes.metals --recorder--> Spark: mean price of each symbol and second
                                             |
    a live subscriber of "averages" <--------+

Run it with the address of a GMS: python examples/spark/quotes.py 127.0.0.1:7401
"""

import asyncio
import os
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec
from market import Average, Quote
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

import quicksilver
from quicksilver.recorder.exactly_once import exactly_once
from quicksilver.recorder.process import Recorder
from quicksilver.spark.sessions import make_session

GROUPS = {"quotes.fx": {"EURUSD": 1.08, "EURCHF": 0.94}, "quotes.metals": {"XAU": 2650.0}}
ROUNDS = 40
MUCH_LATER_S = 3600.0


def start_averaging(spark: SparkSession, gms: str, folder: Path) -> StreamingQuery:
    """Average the quotes of each symbol and second, and publish the seconds that are over."""
    quotes = (
        spark.readStream.format("quicksilver")
        .option("path", str(folder / "recording"))
        .option("subscribePattern", r"quotes\..*")
        .option("startingOffsets", "earliest")
        .option("schema", "market:Quote")
        .load()
    )
    averages = (
        quotes.where("_rescued is null")
        .withColumn("moment", f.timestamp_micros((f.col("at") * 1_000_000).cast("long")))
        .withWatermark("moment", "1 second")
        .groupBy("symbol", f.window("moment", "1 second").alias("span"))
        .agg(f.avg("price").alias("mean"), f.count("*").alias("quotes"))
    )
    results = averages.select(
        f.col("symbol").alias("key"),
        f.to_json(
            f.struct(
                "symbol",
                f.col("span.start").cast("long").alias("second"),
                "mean",
                "quotes",
            )
        ).alias("value"),
    )
    return (
        results.writeStream.format("quicksilver")
        .option("gms", gms)
        .option("topic", "averages")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .outputMode("append")
        .start()
    )


async def send_quotes(node: quicksilver.Node, recorder: Recorder) -> int:
    """Send quotes to both groups; return how many averages they make."""
    chance = random.Random(7)
    out = {name: await node.open(name, Quote) for name in GROUPS}
    for group in out.values():
        await group.wait_members(1)
    expected = set()
    for number in range(ROUNDS):
        for name, symbols in GROUPS.items():
            for symbol, price in symbols.items():
                at = number / 10
                await out[name].send(Quote(symbol, price * chance.uniform(0.99, 1.01), at))
                expected.add((symbol, int(at)))
    await node.flush()
    # A quote from much later closes the seconds of all before it, so those must be recorded.
    sent = ROUNDS * sum(map(len, GROUPS.values()))
    while sum(one.durable for one in recorder.status()) < sent:  # noqa: ASYNC110  # on disk
        await asyncio.sleep(0.05)
    await out["quotes.fx"].send(Quote("EURUSD", 1.08, MUCH_LATER_S))
    return len(expected)


async def main(gms: str, folder: Path) -> None:
    """Have it all in one program; the parts could be on different machines."""
    recorder = Recorder(gms, list(GROUPS), folder / "recording")
    recording = asyncio.ensure_future(recorder.run())
    await recorder.is_ready.wait()
    # Spark looks for formats in the session of the thread, so one thread is Spark's.
    worker = ThreadPoolExecutor(1)
    in_worker = partial(asyncio.get_running_loop().run_in_executor, worker)
    spark = await in_worker(make_session, "quotes")
    try:
        async with quicksilver.connect(gms) as node, quicksilver.connect(gms) as feed:
            averages = await node.join("averages")
            query = await in_worker(start_averaging, spark, gms, folder)
            expected = await send_quotes(feed, recorder)
            count = 0
            async for row in exactly_once(averages):
                average = msgspec.json.decode(row.value, type=Average)
                print(f"{average.symbol} {average.second} s: {average.mean:.4f}")
                count += 1
                if count == expected:
                    break
            await in_worker(query.stop)
            print(f"{count} averages of {expected}")
    finally:
        await in_worker(spark.stop)
        worker.shutdown()
        recording.cancel()
        await asyncio.wait([recording])


if __name__ == "__main__":
    # Spark's workers are processes of their own: they find `market` on this path.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(sys.argv[1], Path(name)))
