"""All errors that this package raises on purpose; each is a ``QuicksilverError``.

Each error carries its data. Its text says what happened and what to do next.
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
    "ControllerLostError",
    "ControllerRefusedError",
    "ControllerUnreachableError",
    "CoreFailedError",
    "EmptyGroupError",
    "GmsNotFoundError",
    "GmsUnreachableError",
    "MessageTooLargeError",
    "MessageTypeError",
    "NeedsNodeError",
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
    "ScopeLimitError",
    "SeveralGmsError",
    "TimedOutError",
    "UnconfirmedError",
]

TOLD_MAX = 3
"""How many groups and reasons the text of an ``UnconfirmedError`` names; its data has all."""


class GmsUnreachableError(QuicksilverError):
    """The GMS does not answer at its address."""

    def __init__(self, address: str, cause: str) -> None:
        super().__init__(address, cause)
        self.address = address
        """The GMS address, as ``host:port``."""
        self.cause = cause
        """Why there is no answer, as text."""

    def __str__(self) -> str:
        return (
            f"no GMS at {self.address} ({self.cause}); "
            "start one with `quicksilver gms` or check the address"
        )


class ScopeUnreachableError(GmsUnreachableError):
    """The manager of a scope answers at its address, and then no more, or it does not let the
    node in."""

    def __init__(self, address: str, cause: str, scope: str) -> None:
        super().__init__(address, cause)
        self.args = (address, cause, scope)
        self.scope = scope
        """The scope that is managed there."""

    def __str__(self) -> str:
        return (
            f"the manager of scope {self.scope!r} at {self.address} does not let this node in or "
            f"does not answer ({self.cause}); look at its log"
        )


class NotConnectedError(QuicksilverError):
    """The node was used before it was connected."""

    def __init__(self, way_in: str) -> None:
        super().__init__(way_in)
        self.way_in = way_in
        """The statement that connects the node."""

    def __str__(self) -> str:
        return f"the node is not connected yet; connect it with {self.way_in}"


class RefusedError(QuicksilverError):
    """The GMS refused the node or one of its requests; or the manager of a scope did."""

    def __init__(self, reason: str, scope: str = "") -> None:
        super().__init__(reason, scope)
        self.reason = reason
        """The reason that was given."""
        self.scope = scope
        """The scope whose manager refused; empty: it was a GMS."""

    def __str__(self) -> str:
        who = f"the manager of scope {self.scope!r}" if self.scope else "the GMS"
        return f"{who} refused: {self.reason}"


class ScopeLimitError(QuicksilverError):
    """A node of a scope was asked for something that only nodes of a GMS can do."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        """What was asked for."""

    def __str__(self) -> str:
        return f"{self.what}: not available in scopes yet; connect to a GMS for it"


class UnconfirmedError(QuicksilverError):
    """Messages that were sent may not have reached all members that should have them."""

    def __init__(self, messages: tuple[Unconfirmed, ...]) -> None:
        super().__init__(messages)
        self.messages = messages
        """Which messages, to which members, and why: one entry for each group and reason. There are
        at most 256 such entries; the messages of further groups share one entry per reason."""

    @property
    def count(self) -> int:
        """How many messages may be lost. Messages that only departed members lack are not
        counted."""
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
    """The node was closed, or the group was left."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        """What is closed: the node, or which group."""

    def __str__(self) -> str:
        return f"{self.what} is closed"


class CoreFailedError(QuicksilverError):
    """The node's core thread failed, because of a bug or because a callback on it raised an
    exception. The node cannot be used any more."""

    def __init__(self, traceback: str) -> None:
        super().__init__(traceback)
        self.traceback = traceback
        """The traceback of the exception, as text."""

    def __str__(self) -> str:
        lines = self.traceback.strip().splitlines()
        return f"the core thread failed: {lines[-1] if lines else 'no traceback'}"


class TimedOutError(QuicksilverError, TimeoutError):
    """Something did not happen within the time allowed."""

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(what, timeout)
        self.what = what
        """What the call waited for."""
        self.timeout = timeout
        """How long it waited, in seconds."""

    def __str__(self) -> str:
        return f"waited {self.timeout:g} s for {self.what}"


class EmptyGroupError(QuicksilverError):
    """A message was sent to a group without members, with ``empty="error"``. It was not queued."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group
        """The group's name."""

    def __str__(self) -> str:
        return (
            f"nobody is in group {self.group!r}; wait_members(1) waits for somebody, "
            "and empty='wait' or 'drop' is another choice"
        )


class MessageTypeError(QuicksilverError, TypeError):
    """The message is not of the group's type; in a group without a type, it is not bytes."""

    def __init__(self, group: str, problem: str) -> None:
        super().__init__(group, problem)
        self.group = group
        """The group's name."""
        self.problem = problem
        """What is wrong with the message."""

    def __str__(self) -> str:
        return f"cannot send to group {self.group!r}: {self.problem}"


class MessageTooLargeError(QuicksilverError):
    """The message exceeds the size limit; key and headers count."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        """The message's size in bytes."""
        self.limit = limit
        """The largest size allowed, in bytes."""

    def __str__(self) -> str:
        return f"a message of {self.size} bytes is over the limit of {self.limit}; split it"


class QueueFullError(QuicksilverError):
    """A callback on the core thread, which must not wait, sends faster than messages can leave."""

    def __init__(self, queued_bytes: int) -> None:
        super().__init__(queued_bytes)
        self.queued_bytes = queued_bytes
        """How many bytes wait to be sent."""

    def __str__(self) -> str:
        return (
            f"{self.queued_bytes} bytes wait to be sent, the last message among them; "
            "send from a thread of your own, which can wait, or use send_from"
        )


