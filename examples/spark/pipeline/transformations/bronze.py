"""Bronze: the records as they were written, taken in as files appear."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quicksilver.spark.telemetry import schemas

TRACES = os.environ.get("QUICKSILVER_TRACES", "")
if not os.path.isdir(TRACES):
    raise SystemExit("set QUICKSILVER_TRACES to a folder that --trace wrote")


@dp.table
def bronze() -> DataFrame:
    """Records of all kinds, null where a kind has no such column."""
    spark = SparkSession.active()
    return (
        spark.readStream.schema(schemas.ddl(schemas.BRONZE))
        .option("basePath", TRACES)
        .option("ignoreCorruptFiles", "true")
        # A stream heeds basePath, and so finds the column run, only with a pattern.
        .parquet(f"{TRACES}/run=*")
    )
