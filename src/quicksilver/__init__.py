"""quicksilver: reliable multicast that scales with the number of groups.

What is named here is imported when it is first used. Commands and Spark's many Python
processes use little of it, and all of it takes a fifth of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quicksilver.multicast.sending.behind import Drop, Keep, Wait
    from quicksilver.node import sync
    from quicksilver.node.aio import Group, Node, connect
    from quicksilver.node.errors import (
        AddressError,
        AlreadyJoinedError,
        ClosedError,
        CoreFailedError,
        GmsUnreachableError,
        MessageTooLargeError,
        NotConnectedError,
        NotJoinedError,
        OptionError,
        QueueFullError,
        QuicksilverError,
        RefusedError,
        UnconfirmedError,
    )
    from quicksilver.node.messages import (
        Batch,
        Burst,
        Message,
        NodeStats,
        Unconfirmed,
        UnconfirmedReason,
        View,
    )
    from quicksilver.node.options import NodeOptions

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AlreadyJoinedError",
    "Batch",
    "Burst",
    "ClosedError",
    "CoreFailedError",
    "Drop",
    "GmsUnreachableError",
    "Group",
    "Keep",
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
    "Unconfirmed",
    "UnconfirmedError",
    "UnconfirmedReason",
    "View",
    "Wait",
    "connect",
    "sync",
]

_HOMES = ("errors", "messages", "options", "aio")
"""Modules of ``node`` that have these names, the light ones first."""


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("quicksilver.node.sync")
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"quicksilver.node.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
