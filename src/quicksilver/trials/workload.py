"""The load of trials: numbered messages."""

from __future__ import annotations

from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import make_payload


def send_numbered(node: SimNode, group: str, count: int, size: int = 100) -> None:
    """Have a node's application send its next messages to a group."""
    first = node.planned[group]
    node.planned[group] = first + count
    node.send(
        group,
        *[make_payload(group, node.index, node.life, first + i, size) for i in range(count)],
    )
