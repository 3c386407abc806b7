"""A real GMS in a thread of the test's process, and nodes on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import quicksilver
from quicksilver import sync
from quicksilver.lab.processes import free_udp_port
from quicksilver.membership.gms import GmsOptions, serve_gms
from quicksilver.wire.gms import ClusterSettings

T = TypeVar("T")


@contextmanager
def running_gms(
    *, discovery_port: int | None = None, addresses: str = "239.192.0.0/16", **settings: Any
) -> Iterator[str]:
    """Serve a cluster with a multicast port of its own; yields ``host:port``."""
    listening: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    def note(address: tuple[str, int]) -> None:
        listening.append(f"{address[0]}:{address[1]}")
        ready.set()

    options = GmsOptions(
        host="127.0.0.1",
        port=0,
        settings=ClusterSettings(multicast_port=free_udp_port(), **settings),
        discovery_port=discovery_port,
        addresses=addresses,
    )
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(serve_gms(options, stop, note))
    )
    thread.start()
    try:
        assert ready.wait(10)
        yield listening[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=10)
        loop.close()


def run(work: Coroutine[Any, Any, T], timeout_s: float = 20.0) -> T:
    """Run a test's coroutine; a test that hangs fails."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, timeout_s)

    return asyncio.run(bounded())


def connect(gms: str | None, **options: Any) -> quicksilver.Node:
    """Return an asyncio node on loopback that leaves the test's process as it was."""
    return quicksilver.connect(gms, **{"interface": "lo", "tune_gc": False, **options})


def connect_sync(gms: str | None, **options: Any) -> sync.Node:
    """Return a synchronous node on loopback."""
    return sync.connect(gms, **{"interface": "lo", "tune_gc": False, **options})


@asynccontextmanager
async def pair(
    gms: str, **options: Any
) -> AsyncIterator[tuple[quicksilver.Node, quicksilver.Node]]:
    """Two nodes of one cluster: a sender and a receiver."""
    async with connect(gms) as sender, connect(gms, **options) as receiver:
        yield sender, receiver


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that nobody tells."""
    while not is_so():  # noqa: ASYNC110  # there is no event to wait for
        await asyncio.sleep(0.005)


async def take(group: quicksilver.Group, count: int) -> list[quicksilver.Message]:
    """Receive whole batches until ``count`` messages are there."""
    found: list[quicksilver.Message] = []
    while len(found) < count:
        found.extend(await asyncio.wait_for(group.receive_batch(), 10))
    return found


def take_sync(group: sync.Group, count: int) -> list[quicksilver.Message]:
    """Receive whole batches until ``count`` messages are there."""
    found: list[quicksilver.Message] = []
    while len(found) < count:
        batch = group.receive_batch(timeout=10)
        assert batch is not None, f"{len(found)} of {count} messages came"
        found.extend(batch)
    return found
