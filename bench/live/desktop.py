"""A shared desktop of many objects, over real nodes and a real GMS on this machine."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import quicksilver
from bench.live.measured import Measured, resident_mb
from quicksilver.lab.processes import Children
from quicksilver.live.components.library import equip
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.xml import write
from quicksilver.live.runtime.executors import AsyncioExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.on_node import NodeGroups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quicksilver.live.references.model import Reference
    from quicksilver.live.runtime.promises import Task
    from quicksilver.live.runtime.proxies import Proxy
    from quicksilver.node.aio import Node

ITEMS = 1000
TIMEOUT_S = 100.0


UPDATES = 2000
BURST = 50
IDLE_S = 3.0


def measure_desktop(items: int = ITEMS) -> list[Measured]:
    """Fill a desktop at one node, open it at another, and use one of its objects.

    Both nodes are in this process, so processor time is that of both, for each update
    made at one and taken at both.
    """
    results: list[Measured] = []
    for count in (1, items):
        with Children() as children:
            results += asyncio.run(_measure(children.start_gms(), count))
    return results


async def _measure(address: str, items: int) -> list[Measured]:
    async with quicksilver.connect(address) as one, quicksilver.connect(address) as other:
        first, first_groups = _runtime(one)
        desktop = await _open(first)
        port = first.attach(desktop.proxy.endpoint("Desktop")).port
        start = time.perf_counter()
        for number in range(items):
            port.drop(f"item {number}", 0.0, 0.0, _item(number))
        await _until(lambda: desktop.is_full(items))
        dropped_s = time.perf_counter() - start
        gc.collect()
        before, start = resident_mb(), time.perf_counter()
        second, second_groups = _runtime(other)
        late = await _open(second)
        await _until(lambda: late.is_full(items))
        opened_s = time.perf_counter() - start
        gc.collect()
        grown = resident_mb() - before
        results = [
            Measured(f"dropping {items:,} on a desktop, until all run", dropped_s, "s"),
            Measured("… requests to the GMS", first_groups.requests, ""),
            Measured(f"a late comer opens the desktop of {items:,}", opened_s, "s"),
            Measured("… groups joined", second_groups.joined, ""),
            Measured("… requests to the GMS", second_groups.requests, ""),
            Measured("… memory", grown, "MB"),
            Measured("… an update of one object, processor time", await _use(first, late), "us"),
            Measured("… nothing happens, share of a processor", await _idle(), "%"),
        ]
        first.close()
        second.close()
        return results


async def _use(runtime: Runtime, late: _Opened) -> float:
    """Return microseconds of processor time for an update of one object, at both nodes."""
    target = late.item(1)
    proxy = await _future(
        runtime, runtime.open(primitive("quicksilver.counter", channel=_channel(0)))
    )
    await _until(lambda: proxy.cells[0].instance.is_ready)
    port = runtime.attach(proxy.endpoint("Counter")).port
    start, base = time.process_time(), target.save().value
    for number in range(1, UPDATES + 1):
        port.add(1)
        if number % BURST == 0:
            await _until(lambda wanted=base + number: target.save().value == wanted)  # type: ignore[misc]
    return (time.process_time() - start) / UPDATES * 1e6


async def _idle() -> float:
    start = time.process_time()
    await asyncio.sleep(IDLE_S)
    return (time.process_time() - start) / IDLE_S * 100


class _CountingGroups(NodeGroups):
    """Groups that say how many they are."""

    joined = 0

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Count, and make the request."""
        self.joined += len(join) - len(leave)
        super().subscribe(join, leave)


class _Opened:
    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy
        self._desktop = proxy.cells[0].instance

    def item(self, number: int) -> Any:
        """Return the component of an object on the desktop."""
        return self._desktop.opening.proxies[number].cells[0].instance

    def is_full(self, items: int) -> bool:
        """Whether all objects run and know their state."""
        proxies = self._desktop.opening.proxies
        return len(proxies) == items and all(
            proxy.cells[0].instance.is_ready for proxy in proxies.values()
        )


def _runtime(node: Node) -> tuple[Runtime, _CountingGroups]:
    executor = AsyncioExecutor()
    runtime = Runtime(executor, seed=node.id)
    groups = _CountingGroups(node, executor)
    runtime.provide(Groups, groups)
    equip(runtime)
    return runtime, groups


async def _open(runtime: Runtime) -> _Opened:
    channel = primitive("quicksilver.checkpointed-channel", group="bench/desktop")
    reference = primitive("quicksilver.desktop", channel=channel)
    opened = _Opened(await _future(runtime, runtime.open(reference)))
    await _until(lambda: opened.proxy.cells[0].instance.is_ready)
    return opened


def _future(runtime: Runtime, task: Task[Proxy]) -> asyncio.Future[Proxy]:
    executor = runtime.executor
    assert isinstance(executor, AsyncioExecutor)
    return executor.future(task)


def _channel(number: int) -> Reference:
    return primitive("quicksilver.checkpointed-channel", group=f"bench/item-{number}")


def _item(number: int) -> str:
    return write(primitive("quicksilver.counter", channel=_channel(number)))


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + TIMEOUT_S
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"the desktop was not full after {TIMEOUT_S:g} s")
        await asyncio.sleep(0.005)
