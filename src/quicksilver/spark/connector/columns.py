"""Messages as columns: those of Spark's Kafka source, or the fields of a msgspec struct.

The former are taken from segments as they lie on disk. With ``option("schema",
"module:Struct")`` values are decoded; what does not decode goes whole into a column
of its own, ``_rescued``, with all fields null, so that nothing is lost and nothing
stops.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from quicksilver.spark.connector.options import SourceOptions
from quicksilver.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


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


RESCUED = "_rescued"
META = ("topic", "offset", "timestamp")

_SCALARS: dict[Any, tuple[str, pa.DataType]] = {
    int: ("bigint", pa.int64()),
    float: ("double", pa.float64()),
    str: ("string", pa.string()),
    bytes: ("binary", pa.binary()),
    bool: ("boolean", pa.bool_()),
}


class TypedDecoder:
    """Turns values of a struct into columns."""

    def __init__(self, name: str, struct: type[msgspec.Struct]) -> None:
        self.name = name
        self.fields = {
            field.name: _type_of(name, field.name, field.type)
            for field in msgspec.structs.fields(struct)
        }
        clash = self.fields.keys() & {RESCUED, *META}
        if clash:
            raise OptionError(f"option schema: {name} has a field {min(clash)!r}, a column of ours")
        self._decoder = msgspec.msgpack.Decoder(struct)

    @property
    def spark_schema(self) -> str:
        """The columns, as Spark writes a schema."""
        columns = [f"`{name}` {spark}" for name, (spark, _) in self.fields.items()]
        meta = ["`topic` string", "`offset` bigint", "`timestamp` timestamp"]
        return ", ".join([*columns, *meta, f"`{RESCUED}` binary"])

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [*self.fields, *META, RESCUED]

    def decode(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the fields as columns."""
        types = {name: arrow for name, (_, arrow) in self.fields.items()}
        for batch in batches:
            columns: dict[str, list[Any]] = {name: [] for name in types}
            rescued: list[bytes | None] = []
            for value in batch.column("value").to_pylist():
                row = self._decode_one(value)
                rescued.append(value if row is None else None)
                for name, cells in columns.items():
                    cells.append(None if row is None else getattr(row, name))
            arrays = [pa.array(cells, types[name]) for name, cells in columns.items()]
            arrays += [batch.column(name) for name in META]
            arrays.append(pa.array(rescued, pa.binary()))
            yield pa.RecordBatch.from_arrays(arrays, names=[*columns, *META, RESCUED])

    def _decode_one(self, value: bytes) -> Any:
        try:
            return self._decoder.decode(value)
        except (msgspec.MsgspecError, ValueError):
            return None


@cache
def find_decoder(name: str) -> TypedDecoder:
    """Return the decoder for ``module:Struct``; raises OptionError."""
    module_name, colon, struct_name = name.partition(":")
    if not colon:
        raise OptionError(f"option schema: write module:Struct, not {name!r}")
    try:
        struct = getattr(importlib.import_module(module_name), struct_name)
    except (ImportError, AttributeError) as error:
        raise OptionError(f"option schema: {name} cannot be imported: {error}") from None
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        raise OptionError(f"option schema: {name} is no msgspec.Struct")
    return TypedDecoder(name, struct)


def _type_of(struct: str, field: str, annotation: Any) -> tuple[str, pa.DataType]:
    import types
    import typing

    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(annotation) if one is not type(None)]
        if len(kinds) == 1:
            annotation = kinds[0]
    if typing.get_origin(annotation) is list:
        spark, arrow = _type_of(struct, field, typing.get_args(annotation)[0])
        return f"array<{spark}>", pa.list_(arrow)
    if typing.get_origin(annotation) is dict:
        key, value = (_type_of(struct, field, one) for one in typing.get_args(annotation))
        return f"map<{key[0]}, {value[0]}>", pa.map_(key[1], value[1])
    found = _SCALARS.get(annotation)
    if found is None:
        known = "int, float, str, bytes, bool, lists and dicts of them, or None"
        raise OptionError(f"option schema: field {field!r} of {struct} is not made of {known}")
    return found
