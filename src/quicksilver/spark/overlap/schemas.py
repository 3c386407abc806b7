"""The tables of overlap planning, and the rows of a plan on their way from tasks to tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

if TYPE_CHECKING:
    import pandas as pd

    from quicksilver.spark.overlap.tasks import PlanRow


PAIRS = StructType(
    [StructField("node", StringType(), False), StructField("group", StringType(), False)]
)
"""One row for each group that a node is in."""

CLASS_KEY = ("class_high", "class_low", "class_size")
"""What identifies nodes with equal groups: two hashes of 64 bits, and the number of groups."""

PLACES = StructType(
    [
        StructField("node", StringType(), False),
        StructField("hierarchy", IntegerType(), False),
        StructField("region", LongType(), False),
    ]
)
"""Where a plan puts nodes: one region in each hierarchy that concerns them."""

LEVELS = StructType(
    [StructField("group", StringType(), False), StructField("hierarchy", IntegerType(), False)]
)
"""The hierarchy of each group."""

PLAN_ROWS = StructType(
    [
        StructField("kind", StringType(), False),
        StructField("name", StringType(), False),
        StructField("hierarchy", IntegerType(), False),
        StructField("region", LongType(), True),
    ]
)
"""Places and levels in one table: what a task that plans gives back."""


WITH_COMPONENT = "component string, kind string, name string, hierarchy int, region long"


def as_frame(rows: Iterable[PlanRow], component: str) -> pd.DataFrame:
    """Return what a task made, as it gives it back."""
    import pandas as pd

    columns = ["kind", "name", "hierarchy", "region"]
    frame = pd.DataFrame(rows, columns=columns).astype({"region": "Int64", "hierarchy": "int32"})
    frame.insert(0, "component", component)
    return frame


def number_regions(made: DataFrame) -> DataFrame:
    """Give the regions of all parts numbers of their own: a hash of where they come from."""
    own = F.when(F.col("region").isNotNull(), F.xxhash64("component", "hierarchy", "region"))
    return made.select("kind", "name", "hierarchy", own.alias("region")).select(
        *PLAN_ROWS.fieldNames()
    )
