"""quicksilver: reliable multicast that scales with the number of groups.

Start with ``connect`` in asyncio programs, and with ``sync.connect`` in scripts and threads.

The names here are imported when they are first used. Commands and Spark's many Python processes use
few of them, and importing all takes a fifth of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quicksilver import sync
    from quicksilver.membership.names import BadGroupNameError
    from quicksilver.multicast.sending.behind import Drop, Keep, Wait
    from quicksilver.net.interfaces import InterfaceError
    from quicksilver.node.aio import Group, Node, connect
    from quicksilver.node.errors import (
        AddressError,
        AlreadyJoinedError,
        ClosedError,
        ConfigFileError,
        ControllerLostError,
        ControllerRefusedError,
        ControllerUnreachableError,
        CoreFailedError,
        EmptyGroupError,
        GmsNotFoundError,
        GmsUnreachableError,
        MessageTooLargeError,
        MessageTypeError,
        NeedsNodeError,
        NoResponderError,
        NotConnectedError,
        NotJoinedError,
        OptionError,
        PatternError,
        QueueFullError,
        QuicksilverError,
        RefusedError,
        RequestFailedError,
        RequestTimeoutError,
        ScopeLimitError,
        SeveralGmsError,
        TimedOutError,
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
    from quicksilver.node.tuning import tune

__version__ = "0.1.0"

__all__ = [
    "AddressError",
    "AlreadyJoinedError",
    "BadGroupNameError",
    "Batch",
    "Burst",
    "ClosedError",
    "ConfigFileError",
    "ControllerLostError",
    "ControllerRefusedError",
    "ControllerUnreachableError",
    "CoreFailedError",
    "Drop",
    "EmptyGroupError",
    "GmsNotFoundError",
    "GmsUnreachableError",
    "Group",
    "InterfaceError",
    "Keep",
    "Message",
    "MessageTooLargeError",
    "MessageTypeError",
    "NeedsNodeError",
    "NoResponderError",
    "Node",
    "NodeOptions",
    "NodeStats",
    "NotConnectedError",
    "NotJoinedError",
    "OptionError",
    "PatternError",
    "QueueFullError",
    "QuicksilverError",
    "RefusedError",
    "RequestFailedError",
    "RequestTimeoutError",
    "ScopeLimitError",
    "SeveralGmsError",
    "TimedOutError",
    "Unconfirmed",
    "UnconfirmedError",
    "UnconfirmedReason",
    "View",
    "Wait",
    "connect",
    "sync",
    "tune",
]

_HOMES = {
    "BadGroupNameError": "quicksilver.membership.names",
    "InterfaceError": "quicksilver.net.interfaces",
    **dict.fromkeys(("Drop", "Keep", "Wait"), "quicksilver.multicast.sending.behind"),
    **dict.fromkeys(("Group", "Node", "connect"), "quicksilver.node.aio"),
    **dict.fromkeys(
        ("Batch", "Burst", "Message", "NodeStats", "Unconfirmed", "UnconfirmedReason", "View"),
        "quicksilver.node.messages",
    ),
    "NodeOptions": "quicksilver.node.options",
    "tune": "quicksilver.node.tuning",
}
"""The modules that have these names; all others are errors."""


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("quicksilver.sync")
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "quicksilver.node.errors")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
