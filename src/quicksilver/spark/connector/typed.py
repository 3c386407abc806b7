"""Groups of msgspec structs as decoded columns: ``option("schema", "module:Struct")``.

Fields become columns; what does not decode goes whole into a column of its own,
``_rescued``, with all fields null, so that nothing is lost and nothing stops.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from quicksilver.spark.errors import OptionError

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
