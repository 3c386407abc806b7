"""Identifiers that appear on the wire.

A node identifier names one incarnation: the GMS never hands the same number
out twice, so a node that restarts is a new node and packets of the dead one
can be told apart.
"""

from typing import NewType

NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", int)
RegionId = NewType("RegionId", int)
ViewNumber = NewType("ViewNumber", int)

Address = tuple[str, int]
"""An IPv4 address in dotted form and a UDP port."""

GROUPS_MAX = 1 << 31
"""Groups have numbers below this: the other half of the range is their second numbers."""


def enveloped_group(group: int) -> int:
    """Return the number under which a group's messages with an envelope travel."""
    return group | GROUPS_MAX


def plain_group(number: int) -> int:
    """Return the group that either of its two numbers means."""
    return number & (GROUPS_MAX - 1)
