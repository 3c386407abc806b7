"""Real scope managers in threads of the test's process, and nodes on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quicksilver.scopes.server import ScopeOptions, serve_scope


@contextmanager
def managing(name: str, *owners: str, **settings: Any) -> Iterator[str]:
    """Manage a scope at a port of its own; yields ``host:port``."""
    listening: list[str] = []
    problems: list[BaseException] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def note(address: tuple[str, int]) -> None:
        listening.append(f"{address[0]}:{address[1]}")
        ready.set()

    options = ScopeOptions(name=name, port=0, owners=owners, **settings)

    def serve() -> None:
        try:
            loop.run_until_complete(serve_scope(options, stop, note))
        except BaseException as error:  # noqa: BLE001  # raised in the test
            problems.append(error)
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(10)
        if problems:
            raise problems[0]
        yield listening[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=10)
        loop.close()
    if problems:
        raise problems[0]
