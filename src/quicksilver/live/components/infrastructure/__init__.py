"""Channels, membership, order, persistence: what other objects are built on."""

from quicksilver.live.components.infrastructure.backup import Backup
from quicksilver.live.components.infrastructure.checkpointed import CheckpointedGroup, TotalOrder
from quicksilver.live.components.infrastructure.group_channel import GroupChannel
from quicksilver.live.components.infrastructure.membership import GroupMembership

COMPONENTS: tuple[type, ...] = (
    Backup,
    CheckpointedGroup,
    GroupChannel,
    GroupMembership,
    TotalOrder,
)
"""All of them, for the library."""
