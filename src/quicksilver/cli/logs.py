"""``-v`` and ``--log-json``: what the loggers named ``quicksilver.*`` say, on standard error.

Without them warnings are shown: a log line may name nodes and groups of others, and Python's
own way to print warnings would hand their control characters to the terminal.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from quicksilver.cli.output import LINE_CHARS_MAX, is_json
from quicksilver.stdx.text import printable

ROOT = "quicksilver"
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""By how often ``-v`` was given."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def start_logging(verbose: int, *, as_json: bool) -> None:
    """Show what happens in this process, as much as was asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json or is_json() else Lines())
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(LEVELS[min(verbose, len(LEVELS) - 1)])


class Lines(logging.Formatter):
    """One line for people: time, level, logger, what happened."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in which nothing is obeyed by a terminal."""
        text = printable(_text_of(record, self), LINE_CHARS_MAX)
        return f"{_time_of(record)} {record.levelname.lower():<7} {record.name}: {text}"


class JsonLines(logging.Formatter):
    """One JSON object per line; what a logger was given as ``extra`` is in ``fields``."""

    def __init__(self) -> None:
        super().__init__()
        self._encode = msgspec.json.Encoder(enc_hook=str).encode

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as text."""
        fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        found: dict[str, Any] = {
            "event": "log",
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": printable(_text_of(record, self), LINE_CHARS_MAX),
        }
        return self._encode(found | ({"fields": fields} if fields else {})).decode()


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _text_of(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    text = record.getMessage()
    if record.exc_info and record.exc_info[0] is not None:
        text += f"; {formatter.formatException(record.exc_info)}"
    return text
