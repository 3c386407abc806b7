"""Running a server until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_signal(serve: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Run a server, to which a stop is given, until SIGTERM or SIGINT; return which.

    Call it from the main thread.
    """
    received: list[int] = []

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end(number: int) -> None:
            received.append(number)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end, number)
        await serve(stop)

    asyncio.run(run())
    return received[0]


async def wait_first(
    stop: asyncio.Event, wait_failed: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Wait for the stop; raise what made the server fail, if that comes first."""
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(wait_failed())
    try:
        await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
    finally:
        stopped.cancel()
        failed.cancel()
