"""The data source that Spark finds under the name ``quicksilver``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from quicksilver.spark.connector.columns import find_decoder, row_schema
from quicksilver.spark.connector.options import parse_sink_options, parse_source_options
from quicksilver.spark.connector.source import GroupReader, GroupStreamReader
from quicksilver.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class GroupSource(DataSource):
    """Groups: recorded ones to read, live ones to write to."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "quicksilver"

    def schema(self) -> StructType | str:
        """Return the columns."""
        options = parse_source_options(self.options, is_stream=False)
        if options.schema is not None:
            return find_decoder(options.schema).spark_schema
        return row_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:  # called by keyword
        """Return the reader of a batch query."""
        self._check_schema(schema)
        return GroupReader(parse_source_options(self.options, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a streaming query."""
        self._check_schema(schema)
        return GroupStreamReader(parse_source_options(self.options, is_stream=True))

    def _check_schema(self, given: StructType) -> None:
        """Raise OptionError if ``.schema(...)`` asked for other columns than there are."""
        own = self.schema()
        if isinstance(own, str):
            decoder = find_decoder(self.options["schema"])
            is_same, there = given.names == decoder.names, ", ".join(decoder.names)
        else:
            is_same = given.simpleString() == own.simpleString()
            there = own.simpleString().removeprefix("struct<").removesuffix(">")
        if not is_same:
            what = "leave .schema() out; the option schema decodes values"
            raise OptionError(f"the columns are {there}: {what}")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch query."""
        # Late: Spark starts a Python for every plan of a query, and readers need no node.
        from quicksilver.spark.connector.sink import GroupWriter, check_columns

        if overwrite:
            raise OptionError("a group cannot be overwritten: use mode append")
        options = parse_sink_options(self.options)
        check_columns(schema, options)
        return GroupWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a streaming query; output mode complete sends all of it again."""
        from quicksilver.spark.connector.sink import GroupStreamWriter, check_columns

        options = parse_sink_options(self.options)
        check_columns(schema, options)
        return GroupStreamWriter(options)
