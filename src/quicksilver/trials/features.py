"""What the applications of a trial use beyond plain messages to groups by name."""

from __future__ import annotations

import msgspec


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Headers, queues and patterns; by default none."""

    enveloped_every: int = 0
    """Every so manieth message of a node to a group has an envelope; 0: none has."""
    queued: frozenset[str] = frozenset()
    """Groups whose members share a queue, besides getting all messages."""
    by_pattern: frozenset[int] = frozenset()
    """Nodes, by index, that join by patterns in place of names."""
