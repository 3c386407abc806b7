"""What memory a GMS may take: every byte belongs to one of these budgets.

What strangers and nodes can make a GMS hold is bounded by ``ServiceConfig``; this
module adds it up, so that whoever runs a GMS can size its machine and a test can
hold the service to it. The interpreter itself, some 40 MB, comes on top.
"""

from __future__ import annotations

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.tables import GROUP_BYTES

CONNECTION_BYTES = 80_000
"""A connection with its transport, up to 64 KiB that it has not sent, and timers; kernel
buffers are not counted."""

NODE_BYTES = 24_000
"""A node with its name, the numbers of its last heartbeat and what was told to it."""

MEMBERSHIP_BYTES = 100
"""A group in the set of a node that joined or opened it."""

MASKS = 8
"""Bit sets of nodes for every group, and of groups for every node; each is as long as
there are nodes, or groups."""

REQUEST_FACTOR = 4
"""Decoded names take more than their bytes in a request."""


def bounds(config: ServiceConfig, update_bytes: int) -> dict[str, int]:
    """Return the most that each thing may take, in bytes.

    ``update_bytes`` is the length of a complete update to one node, which a cluster's
    size gives: about 60 bytes for each node and 100 for each group that it knows. The
    GMS makes one at a time.
    """
    groups = min(config.groups_max, config.group_bytes_max // GROUP_BYTES)
    return {
        "connections": config.connections_max * CONNECTION_BYTES,
        "nodes": config.nodes_max * NODE_BYTES,
        "groups": config.group_bytes_max,
        "memberships": config.memberships_max * MEMBERSHIP_BYTES,
        "masks": groups * config.nodes_max * MASKS // 8,
        "input": config.input_bytes_max,
        "requests": config.request_bytes_max * REQUEST_FACTOR,
        "output": config.output_bytes_total_max,
        "batch": 4 * update_bytes,
    }
