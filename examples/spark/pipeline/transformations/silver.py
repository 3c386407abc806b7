"""Silver: no record twice, and one clock for all nodes of a run."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quicksilver.spark.telemetry.transforms import to_evidence, to_offsets, to_silver


@dp.materialized_view
def clock_offsets() -> DataFrame:
    """What to add to each node's clock."""
    return to_offsets(to_evidence(SparkSession.active().read.table("bronze")))


@dp.materialized_view
def trace() -> DataFrame:
    """Every record once, on one clock."""
    spark = SparkSession.active()
    return to_silver(spark.read.table("bronze"), spark.read.table("clock_offsets"))
