"""Checking Code 2.2, and an event through a connection against a plain method call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from bench.live.measured import Measured, best_us
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.check import check
from quicksilver.live.references.xml import load
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.promises import Task
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.types.declare import endpoint, live_object

CODE_2_2 = Path(__file__).parents[2] / "examples" / "live" / "code-2-2-shared-text.liveobject"
EVENTS = 20_000


class Update(msgspec.Struct):
    """What one library sends."""

    sender: str
    number: int
    body: bytes


@dataclass(slots=True)
class Change:
    """What another takes."""

    sender: str
    number: int
    body: bytes


class Updates(Protocol):
    """The events of one library …"""

    def take(self, item: Update) -> None:
        """Take an item."""


class Changes(Protocol):
    """… and the same of another."""

    def take(self, item: Change) -> None:
        """Take an item."""


@component("bench.source")
@live_object
class Source:
    """sends updates"""

    out = endpoint(None, Updates)


@component("bench.sink")
@live_object
class Sink:
    """takes updates"""

    into = endpoint(Updates, None)

    def into_take(self, item: Update) -> None:
        """Take an item."""


@component("bench.stranger")
@live_object
class Stranger:
    """takes updates as a class of its own"""

    into = endpoint(Changes, None)

    def into_take(self, item: Change) -> None:
        """Take an item."""


def measure_check() -> list[Measured]:
    """Measure the static check of Code 2.2, warm."""
    check(load(CODE_2_2))
    parsed = load(CODE_2_2)
    again = [load(CODE_2_2) for _ in range(300)]
    read_anew = best_us(lambda: check(again.pop()), number=20, repeats=12)
    same = best_us(lambda: check(parsed), number=500)
    return [
        Measured("check of Code 2.2, warm, an equal reference read anew", read_anew, "us", 1000.0),
        Measured("check of Code 2.2, warm, the same reference", same, "us", 1000.0),
    ]


def measure_events() -> list[Measured]:
    """Measure an event by a plain method call, through a connection, and converted."""
    executor = ThreadExecutor()
    try:
        runtime = Runtime(executor)
        runtime.add_components((Source, Sink, Stranger))
        plain, direct = executor.call(lambda: _pair(runtime, "bench.sink"))
        _, converted = executor.call(lambda: _pair(runtime, "bench.stranger"))
        # On the executor's own thread, as components are.
        numbers = executor.call(
            lambda: [best_us(work, number=1) / EVENTS for work in (plain, direct, converted)]
        )
        executor.call(runtime.close)
    finally:
        executor.close()
    call, straight, changed = numbers
    return [
        Measured("an event by a plain method call", call, "us"),
        Measured("an event through a connection", straight, "us"),
        Measured("… over a plain call", straight - call, "us", 0.5),
        Measured("… times a plain call", straight / call, "x"),
        Measured("an event converted on its way", changed, "us"),
        Measured("… over a plain call", changed - call, "us", 2.0),
    ]


Works: TypeAlias = tuple[Callable[[], None], Callable[[], None]]


def _pair(runtime: Runtime, sink: str) -> Task[Works]:
    """Make two functions: many plain calls, and many events through a connection."""

    async def make() -> Works:
        source = await runtime.open(primitive("bench.source"))
        target = await runtime.open(primitive(sink))
        runtime.connect(source.endpoint("out"), target.endpoint("into"))
        port = source.cells[0].instance.out
        instance = target.cells[0].instance
        item = Update("ann", 7, b"x" * 100)
        proxies = (source, target)

        def call() -> None:
            for _ in range(EVENTS):
                instance.into_take(item)

        def send(_: object = proxies) -> None:
            for _ in range(EVENTS):
                port.take(item)

        return call, send

    return runtime.spawn(make())
