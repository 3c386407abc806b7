"""What a membership service waits for; its parts share one table."""

from __future__ import annotations

import enum
from typing import TypeAlias

from quicksilver.stdx.timers import TimerTable


class Timer(enum.Enum):
    """What the service waits for."""

    BATCH = enum.auto()
    BARRIER = enum.auto()
    """Joins wait for only so long until senders have confirmed them."""
    CHECKPOINT = enum.auto()
    GREETING = enum.auto()
    """A connection may be idle for only so long."""
    HEALTH = enum.auto()
    """A node may be silent or disconnected for only so long."""
    TRAFFIC = enum.auto()
    """The plan is to be compared with one for the traffic of the moment."""
    INSPECT = enum.auto()
    """Tools wait for the rate of snapshots."""
    SILENCE = enum.auto()
    """A node may be silent for only so long to its peers."""


Timers: TypeAlias = TimerTable[tuple[Timer, int]]
"""With the number of a connection or a node, where there is one for each; else 0."""
