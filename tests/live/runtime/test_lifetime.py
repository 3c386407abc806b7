"""Proxies and what they own: closed, dropped, failed, cancelled; nothing is left behind."""

from __future__ import annotations

import gc
import threading

import pytest

from quicksilver.live.references.builder import composite, primitive
from quicksilver.live.references.standard import ANY_OBJECT
from quicksilver.live.runtime.errors import ClosedError, OpenError
from tests.live.runtime.worlds import LONG_S, World, log, world

__all__ = ["log", "world"]

PAIR = (
    composite()
    .component("a", primitive("test.echo", name="a"))
    .component("b", primitive("test.echo", name="b"))
    .export("a.numbers", "a")
    .export("b.numbers", "b")
    .build()
)


def test_closing_a_composite_closes_all_it_holds(world: World, log: list[str]) -> None:
    proxy = world.open(PAIR, "pair")
    assert world.names == ["pair.a", "pair.b"]
    world.call(proxy.close)
    world.call(proxy.close)
    assert world.names == []
    assert sorted(log) == ["a closed", "b closed"]
    with pytest.raises(ClosedError):
        world.call(lambda: proxy.endpoint("a"))


def test_a_proxy_that_nobody_holds_is_closed(world: World) -> None:
    proxy = world.open(PAIR)
    assert len(world.names) == 2
    del proxy
    gc.collect()
    world.settle()
    assert world.names == []


def test_a_cast_keeps_its_proxy_alive_and_dropping_it_does_not_close_it(world: World) -> None:
    held = [world.open(PAIR)]
    seen = [world.call(lambda: held[0].cast(ANY_OBJECT))]
    seen.clear()
    gc.collect()
    world.settle()
    assert len(world.names) == 2
    seen.append(world.call(lambda: held[0].cast(ANY_OBJECT)))
    held.clear()
    gc.collect()
    world.settle()
    assert len(world.names) == 2
    world.call(seen[0].close)
    assert seen[0].is_closed
    assert world.names == []


def test_what_a_component_opened_ends_with_it(world: World, log: list[str]) -> None:
    proxy = world.open(primitive("test.holder", Inner=primitive("test.echo", name="inner")))
    assert world.names == ["it", "it.inner"]
    world.call(proxy.close)
    assert world.names == []
    assert log == ["inner connected", "inner disconnected", "inner closed"]


def test_an_inner_object_that_fails_is_told_of_and_the_outer_goes_on(
    world: World, log: list[str]
) -> None:
    proxy = world.open(primitive("test.holder", Inner=primitive("test.echo")))
    attachment = world.call(lambda: world.runtime.attach(proxy.endpoint("numbers")))
    world.call(lambda: attachment.port.value(13))
    assert world.names == ["application", "it"]
    assert "holder lost its inside" in log
    assert [str(one) for one in world.told] == [
        "it.inner failed in numbers.value: ValueError: unlucky"
    ]


def test_a_component_that_fails_while_it_starts_ends_the_opening(
    world: World, log: list[str]
) -> None:
    """Its timer raises; what start waits for would never come."""
    with pytest.raises(OpenError, match="Waiter did not start: ValueError: no patience"):
        world.open(primitive("test.waiter", fails=True))
    assert world.names == []
    assert log == ["waiter stopped waiting"]
    assert world.told == []  # whoever opened it was told


def test_what_was_never_made_is_not_closed(world: World, log: list[str]) -> None:
    with pytest.raises(OpenError, match="Broken did not start: ValueError: not today"):
        world.open(primitive("test.broken"))
    assert world.names == []
    assert log == []


def test_closing_the_runtime_ends_what_is_being_opened(world: World, log: list[str]) -> None:
    begun = threading.Event()
    problems: list[BaseException] = []

    def begin() -> None:
        task = world.runtime.open(primitive("test.waiter"))
        task.when_done(lambda done: problems.append(done.error or AssertionError()))
        begun.set()

    world.call(begin)
    assert begun.wait(LONG_S)
    world.call(world.runtime.close)
    assert [type(one) for one in problems] == [ClosedError]
    assert log == ["waiter stopped waiting"]
    with pytest.raises(ClosedError):
        world.open(primitive("test.echo"))


def test_a_proxy_is_a_context_manager(world: World) -> None:
    def use() -> None:
        with world.runtime.open(primitive("test.echo")).result() as proxy:
            assert not proxy.is_closed
        assert proxy.is_closed

    world.call(use)
    assert world.names == []


def test_a_listener_that_raises_makes_nothing_worse(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def complain(_: object) -> None:
        raise RuntimeError("I do not want to know")

    world.runtime._on_failure = complain
    proxy = world.open(primitive("test.echo"))
    attachment = world.call(lambda: world.runtime.attach(proxy.endpoint("numbers")))
    world.call(lambda: attachment.port.value(13))
    assert not attachment.is_connected
    assert "a listener to failures" in caplog.text


def test_timers_of_a_component_that_ended_are_not_kept(world: World) -> None:
    proxy = world.open(primitive("test.echo"))
    cell = proxy.cells[0]
    fired: list[int] = []
    world.call(lambda: cell.instance.context.call_later(0.0, lambda: fired.append(1)))
    kept = world.call(lambda: cell.instance.context.call_later(3600, lambda: fired.append(2)))
    kept.cancel()
    world.call(lambda: cell.instance.context.call_later(3600, lambda: fired.append(3)))
    world.call(lambda: world.runtime.executor.call_later(0.001, lambda: None))
    while not fired:
        world.settle()
    assert len(cell._held) == 1
    world.call(proxy.close)
    assert not cell._held
    assert fired == [1]
