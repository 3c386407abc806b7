"""What can go wrong in pipelines, each one line that says what to do."""

from __future__ import annotations

import re

from quicksilver.node.errors import QuicksilverError

_OURS = re.compile(r"^quicksilver\.[\w.]+Error: (.*)$", re.MULTILINE)


def reason(error: BaseException) -> str | None:
    """Return what the connector said in an error that Spark made of it; None if it said nothing.

    Spark puts a traceback before it and, for streams, a plan after it.
    """
    found = _OURS.findall(str(error))
    return str(found[-1]).strip() if found else None


class PipelineError(QuicksilverError):
    """Base of errors of data pipelines."""


class NoJavaError(PipelineError):
    """No Java that Spark can run on."""


class NoSparkError(PipelineError):
    """PySpark is not installed."""


class OptionError(PipelineError):
    """An option of the connector that is unknown, missing or malformed."""


class PublishError(PipelineError):
    """Rows could not be published."""
