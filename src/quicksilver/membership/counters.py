"""What a membership service counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ServiceCounters:
    """What happened since the service was made."""

    adapted: int = 0
    """Plans that were made anew because the traffic asked for it."""
    batches: int = 0
    crowded: int = 0
    """Connections that were closed because there were too many, or held too much."""
    excluded: int = 0
    failed: int = 0
    """Nodes that were silent or disconnected for too long."""
    goodbyes: int = 0
    held_up: int = 0
    """Times that the GMS itself stood still."""
    hybrid_moves: int = 0
    """Steps of groups to and from an address of their own."""
    holds: int = 0
    """Times that most nodes were silent, and the GMS suspected itself."""
    impostors: int = 0
    """Attempts to resume as a node without its secret."""
    inspects: int = 0
    inspects_dropped: int = 0
    """Requests for a snapshot from tools that had not taken the one before."""
    idle: int = 0
    """Connections that were closed because they said nothing."""
    joins_unconfirmed: int = 0
    """Times that a node did not confirm a view in time, and joins no longer waited for it."""
    malformed: int = 0
    missed: int = 0
    """Nodes that could not resume because of views they never heard of."""
    patterns_cut: int = 0
    """Groups that nodes' patterns stood for and that they were not let into: they have too many."""
    refused: int = 0
    refused_subscriptions: int = 0
    resumed: int = 0
    silent: int = 0
    """Nodes that failed without their connection having ended."""
    unreached: int = 0
    """Nodes that peers could not reach for too long, whatever the GMS heard of them."""
    slow: int = 0
    """Nodes that did not read what they were sent."""
