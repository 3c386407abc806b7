"""Results in between, kept so that they are made once and plans stay small.

A plan of a plan of a plan doubles with every use: Spark would spend minutes on
reading it. What is kept has no past. If the session has a checkpoint folder, that
is where it is, and it outlives the loss of a worker; otherwise it is in the memory
and on the disks of the workers themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def keep(table: DataFrame) -> DataFrame:
    """Return the same table, made now and once."""
    if table.sparkSession.sparkContext.getCheckpointDir() is not None:
        return table.checkpoint()
    return table.localCheckpoint()
