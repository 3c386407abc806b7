"""A GMS of this machine that can be killed and cut off.

The GMS keeps its state in a file and can be started again from it. A ``Relay`` is a
stretch of wire between a node and the GMS: it listens on a port of its own and passes
bytes on, both ways. While it is cut nothing passes and nothing is closed: as with a
pulled cable, both ends only hear nothing. What was under way arrives when it is mended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from quicksilver.lab.processes import Child, Children, GmsReady, free_udp_port

READY_S = 90.0
"""A machine with fewer cores than processes starts them slowly."""
HOST = "127.0.0.1"


class LocalGms:
    """One GMS after another, on the same port and file."""

    def __init__(self, children: Children, state: Path, *options: str) -> None:
        self.child: Child | None = None
        """None while it is down."""
        self.lives = 0
        self._children = children
        self._state = state
        self._options = options
        self._port = 0
        # A multicast port of its own keeps other clusters' packets away.
        self._multicast_port = free_udp_port()

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self._port

    def start(self) -> None:
        """Start a GMS process; returns when it listens."""
        assert self.child is None
        ports = ("--port", str(self._port), "--multicast-port", str(self._multicast_port))
        where = ("--host", HOST, "--state", str(self._state), "--json")
        child = self._children.start_python(
            "gms", "quicksilver.cli.main", "gms", *ports, *where, *self._options
        )
        self._port = int(child.expect(GmsReady, READY_S).address.rpartition(":")[2])
        self.child = child
        self.lives += 1

    def kill(self) -> None:
        """Kill the process at once, as a crash would."""
        child, self.child = self.child, None
        assert child is not None
        child.kill()
        self._children.release(child)


CHUNK_BYTES = 1 << 16


class Relays:
    """Relays to one address, all in one thread."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self) -> Relay:
        """Add a relay and return it."""
        relay: Relay = self._do(self._add())
        return relay

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _add(self) -> Relay:
        relay = Relay(self._loop, self._target, self._tasks)
        server = await asyncio.start_server(relay.handle, HOST, 0)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        relay.address = f"{HOST}:{port}"
        return relay

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Relay:
    """One node's way to the GMS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        target: tuple[str, int],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self.address = ""
        """Where the node connects to, as ``host:port``."""
        self._loop = loop
        self._target = target
        self._tasks = tasks
        self._passes = asyncio.Event()
        self._passes.set()

    def cut(self) -> None:
        """Let nothing pass from now on."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def mend(self) -> None:
        """Let pass what waits, and all that comes."""
        self._loop.call_soon_threadsafe(self._passes.set)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either end closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there: asyncio.StreamWriter | None = None
        try:
            await self._passes.wait()
            back, there = await asyncio.open_connection(*self._target)
            ways = [
                asyncio.create_task(self._carry(reader, there)),
                asyncio.create_task(self._carry(back, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await self._passes.wait()
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the GMS is down: whoever wanted to reach it sees a closed connection
        finally:
            for end in (writer, there):
                if end is not None:
                    end.close()
                    with suppress(OSError, asyncio.CancelledError):
                        await end.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._passes.wait()
                writer.write(data)
                await writer.drain()
