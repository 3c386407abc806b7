"""Where and when the code of objects runs: one step at a time, in order.

Everything that belongs to one runtime runs on its executor, so components need
no locks. There is an executor for asyncio, one with a thread of its own, and one
in the virtual time of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that was asked for later."""

    def cancel(self) -> None:
        """Do not make the call; nothing happens if it was made."""
        ...


class Executor(Protocol):
    """Runs steps one at a time."""

    def now(self) -> float:
        """Seconds from some fixed point; never goes back."""
        ...

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before; may be called from any thread."""
        ...

    def call_later(self, delay_s: float, step: Callable[[], None]) -> Timer:
        """Run a step after some time; called on the executor."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this executor."""
        ...

    def close(self) -> None:
        """Run nothing more; the executor owns no thread from here on."""
        ...
