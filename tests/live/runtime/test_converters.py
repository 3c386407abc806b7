"""Values that fit only through a registered converter: accepted by the check and the runtime."""

from __future__ import annotations

from typing import Protocol

import msgspec
import pytest

from quicksilver.live.references.builder import composite, primitive
from quicksilver.live.references.check import UnsoundReferenceError, check
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import endpoint, live_object
from tests.live.runtime.worlds import World, log, world

__all__ = ["log", "world"]


class Celsius(msgspec.Struct):
    celsius: float


class Fahrenheit(msgspec.Struct):
    fahrenheit: float


class InCelsius(Protocol):
    def warm(self, value: Celsius) -> None: ...
    def pair(self, at: int, value: Celsius) -> None: ...


class InFahrenheit(Protocol):
    def warm(self, value: Fahrenheit) -> None: ...
    def pair(self, at: int, value: Fahrenheit) -> None: ...


class Nothing(Protocol):
    """No events."""


@component("test.thermometer")
@live_object
class Thermometer:
    """says temperatures when it is connected"""

    out = endpoint(Nothing, InCelsius, name="T")

    def out_connected(self) -> None:
        self.out.warm(Celsius(100.0))
        self.out.pair(7, Celsius(0.0))


@component("test.display")
@live_object
class Display:
    """keeps the temperatures it was shown"""

    shown = endpoint(InFahrenheit, Nothing, name="T")

    def __init__(self) -> None:
        self.seen: list[object] = []

    def shown_warm(self, value: Fahrenheit) -> None:
        self.seen.append(value)

    def shown_pair(self, at: int, value: Fahrenheit) -> None:
        self.seen.append((at, value))


REFERENCE = (
    composite()
    .component("a", primitive("test.thermometer"))
    .component("b", primitive("test.display"))
    .connect("a.T", "b.T")
    .build()
)


def convert(value: Celsius) -> Fahrenheit:
    return Fahrenheit(value.celsius * 9 / 5 + 32)


def test_without_a_converter_it_is_refused(world: World) -> None:
    world.runtime.add_components((Thermometer, Display))
    with pytest.raises(UnsoundReferenceError, match="field fahrenheit: is missing"):
        world.open(REFERENCE)


def test_with_one_it_is_accepted_and_values_are_converted(world: World) -> None:
    runtime = world.runtime
    runtime.add_components((Thermometer, Display))
    runtime.add_converter(Celsius, Fahrenheit, convert)
    assert check(REFERENCE, runtime.catalogue).is_sound
    proxy = world.open(REFERENCE)
    display = next(cell.instance for cell in proxy.cells if cell.name == "it.b")
    assert display.seen == [Fahrenheit(212.0), (7, Fahrenheit(32.0))]


def test_plain_values_go_through_the_same_converter(world: World) -> None:
    """A converter is between types: classes of the same structure may use it."""

    class Grad(msgspec.Struct):
        celsius: float

    converters = world.runtime.converters
    converters.register(Celsius, Fahrenheit, convert)
    found = converters.find(Grad, Fahrenheit)
    assert found is not None
    assert found(Grad(0.0)) == Fahrenheit(32.0)
