"""What can go wrong while objects run, as errors that hold data."""

from __future__ import annotations

from quicksilver.live.references.errors import Place
from quicksilver.live.types.errors import Diagnosis
from quicksilver.stdx.errors import QuicksilverError


class LiveRuntimeError(QuicksilverError):
    """Something about a running object, or about making one, failed."""


class ComponentError(LiveRuntimeError):
    """A class cannot be used as a component."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the component {self.name} {self.problem}"


class OpenError(LiveRuntimeError):
    """A reference could not be dereferenced; nothing that was begun is left running."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        """Where in the reference, such as ``composite/component[uplink]/external``."""
        self.problem = problem
        self.place: Place | None = None
        """Line and column, if the reference was read from a file."""

    def __str__(self) -> str:
        return f"{self.place or self.path}: {self.problem}"


class ConnectError(LiveRuntimeError):
    """Two endpoints cannot be connected."""

    def __init__(self, one: str, other: str, problem: str) -> None:
        super().__init__(one, other, problem)
        self.one = one
        self.other = other
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.one} and {self.other} cannot be connected: {self.problem}"


class CastError(LiveRuntimeError):
    """A proxy is not of the type it was to be seen as, and no wrapper makes it one."""

    def __init__(self, name: str, diagnosis: Diagnosis) -> None:
        super().__init__(name, diagnosis)
        self.name = name
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return f"{self.name} is not of the type it is cast to: {self.diagnosis.line}"


class NoEndpointError(LiveRuntimeError):
    """A proxy has no endpoint of this name."""

    def __init__(self, proxy: str, name: str, known: str) -> None:
        super().__init__(proxy, name, known)
        self.proxy = proxy
        self.name = name
        self.known = known

    def __str__(self) -> str:
        return f"{self.proxy} has no endpoint {self.name!r}; it has: {self.known}"


class ClosedError(LiveRuntimeError):
    """A proxy, or the runtime around it, is closed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} is closed"


class NoServiceError(LiveRuntimeError):
    """A component asks for a service that this runtime was not given."""

    def __init__(self, service: str, hint: str) -> None:
        super().__init__(service, hint)
        self.service = service
        self.hint = hint

    def __str__(self) -> str:
        return f"this runtime has no {self.service}: {self.hint}"


class WrongThreadError(LiveRuntimeError):
    """Something of a runtime was used outside its executor."""

    def __str__(self) -> str:
        return "a runtime is used on its executor only: from elsewhere, executor.call(...)"


class LimitError(LiveRuntimeError):
    """One more component than the runtime, or the host of an object, allows."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return self.limit


class QueueFullError(LiveRuntimeError):
    """More events wait for a queued endpoint than it may hold."""

    def __init__(self, name: str, limit: int) -> None:
        super().__init__(name, limit)
        self.name = name
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.name} has {self.limit} events waiting and takes no more"


class ComponentFailedError(LiveRuntimeError):
    """A component raised: it was stopped, its connections were told, all else goes on."""

    def __init__(self, proxy: str, where: str, cause: BaseException) -> None:
        super().__init__(proxy, where, cause)
        self.proxy = proxy
        self.where = where
        self.cause = cause

    def __str__(self) -> str:
        problem = " ".join(f"{type(self.cause).__name__}: {self.cause}".split())
        return f"{self.proxy} failed in {self.where}: {problem}"
