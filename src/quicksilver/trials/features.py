"""What the applications of a trial use beyond plain messages to groups by name."""

from __future__ import annotations

import msgspec

from quicksilver.multicast.reply_groups import REPLY_GROUPS_MAX


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """Headers, queues, patterns, retained values and requests; by default none."""

    enveloped_every: int = 0
    """Every so manieth message of a node to a group has an envelope; 0: none has."""
    queued: frozenset[str] = frozenset()
    """Groups whose members share a queue, besides getting all messages."""
    by_pattern: frozenset[int] = frozenset()
    """Nodes, by index, that join by patterns in place of names."""
    retain: int = 0
    """How many values of each key are kept by those who send values."""
    value_senders: frozenset[int] = frozenset()
    """Nodes, by index, that send values while faults last …"""
    value_members: frozenset[int] = frozenset()
    """… and those that get them from the start. The others join when all is healed."""
    servers: frozenset[int] = frozenset()
    """Nodes, by index, that answer questions …"""
    askers: frozenset[int] = frozenset()
    """… and those that ask them."""
    reply_groups_max: int = REPLY_GROUPS_MAX
    """Of how many askers a server keeps the reply groups open."""
