"""One tree of exceptions: everything this package raises on purpose.

Each error carries its data and builds its text from it: what happened, and
what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quicksilver.multicast.sending.unconfirmed import Unconfirmed

TOLD_MAX = 3
"""Groups and reasons in the text of one error; all are in its data."""


class QuicksilverError(Exception):
    """Base of all errors of quicksilver."""


class GmsUnreachableError(QuicksilverError):
    """No GMS answered at the address."""

    def __init__(self, address: str, cause: str) -> None:
        super().__init__(address, cause)
        self.address = address
        self.cause = cause

    def __str__(self) -> str:
        return (
            f"no GMS at {self.address} ({self.cause}); "
            "start one with `quicksilver gms` or check the address"
        )


class NotConnectedError(QuicksilverError):
    """The node was used before it was connected."""

    def __init__(self, way_in: str) -> None:
        super().__init__(way_in)
        self.way_in = way_in

    def __str__(self) -> str:
        return f"the node is not connected yet; connect it with `{self.way_in}:`"


class RefusedError(QuicksilverError):
    """The GMS refused the node or its request."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the GMS refused: {self.reason}"


class UnconfirmedError(QuicksilverError):
    """Messages that were sent may not have reached everyone who should have them."""

    def __init__(self, messages: tuple[Unconfirmed, ...]) -> None:
        super().__init__(messages)
        self.messages = messages
        """Which, to whom and why: a note for each group and reason, of at most 256."""

    @property
    def count(self) -> int:
        """How many messages may be lost, without those that only members lack who are gone."""
        return sum(each.count for each in self.messages if each.reason.is_failure)

    def __str__(self) -> str:
        failures = [each for each in self.messages if each.reason.is_failure]
        told = "; ".join(map(str, failures[:TOLD_MAX]))
        more = len(failures) - TOLD_MAX
        others = f"; and {more} more groups or reasons" if more > 0 else ""
        noun = "message" if self.count == 1 else "messages"
        return (
            f"{self.count:,} {noun} may not have arrived: {told}{others}; "
            "send again what must not be missed"
        )


class ClosedError(QuicksilverError):
    """The node or group was closed."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is closed"


class CoreFailedError(QuicksilverError):
    """The core thread ended with an error of its own."""

    def __init__(self, traceback: str) -> None:
        super().__init__(traceback)
        self.traceback = traceback

    def __str__(self) -> str:
        lines = self.traceback.strip().splitlines()
        return f"the core thread failed: {lines[-1] if lines else 'no traceback'}"


class MessageTooLargeError(QuicksilverError):
    """A message is longer than any message may be."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"a message of {self.size} bytes is over the limit of {self.limit}; split it"


class QueueFullError(QuicksilverError):
    """A callback on the core thread sends faster than the network takes it."""

    def __init__(self, queued_bytes: int) -> None:
        super().__init__(queued_bytes)
        self.queued_bytes = queued_bytes

    def __str__(self) -> str:
        return (
            f"{self.queued_bytes} bytes wait to be sent, the last message among them; "
            "send from a thread of your own, which can wait, or use send_from"
        )


class AlreadyJoinedError(QuicksilverError):
    """A node is in a group once."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return (
            f"this node has joined {self.group!r} already; use the group that it has, or leave it"
        )


class OptionError(QuicksilverError):
    """A setting that cannot work."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


class AddressError(QuicksilverError):
    """A GMS address that cannot be one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} is not a GMS address; give host:port, for example 127.0.0.1:7401"


class NotJoinedError(QuicksilverError):
    """Receiving from a group that was only opened for sending."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return f"group {self.group!r} was opened for sending only; join it to receive"
