"""What can go wrong between two processes, as errors that hold data."""

from __future__ import annotations

from quicksilver.live.runtime.errors import LiveRuntimeError


class RemoteError(LiveRuntimeError):
    """An endpoint of another process could not be reached, or said no."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        """Where it is; never with the token."""
        self.problem = problem

    def __str__(self) -> str:
        return f"the endpoint at {self.address}: {self.problem}"


class BadAddressError(LiveRuntimeError):
    """A text that is no address of a published endpoint."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"no address of an endpoint: {self.problem}"


class PublishError(LiveRuntimeError):
    """Endpoints cannot be published here."""

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot publish at {self.address}: {self.problem}"


class FrameError(Exception):
    """Bytes that are no frame. What it says is for counters and for the other side."""
