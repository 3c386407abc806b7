"""The tables of overlap planning."""

from __future__ import annotations

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

PAIRS = StructType(
    [StructField("node", StringType(), False), StructField("group", StringType(), False)]
)
"""One row for each group that a node is in."""

TRAFFIC = StructType(
    [StructField("group", StringType(), False), StructField("rate", DoubleType(), False)]
)
"""Messages a second in each group; a group that is not there has none."""

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
