"""Where Spark looks for the format ``quicksilver``: no registration is needed."""

from quicksilver.spark.connector.datasource import GroupSource


class DefaultSource(GroupSource):
    """The connector, under the name that Spark searches for."""
