"""One tree of exceptions: everything this package raises on purpose.

Each error carries its data and builds its text from it: what happened, and
what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.stdx.errors import QuicksilverError

if TYPE_CHECKING:
    from quicksilver.multicast.sending.unconfirmed import Unconfirmed
    from quicksilver.node.messages import Message

__all__ = [
    "AddressError",
    "AlreadyJoinedError",
    "ClosedError",
    "ConfigFileError",
    "CoreFailedError",
    "EmptyGroupError",
    "GmsNotFoundError",
    "GmsUnreachableError",
    "MessageTooLargeError",
    "MessageTypeError",
    "NoResponderError",
    "NotConnectedError",
    "NotJoinedError",
    "OptionError",
    "PatternError",
    "QueueFullError",
    "QuicksilverError",
    "RefusedError",
    "RequestFailedError",
    "RequestTimeoutError",
    "SeveralGmsError",
    "TimedOutError",
    "UnconfirmedError",
]

TOLD_MAX = 3
"""Groups and reasons in the text of one error; all are in its data."""


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
        return f"the node is not connected yet; connect it with {self.way_in}"


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


class TimedOutError(QuicksilverError, TimeoutError):
    """Something did not happen in the time that was given for it."""

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(what, timeout)
        self.what = what
        """What was waited for."""
        self.timeout = timeout
        """For how long, in seconds."""

    def __str__(self) -> str:
        return f"waited {self.timeout:g} s for {self.what}"


class EmptyGroupError(QuicksilverError):
    """A message to a group that nobody is in, and the choice is that this is an error."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return (
            f"nobody is in group {self.group!r}; wait_members(1) waits for somebody, "
            "and empty='wait' or 'drop' is another choice"
        )


class MessageTypeError(QuicksilverError, TypeError):
    """A message that is not of the type that its group carries."""

    def __init__(self, group: str, problem: str) -> None:
        super().__init__(group, problem)
        self.group = group
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot send to group {self.group!r}: {self.problem}"


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


class OptionError(QuicksilverError, ValueError):
    """An argument or a setting that cannot work."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


class AddressError(QuicksilverError, ValueError):
    """A GMS address that cannot be one."""

    def __init__(self, text: object) -> None:
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


class PatternError(QuicksilverError):
    """Something that is possible in one group only, and not in all that a pattern stands for."""

    def __init__(self, pattern: str, problem: str = "cannot be sent to") -> None:
        super().__init__(pattern, problem)
        self.pattern = pattern
        self.problem = problem

    def __str__(self) -> str:
        return f"pattern {self.pattern!r} {self.problem}; name one group"


class NoResponderError(QuicksilverError):
    """Nobody is there to answer a request."""

    def __init__(self, group: str, problem: str, answers: tuple[Message[bytes], ...] = ()) -> None:
        super().__init__(group, problem, answers)
        self.group = group
        self.problem = problem
        self.answers = answers
        """Those that came, where more were asked for than there are members to answer."""

    def __str__(self) -> str:
        return (
            f"nobody answers requests to {self.group!r}: {self.problem}; "
            "start a member that calls serve()"
        )


class RequestFailedError(QuicksilverError):
    """The handler of a request raised an error in place of an answer."""

    def __init__(
        self, group: str, responder: int, text: str, answers: tuple[Message[bytes], ...] = ()
    ) -> None:
        super().__init__(group, responder, text, answers)
        self.group = group
        self.responder = responder
        """The node whose handler it was."""
        self.text = text
        """What it raised, as text of at most 1,000 characters."""
        self.answers = answers
        """Answers of others, where several were asked for."""

    def __str__(self) -> str:
        return f"node {self.responder} could not answer a request to {self.group!r}: {self.text}"


class RequestTimeoutError(QuicksilverError, TimeoutError):
    """Not enough answers came in time."""

    def __init__(
        self, group: str, timeout_s: float, answers: tuple[Message[bytes], ...] = ()
    ) -> None:
        super().__init__(group, timeout_s, answers)
        self.group = group
        self.timeout_s = timeout_s
        self.answers = answers
        """Those that came."""

    def __str__(self) -> str:
        return (
            f"a request to {self.group!r} had {len(self.answers)} answers within "
            f"{self.timeout_s:g} s, too few; allow more time or look at those who serve it"
        )


class GmsNotFoundError(QuicksilverError):
    """No address was given, and nothing says where the GMS is."""

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(tried)
        self.tried = tried

    def __str__(self) -> str:
        return (
            f"no GMS was found; tried {', '.join(self.tried)}; "
            "start one with `quicksilver gms`, or give its host:port"
        )


class SeveralGmsError(QuicksilverError):
    """More than one GMS answered, and nothing says which one is meant."""

    def __init__(self, found: tuple[str, ...]) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"several GMS answered ({', '.join(self.found)}); name one of them"


class ConfigFileError(QuicksilverError):
    """A configuration file that cannot be used."""

    def __init__(self, path: str, problem: str, remedy: str = "correct it or remove it") -> None:
        super().__init__(path, problem, remedy)
        self.path = path
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.path} {self.problem}; {self.remedy}"
