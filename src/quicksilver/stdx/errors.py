"""The root of all errors that quicksilver raises on purpose."""

from __future__ import annotations


class QuicksilverError(Exception):
    """Base class of all errors of quicksilver: ``except quicksilver.QuicksilverError`` catches them
    all."""
