"""How a program ends after a signal asked for it: it cleans up, and its exit code says which."""

from __future__ import annotations

import signal


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C asked this program to end.

    Whatever cleans up after Ctrl-C does so here, too; only the exit code differs.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__(number)
        self.number = number


def interruption(number: int) -> KeyboardInterrupt:
    """Return what to raise when a signal has asked this program to end."""
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


def exit_code_of(error: KeyboardInterrupt) -> int:
    """Return 128 and the number of the signal, as shells do: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + (error.number if isinstance(error, Terminated) else signal.SIGINT)
