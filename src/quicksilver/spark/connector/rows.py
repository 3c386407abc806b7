"""Rows as Spark sees them: the columns of its Kafka source, from segments as they lie on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from quicksilver.spark.connector.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def row_schema(options: SourceOptions) -> StructType:
    """Return the columns of a query without a schema of its own."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
    if options.includes_sender:
        fields += [
            StructField("sender", LongType()),
            StructField("sequence", LongType()),
            StructField("view", LongType()),
        ]
    if options.includes_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        fields.append(StructField("headers", ArrayType(header)))
    return StructType(fields)


def to_rows(
    batches: Iterator[pa.RecordBatch], group: str, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """Yield segments' batches with Spark's columns; values are not copied."""
    schema: pa.Schema | None = None
    for batch in batches:
        count = batch.num_rows
        if not count:
            continue
        columns = {
            "key": batch.column("key"),
            "value": batch.column("value"),
            "topic": pa.repeat(pa.scalar(group, pa.string()), count),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "offset": batch.column("offset"),
            "timestamp": batch.column("timestamp"),
        }
        if options.includes_sender:
            columns["sender"] = batch.column("sender")
            columns["sequence"] = batch.column("sequence")
            columns["view"] = batch.column("batch")
        if options.includes_headers:
            columns["headers"] = batch.column("headers")
        if schema is None:
            schema = pa.schema([pa.field(name, one.type) for name, one in columns.items()])
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
