"""The tables of overlap planning, the rows of a plan on their way to them, and tables in between.

Tables in between are kept, so that they are made once and Spark's plans stay small. A plan
of a plan of a plan doubles with every use: Spark would spend minutes on reading it. What is
kept has no past. If the session has a checkpoint folder, that is where it is, and it outlives
the loss of a worker; otherwise it is in the memory and on the disks of the workers themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
    from pyspark.sql import DataFrame, SparkSession

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


@contextmanager
def checkpoints(spark: SparkSession, folder: Path) -> Iterator[None]:
    """On a cluster, keep results in between next to the output, for the time of a job."""
    if str(spark.sparkContext.master).startswith("local"):
        yield
        return
    own = folder / ".checkpoints"
    spark.sparkContext.setCheckpointDir(str(own))
    try:
        yield
    finally:
        shutil.rmtree(own, ignore_errors=True)


def keep(table: DataFrame) -> DataFrame:
    """Return the same table, made now and once."""
    if table.sparkSession.sparkContext.getCheckpointDir() is not None:
        return table.checkpoint()
    return table.localCheckpoint()
