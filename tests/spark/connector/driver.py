"""A job that copies a recorded group into a live one, run again by itself when a task fails.

Started by the test that kills it: ``python -m tests.spark.connector.driver JSON``.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from quicksilver.spark.errors import reason
from quicksilver.spark.sessions import make_session
from tests.spark.conftest import TUNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


def main() -> None:
    plan = json.loads(sys.argv[1])
    memory = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    spark = make_session("driver", master=plan.get("master", "local[2]"), conf={**TUNED, **memory})
    print("started", flush=True)
    for _ in range(40):
        try:
            copy(spark, plan).awaitTermination()
        except Exception as error:  # noqa: BLE001  # any failure is what the test is about
            print("failed", reason(error) or " ".join(str(error).split())[-300:], flush=True)
            continue
        print("done", flush=True)
        return


def copy(spark: SparkSession, plan: dict[str, str]) -> StreamingQuery:
    """Start the query; planning it needs workers, too, which may just have been killed."""
    stream = (
        spark.readStream.format("quicksilver")
        .option("path", plan["logs"])
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", plan["rows_a_batch"])
        .load()
    )
    return (
        stream.select("key", "value")
        .repartition(2, "key")
        .writeStream.format("quicksilver")
        .option("gms", plan["gms"])
        .option("topic", "out")
        .option("recorders", plan["recorder"])
        .option("quicksilver.interface", "lo")
        .option("checkpointLocation", plan["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )


main()
