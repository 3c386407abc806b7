"""Reliability over channels that lose, repeat and reorder (Code 2.2, 2.3)."""
