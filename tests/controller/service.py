"""A controller in a thread of the test's process, and applications behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quicksilver import sync
from quicksilver.controller.process import Controller, ControllerOptions
from quicksilver.node.options import NodeOptions


class Running:
    """A controller that runs, for tests that look inside."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.controller: Controller | None = None
        self.loop = asyncio.new_event_loop()
        self.stop = asyncio.Event()

    @property
    def address(self) -> str:
        return f"unix:{self.path}"

    def connect(self, **options: Any) -> sync.Node:
        return sync.connect(self.address, **options)


@contextmanager
def running_controller(gms: str, path: str, **options: Any) -> Iterator[Running]:
    """Have a controller meanwhile; raises what keeps it from starting."""
    running = Running(path)
    ready = threading.Event()
    problems: list[Exception] = []

    async def serve() -> None:
        node = NodeOptions(interface="lo", name="controller")
        controller = None
        try:
            controller = Controller(ControllerOptions(path=path, gms=gms, node=node, **options))
            await controller.start()
            running.controller = controller
            ready.set()
            await running.stop.wait()
        except Exception as error:  # noqa: BLE001  # raised where the test waits
            problems.append(error)
            ready.set()
        finally:
            if controller is not None:
                await controller.close()

    thread = threading.Thread(target=lambda: running.loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        if problems:
            raise problems[0]
        yield running
    finally:
        running.loop.call_soon_threadsafe(running.stop.set)
        thread.join(timeout=20)
        running.loop.close()
