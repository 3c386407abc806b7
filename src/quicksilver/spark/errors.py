"""What can go wrong in pipelines, each one line that says what to do."""

from __future__ import annotations

from quicksilver.node.errors import QuicksilverError


class PipelineError(QuicksilverError):
    """Something about a data pipeline."""


class NoJavaError(PipelineError):
    """No Java that Spark can run on."""


class NoSparkError(PipelineError):
    """PySpark is not installed."""


class OptionError(PipelineError):
    """An option of the connector that is unknown, missing or malformed."""


class BadInputError(PipelineError):
    """Data that a job was given is not what it needs."""


class PublishError(PipelineError):
    """Rows could not be published."""
