"""The core thread of a node of a scope: an event loop, and how other threads wake it.

Groups queue messages themselves and wake the core only if it sleeps (``node.ports``). Here it
counts as asleep until somebody has woken it for its next turn: so however many messages are
queued meanwhile, one turn takes them all.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

STOP_S = 5.0
"""How long the end of the loop is waited for."""


class LoopThread:
    """Runs one coroutine, and what other threads submit, until ``stop``."""

    def __init__(
        self,
        main: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
        *,
        on_turn: Callable[[], None],
        on_failure: Callable[[str], None],
        name: str = "quicksilver-scope",
    ) -> None:
        """``main`` is given the stop that ends it. ``on_turn`` takes what threads have queued."""
        self.is_sleeping = True
        """True until the next turn was asked for; whoever adds work then calls ``wake``."""
        self._main = main
        self._on_turn = on_turn
        self._on_failure = on_failure
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ident = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Have the core run something soon; from any thread."""
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            pass  # the loop is closed: the node has ended, and everybody was told

    def wake(self) -> None:
        """Ask for a turn; the next to add work need not."""
        self.is_sleeping = False
        self.submit(self._turn)

    def lend(self) -> None:
        """Whoever waits for room cannot help: the loop is the core's alone."""
        if self.is_sleeping:
            self.wake()

    def is_core(self) -> bool:
        return self._ident == threading.get_ident()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self.submit(self._stop.set)
        if not self.is_core() and self._thread.is_alive():
            self._thread.join(timeout=STOP_S)

    def _turn(self) -> None:
        # Before the queues are looked at: what is queued after that asks for another turn.
        self.is_sleeping = True
        self._on_turn()

    def _run(self) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main(self._stop))
        except Exception:  # noqa: BLE001  # whatever it is, the application must hear of it
            self._on_failure(traceback.format_exc())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
