"""Channels, membership, order, persistence: what other objects are built on."""

from quicksilver.live.components.infrastructure.backup import Backup
from quicksilver.live.components.infrastructure.channels import (
    GroupChannel,
    GroupMembership,
    UdpChannel,
)
from quicksilver.live.components.infrastructure.checkpointed import CheckpointedGroup, TotalOrder
from quicksilver.live.components.infrastructure.folder import SharedFolder
from quicksilver.live.components.infrastructure.lock import Lock
from quicksilver.live.components.infrastructure.loss_recovery import LossRecovery
from quicksilver.live.components.infrastructure.presence import Presence
from quicksilver.live.components.infrastructure.timer import Timer
from quicksilver.live.components.infrastructure.tunnel import Tunnel

COMPONENTS: tuple[type, ...] = (
    Backup,
    CheckpointedGroup,
    GroupChannel,
    GroupMembership,
    Lock,
    LossRecovery,
    Presence,
    SharedFolder,
    Timer,
    TotalOrder,
    Tunnel,
    UdpChannel,
)
"""All of them, for the library."""
