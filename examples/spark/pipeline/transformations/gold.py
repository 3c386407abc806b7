"""Gold: by the second, made by the functions that `quicksilver gold` and `sql` use, too."""

from functools import partial

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quicksilver.spark.telemetry.anomalies import ACK_WAITS, SLOW_RECEIVERS
from quicksilver.spark.telemetry.transforms import GOLD


def make_gold(name: str) -> DataFrame:
    """One of the gold tables."""
    return GOLD[name](SparkSession.active().read.table("trace"))


for table in GOLD:
    dp.materialized_view(name=table)(partial(make_gold, table))


@dp.materialized_view
def ack_waits() -> DataFrame:
    """Acknowledgements that came later than usual, and for whom they waited."""
    return SparkSession.active().sql(ACK_WAITS)


@dp.materialized_view
def slow_receivers() -> DataFrame:
    """Empty for a healthy run. The other anomalies can be added in the same way."""
    return SparkSession.active().sql(SLOW_RECEIVERS)
