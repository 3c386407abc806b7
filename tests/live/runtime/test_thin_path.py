"""A composite opened, connected, used, broken and closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest

from quicksilver.live.references.builder import composite, external, primitive, registry
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.errors import OpenError
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.types.declare import Given, endpoint, live_object


class Numbers(Protocol):
    def value(self, number: int) -> None: ...


@component("test.scaler", type_name="Scaler")
@live_object
class Scaler:
    """multiplies what it is given"""

    numbers = endpoint(Numbers, Numbers)

    def __init__(self, factor: Given[int] = 2) -> None:
        self._factor = factor

    def numbers_value(self, number: int) -> None:
        if number == 0:
            raise ValueError("zero")
        self.numbers.value(self._factor * number)


@component("test.pipe")
@live_object
class Pipe:
    """passes on what it is given"""

    left = endpoint(Numbers, Numbers)
    right = endpoint(Numbers, Numbers)

    def left_value(self, number: int) -> None:
        self.right.value(number)

    def right_value(self, number: int) -> None:
        self.left.value(number)

    def right_disconnected(self) -> None:
        self.left.value(-1)


@component("test.unwilling")
@live_object
class Unwilling:
    """cannot be made"""

    numbers = endpoint(Numbers, Numbers)

    def __init__(self) -> None:
        raise ValueError("not today")

    def numbers_value(self, number: int) -> None: ...


@pytest.fixture
def executor() -> Iterator[ThreadExecutor]:
    made = ThreadExecutor()
    yield made
    made.close()


@pytest.fixture
def runtime(executor: ThreadExecutor) -> Runtime:
    made = Runtime(executor)
    made.add_components((Scaler, Pipe, Unwilling))
    made.registry["by five"] = primitive("test.scaler", factor=5)
    return made


PIPELINE = (
    composite()
    .component("pipe", primitive("test.pipe"))
    .component("scaler", external("by five", "Scaler", registry()))
    .connect("pipe.right", "scaler.numbers")
    .export("pipe.left")
    .build()
)


def test_events_pass_through_a_composite(executor: ThreadExecutor, runtime: Runtime) -> None:
    proxy = executor.call(lambda: runtime.open(PIPELINE, "line"))
    got: list[int] = []
    attachment = executor.call(
        lambda: runtime.attach(proxy.endpoint("left"), {"value": got.append})
    )
    executor.call(lambda: attachment.port.value(4))
    assert got == [20]
    executor.call(proxy.close)
    assert not attachment.is_connected
    executor.call(lambda: attachment.port.value(4))
    assert got == [20]


def test_an_exception_ends_one_component_and_its_connections_are_told(
    executor: ThreadExecutor, runtime: Runtime
) -> None:
    proxy = executor.call(lambda: runtime.open(PIPELINE, "line"))
    got: list[int] = []
    attachment = executor.call(
        lambda: runtime.attach(proxy.endpoint("left"), {"value": got.append})
    )
    executor.call(lambda: attachment.port.value(0))
    assert got == [-1]
    assert [str(one) for one in proxy.failures] == [
        "line.scaler failed in numbers.value: ValueError: zero"
    ]
    assert attachment.is_connected


def test_nothing_is_left_of_a_composite_that_cannot_be_opened(
    executor: ThreadExecutor, runtime: Runtime
) -> None:
    reference = (
        composite()
        .component("pipe", primitive("test.pipe"))
        .component("scaler", primitive("test.unwilling"))
        .connect("pipe.right", "scaler.numbers")
        .export("pipe.left")
        .build()
    )
    with pytest.raises(OpenError, match=r"component\[scaler\]/primitive: Unwilling did not start"):
        executor.call(lambda: runtime.open(reference))


@component("test.meter")
@live_object
class Meter:
    """measures with something of its own"""

    context: Context
    numbers = endpoint(Numbers, Numbers)
    scale = endpoint(Numbers, Numbers, inner=True)

    async def start(self) -> None:
        await self.context.attach(self.scale, primitive("test.scaler", factor=3))

    def numbers_value(self, number: int) -> None:
        self.scale.value(number)

    def scale_value(self, number: int) -> None:
        self.numbers.value(number)


def test_an_inner_endpoint_is_no_part_of_the_type(
    executor: ThreadExecutor, runtime: Runtime
) -> None:
    runtime.add_components((Meter,))
    proxy = executor.call(lambda: runtime.open(primitive("test.meter")))
    assert [endpoint.end.name for endpoint in proxy.endpoints()] == ["numbers"]
    assert list(proxy.type.by_name) == ["numbers"]
    got: list[int] = []
    attachment = executor.call(
        lambda: runtime.attach(proxy.endpoint("numbers"), {"value": got.append})
    )
    executor.call(lambda: attachment.port.value(4))
    assert got == [12]
    executor.call(proxy.close)
    assert executor.call(lambda: list(runtime.cells)) == []
