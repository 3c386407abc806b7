"""quicksilver: reliable multicast that scales with the number of groups."""

from quicksilver.node import sync
from quicksilver.node.aio import Group, Node, connect
from quicksilver.node.errors import (
    AddressError,
    AlreadyJoinedError,
    ClosedError,
    CoreFailedError,
    ExcludedError,
    GmsUnreachableError,
    MessageTooLargeError,
    NotConnectedError,
    NotJoinedError,
    OptionError,
    QueueFullError,
    QuicksilverError,
    RefusedError,
)
from quicksilver.node.messages import Batch, Burst, Message, NodeStats, View
from quicksilver.node.options import NodeOptions

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AlreadyJoinedError",
    "Batch",
    "Burst",
    "ClosedError",
    "CoreFailedError",
    "ExcludedError",
    "GmsUnreachableError",
    "Group",
    "Message",
    "MessageTooLargeError",
    "Node",
    "NodeOptions",
    "NodeStats",
    "NotConnectedError",
    "NotJoinedError",
    "OptionError",
    "QueueFullError",
    "QuicksilverError",
    "RefusedError",
    "View",
    "connect",
    "sync",
]
