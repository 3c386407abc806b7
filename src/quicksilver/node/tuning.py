"""Settings of the whole process that make a node faster: offered, never imposed.

Both change how other code of the process runs, so a node leaves them alone unless it is
asked: by ``quicksilver.tune()``, or by ``tune_gc`` and ``switch_interval_s`` of its options.
What each is worth was measured: docs/operations.md.
"""

from __future__ import annotations

import sys
import threading

from quicksilver.net.host import tune_collector
from quicksilver.node.checks import check_seconds

SWITCH_INTERVAL_S = 0.001
"""How long a busy thread keeps the interpreter, with ``tune``. Python's own default is 5 ms."""


def tune(*, gc: bool = True, switch_interval_s: float | None = SWITCH_INTERVAL_S) -> None:
    """Prepare this process for high message rates. Call it once, after all imports.

    Both settings apply to the whole process, until it ends or something else changes them.

    Args:
        gc: True: exempt all existing objects from garbage collection, and collect more rarely.
        switch_interval_s: How many seconds a busy thread may run while other threads, such as a
            node's core thread, wait. None leaves it unchanged.

    Raises:
        OptionError: ``switch_interval_s`` is not a positive number.
    """
    check_seconds("switch_interval_s", switch_interval_s, allow_none=True, allow_zero=False)
    if gc:
        tune_collector()
    if switch_interval_s is not None:
        sys.setswitchinterval(switch_interval_s)


class _SwitchInterval:
    """The interpreter's switch interval while nodes want another, and what it was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes = 0
        self._before = 0.0

    def enter(self, interval_s: float) -> None:
        with self._lock:
            if self._nodes == 0:
                self._before = sys.getswitchinterval()
            self._nodes += 1
            sys.setswitchinterval(interval_s)

    def leave(self) -> None:
        with self._lock:
            self._nodes -= 1
            if self._nodes == 0:
                sys.setswitchinterval(self._before)


SWITCH_INTERVAL = _SwitchInterval()