class AlreadyJoinedError(QuicksilverError):
    """The node is already in this group."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group
        """The group's name."""

    def __str__(self) -> str:
        return (
            f"this node has joined {self.group!r} already; use the group that it has, or leave it"
        )


class OptionError(QuicksilverError, ValueError):
    """An argument or option is not valid."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        """The name of the argument or option."""
        self.problem = problem
        """What is wrong with it."""

    def __str__(self) -> str:
        return f"{self.option}: {self.problem}"


class AddressError(QuicksilverError, ValueError):
    """The GMS address is not valid."""

    def __init__(self, text: object) -> None:
        super().__init__(text)
        self.text = text
        """What was given as the address."""

    def __str__(self) -> str:
        return f"{self.text!r} is not a GMS address; give host:port, for example 127.0.0.1:7401"


class NotJoinedError(QuicksilverError):
    """The group was only opened for sending, so nothing can be received from it."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group
        """The group's name."""

    def __str__(self) -> str:
        return f"group {self.group!r} was opened for sending only; join it to receive"


class PatternError(QuicksilverError):
    """The operation needs one group, but the name is a pattern."""

    def __init__(self, pattern: str, problem: str = "cannot be sent to") -> None:
        super().__init__(pattern, problem)
        self.pattern = pattern
        """The pattern."""
        self.problem = problem
        """What a pattern cannot do."""

    def __str__(self) -> str:
        return f"pattern {self.pattern!r} {self.problem}; name one group"


class NoResponderError(QuicksilverError):
    """No member is left that could answer the request."""

    def __init__(self, group: str, problem: str, answers: tuple[Message[bytes], ...] = ()) -> None:
        super().__init__(group, problem, answers)
        self.group = group
        """The group's name."""
        self.problem = problem
        """Why nobody answers."""
        self.answers = answers
        """The answers that came, if several were asked for."""

    def __str__(self) -> str:
        return (
            f"nobody answers requests to {self.group!r}: {self.problem}; "
            "start a member that calls serve()"
        )


class RequestFailedError(QuicksilverError):
    """The handler of a request raised an error instead of returning an answer."""

    def __init__(
        self, group: str, responder: int, text: str, answers: tuple[Message[bytes], ...] = ()
    ) -> None:
        super().__init__(group, responder, text, answers)
        self.group = group
        """The group's name."""
        self.responder = responder
        """The number of the node whose handler raised the error."""
        self.text = text
        """The error as text, at most 1,000 characters."""
        self.answers = answers
        """The answers of other members, if several were asked for."""

    def __str__(self) -> str:
        return f"node {self.responder} could not answer a request to {self.group!r}: {self.text}"


class RequestTimeoutError(QuicksilverError, TimeoutError):
    """Too few answers to a request came in time."""

    def __init__(
        self, group: str, timeout_s: float, answers: tuple[Message[bytes], ...] = ()
    ) -> None:
        super().__init__(group, timeout_s, answers)
        self.group = group
        """The group's name."""
        self.timeout_s = timeout_s
        """How long the request waited, in seconds."""
        self.answers = answers
        """The answers that came."""

    def __str__(self) -> str:
        return (
            f"a request to {self.group!r} had {len(self.answers)} answers within "
            f"{self.timeout_s:g} s, too few; allow more time or look at those who serve it"
        )


class GmsNotFoundError(QuicksilverError):
    """No GMS address was given, and none was found."""

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(tried)
        self.tried = tried
        """Where the node looked."""

    def __str__(self) -> str:
        return (
            f"no GMS was found; tried {', '.join(self.tried)}; "
            "start one with `quicksilver gms`, or give its host:port"
        )


class SeveralGmsError(QuicksilverError):
    """No GMS address was given, and several GMS answered on the local network."""

    def __init__(self, found: tuple[str, ...]) -> None:
        super().__init__(found)
        self.found = found
        """The addresses of those that answered."""

    def __str__(self) -> str:
        return f"several GMS answered ({', '.join(self.found)}); name one of them"


class ConfigFileError(QuicksilverError):
    """A configuration file cannot be used."""

    def __init__(self, path: str, problem: str, remedy: str = "correct it or remove it") -> None:
        super().__init__(path, problem, remedy)
        self.path = path
        """The file's path."""
        self.problem = problem
        """What is wrong with the file."""
        self.remedy = remedy
        """What to do about it."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}; {self.remedy}"


class ControllerUnreachableError(QuicksilverError):
    """No controller answers at its socket."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(path, cause)
        self.path = path
        """The path of the controller's socket."""
        self.cause = cause
        """Why there is no answer, as text."""

    def __str__(self) -> str:
        return (
            f"no controller at {self.path} ({self.cause}); "
            "start one with `quicksilver controller` or check the path"
        )


class ControllerLostError(QuicksilverError):
    """The connection to the controller of this machine has ended. What it had not accepted is
    lost."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(path, cause)
        self.path = path
        """The path of the controller's socket."""
        self.cause = cause
        """What happened, as text."""

    def __str__(self) -> str:
        return f"the controller at {self.path} is lost ({self.cause}); connect again"


class ControllerRefusedError(QuicksilverError):
    """The controller of this machine refused a request."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """The reason that it gave."""

    def __str__(self) -> str:
        return f"the controller refused: {self.reason}"


class NeedsNodeError(QuicksilverError):
    """Applications behind a controller cannot do this, because they are no nodes."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        """What was asked for."""

    def __str__(self) -> str:
        return (
            f"{self.what} needs a node in this process; "
            "connect to the GMS at host:port instead of the controller"
        )
