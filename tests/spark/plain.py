"""A user's program: the format ``quicksilver`` by its name, in a session of either kind.

``python plain.py plain|ours GMS RECORDING CHECKPOINT``: a session that Spark makes, or
that of ``quicksilver.spark``. Prints how many rows each way gave.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def made(kind: str) -> Iterator[SparkSession]:
    if kind == "ours":
        # Not even imported where Spark makes the session.
        from quicksilver.spark import session

        with session() as spark:
            yield spark
    else:
        spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
        yield spark
        spark.stop()


def main(kind: str, gms: str, recording: str, checkpoint: str) -> None:
    with made(kind) as spark:
        told = copy(spark, gms, recording, checkpoint)
    print(json.dumps(told), flush=True)


def copy(spark: SparkSession, gms: str, recording: str, checkpoint: str) -> dict[str, object]:
    """Read a batch and a stream, write both."""
    java = spark.sparkContext._jvm.System.getProperty("java.home")
    options = {"path": recording, "subscribe": "prices"}
    batch = spark.read.format("quicksilver").options(**options).load()
    stream = (
        spark.readStream.format("quicksilver")
        .options(**options, startingOffsets="earliest")
        .load()
        .selectExpr("cast(cast(value as string) * 2 as string) as value")
        .writeStream.format("quicksilver")
        .options(gms=gms, topic="doubled", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    stream.awaitTermination()
    batch.select("value").write.format("quicksilver").mode("append").options(
        gms=gms, topic="copied"
    ).save()
    streamed = sum(progress.numInputRows for progress in stream.recentProgress)
    return {"batch": batch.count(), "stream": streamed, "java": java}


main(*sys.argv[1:])
