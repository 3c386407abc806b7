"""Results in between, kept so that they are made once and plans stay small.

A plan of a plan of a plan doubles with every use: Spark would spend minutes on
reading it. What is kept has no past. If the session has a checkpoint folder, that
is where it is, and it outlives the loss of a worker; otherwise it is in the memory
and on the disks of the workers themselves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
