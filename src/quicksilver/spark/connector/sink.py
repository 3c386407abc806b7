"""``df.write`` and ``df.writeStream`` to groups.

A task publishes its partition through a node of its worker process, each row in
an envelope that says which query, batch, partition and row it is, and returns
when every member of the groups has them. A task that is run again sends the
same rows under the same names, and whoever receives them drops the repeats.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from quicksilver.spark.connector.options import SinkOptions
from quicksilver.spark.connector.packing import Packer, normalise
from quicksilver.spark.connector.publishing import Destination
from quicksilver.spark.errors import OptionError, PublishError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


class Published(WriterCommitMessage):
    """How many rows a task published; Spark brings it to the driver."""

    def __init__(self, partition: int, rows: int) -> None:
        self.partition = partition
        self.rows = rows


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError if a DataFrame cannot be published."""
    allowed = {
        "value": ("string", "binary"),
        "key": ("string", "binary"),
        "topic": ("string",),
        "headers": ("array<struct<key:string,value:binary>>",),
    }
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, kind in found.items():
        if name not in allowed:
            known = ", ".join(allowed)
            raise OptionError(f"column {name!r} cannot be published; select {known}, or pack it")
        if kind not in allowed[name]:
            wanted = " or ".join(allowed[name])
            raise OptionError(f"column {name} is {kind}: cast it to {wanted}")
    if "value" not in found:
        raise OptionError("there is no column value: select what is to be published as value")
    if "topic" not in found and options.topic is None:
        raise OptionError("say which group: option topic, or a column topic")


def _publish(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], query: bytes, batch: int
) -> Published:
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    destination = Destination(
        options.gms,
        interface=options.interface,
        members_min=options.members_min,
        recorders=options.recorders,
        flush_timeout_s=options.flush_timeout_s,
    )
    plain = (normalise(one, options.topic) for one in batches if one.num_rows)
    messages = Packer(query, batch, partition).messages(
        plain, by_content=options.order == "content"
    )
    first = next(messages, None)
    if first is None:
        return Published(partition, 0)  # no node is needed for an empty partition
    return Published(partition, destination.publish(chain([first], messages)))


class GroupWriter(DataSourceArrowWriter):
    """A batch write: a job of its own, with a name that no other has."""

    def __init__(self, options: SinkOptions) -> None:
        self._options_data = msgspec.json.encode(options)
        self._query = uuid.uuid4().bytes

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition."""
        options = msgspec.json.decode(self._options_data, type=SinkOptions)
        return _publish(options, iterator, self._query, 0)


class GroupStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: named by the query, which its checkpoint keeps."""

    def __init__(self, options: SinkOptions) -> None:
        self._options_data = msgspec.json.encode(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish one partition of one micro-batch."""
        options = msgspec.json.decode(self._options_data, type=SinkOptions)
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(_QUERY)
        batch = context.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise PublishError("Spark does not say which query and batch this is: use Spark 4.3")
        name = hashlib.blake2b(query.encode(), digest_size=16).digest()
        return _publish(options, iterator, name, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is left to do: rows are out when their task ends, and a repeat is harmless."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing can be taken back; the batch is run again under the same name."""
