"""A user's program: a session that Spark makes, and the format ``quicksilver`` by its name alone.

``python plain.py GMS RECORDING CHECKPOINT``; prints how many rows each way gave.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main() -> None:
    gms, recording, checkpoint = sys.argv[1:]
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
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
    print(json.dumps({"batch": batch.count(), "stream": streamed, "java": java}), flush=True)
    spark.stop()


main()
