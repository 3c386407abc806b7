"""A runtime on each kind of executor that has a thread, used in the same way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import pytest

from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.errors import ComponentFailedError
from quicksilver.live.runtime.executors import AsyncioExecutor, Executor, ThreadExecutor
from quicksilver.live.runtime.promises import Promise
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

T = TypeVar("T")
LONG_S = 20.0
"""How long to wait for what should come at once."""


class World:
    """A runtime whose executor is elsewhere; everything is done through ``call``."""

    def __init__(self, executor: Executor, call: Callable[[Callable[[], Any]], Any]) -> None:
        self.executor = executor
        self.call = call
        self.told: list[ComponentFailedError] = []
        self.runtime = Runtime(executor, components=COMPONENTS, on_failure=self.told.append)

    def open(self, reference: Reference, name: str = "it") -> Proxy:
        """Dereference and wait for the proxy."""
        proxy: Proxy = self.call(lambda: self.runtime.open(reference, name))
        return proxy

    def settle(self) -> None:
        """Wait until all that was posted, and what that posted, has run."""
        for _ in range(5):
            self.call(lambda: None)

    @property
    def names(self) -> list[str]:
        """Names of all components that run."""
        return sorted(cell.name for cell in self.runtime.cells)


def make_threads() -> Iterator[World]:
    """A world on a ThreadExecutor."""
    executor = ThreadExecutor()
    world = World(executor, executor.call)
    yield world
    executor.call(world.runtime.close)
    assert world.names == []
    executor.close()


def make_asyncio() -> Iterator[World]:
    """A world on a loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> AsyncioExecutor:
        return AsyncioExecutor()

    executor = asyncio.run_coroutine_threadsafe(make(), loop).result(LONG_S)

    def call(begin: Callable[[], Any]) -> Any:
        async def run() -> Any:
            begun = begin()
            return await executor.future(begun) if isinstance(begun, Promise) else begun

        return asyncio.run_coroutine_threadsafe(run(), loop).result(LONG_S)

    world = World(executor, call)
    yield world
    call(world.runtime.close)
    assert world.names == []
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(params=[make_threads, make_asyncio], ids=["threads", "asyncio"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world on each executor."""
    yield from request.param()


# --- components that do what they are told -------------------------------------------


class Numbers(Protocol):
    def value(self, number: int) -> None: ...


class Log:
    """What happened, in order, over all components."""

    lines: list[str] = []  # noqa: RUF012  # emptied by the fixture


@pytest.fixture(autouse=True)
def log() -> list[str]:
    """What components wrote down."""
    Log.lines = []
    return Log.lines


@component("test.echo", type_name="Echo")
@live_object
class Echo:
    """answers with the same number; 13 raises"""

    context: Context
    numbers = endpoint(Numbers, Numbers)

    def __init__(self, name: Given[str] = "echo") -> None:
        self._name = name

    def numbers_value(self, number: int) -> None:
        if number == 13:
            raise ValueError("unlucky")
        self.numbers.value(number)

    def numbers_connected(self) -> None:
        Log.lines.append(f"{self._name} connected")

    def numbers_disconnected(self) -> None:
        Log.lines.append(f"{self._name} disconnected")

    def close(self) -> None:
        Log.lines.append(f"{self._name} closed")


@component("test.queued")
@live_object
class Queued:
    """writes down what comes, later"""

    numbers = endpoint(Numbers, Numbers, queued=True)

    def numbers_value(self, number: int) -> None:
        Log.lines.append(f"value {number}")

    def numbers_connected(self) -> None:
        Log.lines.append("connected")

    def numbers_disconnected(self) -> None:
        Log.lines.append("disconnected")


@component("test.refuser")
@live_object
class Refuser:
    """raises when it is connected"""

    numbers = endpoint(Numbers, Numbers)

    def numbers_value(self, number: int) -> None: ...

    def numbers_connected(self) -> None:
        raise ValueError("go away")


@component("test.holder")
@live_object
class Holder:
    """opens another object and passes on what it says"""

    context: Context
    numbers = endpoint(Numbers, Numbers)
    inside = endpoint(Numbers, Numbers)

    def __init__(self, Inner: Given[Ref[Echo]]) -> None:  # noqa: N803  # as references say it
        self._inner = Inner

    async def start(self) -> None:
        await self.context.attach(self.inside, self._inner, "inner")

    def numbers_value(self, number: int) -> None:
        self.inside.value(number)

    def inside_value(self, number: int) -> None:
        self.numbers.value(number)

    def inside_disconnected(self) -> None:
        Log.lines.append("holder lost its inside")


@component("test.broken")
@live_object
class Broken:
    """cannot be made"""

    numbers = endpoint(Numbers, Numbers)

    def __init__(self) -> None:
        raise ValueError("not today")

    def numbers_value(self, number: int) -> None: ...

    def close(self) -> None:
        Log.lines.append("closed what was never made")


@component("test.waiter")
@live_object
class Waiter:
    """takes for ever to start, and fails by a timer if it is told to"""

    context: Context
    numbers = endpoint(Numbers, Numbers)

    def __init__(self, fails: Given[bool] = False) -> None:
        self._fails = fails

    async def start(self) -> None:
        if self._fails:
            self.context.call_later(0.0, self._fail)
        try:
            await self.context.sleep(3600)
        finally:
            Log.lines.append("waiter stopped waiting")

    def _fail(self) -> None:
        raise ValueError("no patience")

    def numbers_value(self, number: int) -> None: ...


@component("test.promiser")
@live_object
class Promiser:
    """promises never to repeat a number, wants to be connected first, and echoes"""

    numbers = endpoint(
        Numbers,
        Numbers,
        provides=[("temporal", "not (out.value(n) and previous once out.value(n))")],
        requires=[("temporal", "in.value -> once connect")],
    )

    def numbers_value(self, number: int) -> None:
        self.numbers.value(number)


@component("test.eager")
@live_object
class Eager:
    """sends as soon as it is connected"""

    numbers = endpoint(Numbers, Numbers, provides=[("temporal", "out.value -> once connect")])

    def numbers_value(self, number: int) -> None: ...

    def numbers_connected(self) -> None:
        self.numbers.value(1)


COMPONENTS = (Echo, Queued, Refuser, Holder, Broken, Waiter, Promiser, Eager)
