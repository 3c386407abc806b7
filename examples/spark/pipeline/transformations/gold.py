"""Gold: by the second, made by the functions that `quicksilver gold` and `sql` use, too."""

from functools import partial

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quicksilver.spark.telemetry.anomalies import VIEWS
from quicksilver.spark.telemetry.transforms import GOLD, to_waves


def make_gold(name: str) -> DataFrame:
    """One of the gold tables."""
    return GOLD[name](SparkSession.active().read.table("trace"))


def make_anomaly(name: str) -> DataFrame:
    """One of the views that are empty for a healthy run."""
    return SparkSession.active().sql(VIEWS[name])


@dp.materialized_view
def waves() -> DataFrame:
    """The strongest wave in what each node receives."""
    return to_waves(SparkSession.active().read.table("node_seconds"))


for table in GOLD:
    dp.materialized_view(name=table)(partial(make_gold, table))
for table in VIEWS:
    dp.materialized_view(name=table)(partial(make_anomaly, table))
