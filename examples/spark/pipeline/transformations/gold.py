"""Gold: by the second, made by the functions that `quicksilver gold` and `sql` use, too."""

from functools import partial

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from quicksilver.spark.telemetry.anomalies import VIEWS
from quicksilver.spark.telemetry.transforms import GOLD

# Of the anomalies those that need no Python: waves are found by a function.
ANOMALIES = {name: text for name, text in VIEWS.items() if name != "oscillation"}


def make_gold(name: str) -> DataFrame:
    """One of the gold tables."""
    return GOLD[name](SparkSession.active().read.table("trace"))


def make_anomaly(name: str) -> DataFrame:
    """One of the views that are empty for a healthy run."""
    return SparkSession.active().sql(ANOMALIES[name])


for table in GOLD:
    dp.materialized_view(name=table)(partial(make_gold, table))
for table in ANOMALIES:
    dp.materialized_view(name=table)(partial(make_anomaly, table))
