"""What can be wrong with data that somebody wants analysed."""

from __future__ import annotations

from quicksilver.node.errors import QuicksilverError


class BadInputError(QuicksilverError):
    """Data that a job was given is not what it needs; the text says what would do."""
