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
