"""Connections: both sides are told, in order, exactly once; nothing passes after the end."""

from __future__ import annotations

import pytest

from quicksilver.live.monitors import Violation
from quicksilver.live.references.builder import composite, primitive
from quicksilver.live.runtime.endpoints import QUEUED_MAX
from quicksilver.live.runtime.errors import ConnectError, OpenError
from tests.live.runtime.worlds import World, log, world

__all__ = ["log", "world"]


def test_both_sides_are_told(world: World, log: list[str]) -> None:
    one = world.open(primitive("test.echo", name="one"), "one")
    other = world.open(primitive("test.echo", name="other"), "other")
    told: list[str] = []

    def join() -> None:
        connection = world.runtime.connect(one.endpoint("numbers"), other.endpoint("numbers"))
        connection.when_closed(lambda: told.append("closed"))
        connection.close()
        connection.close()
        connection.when_closed(lambda: told.append("closed already"))

    world.call(join)
    assert log == ["one connected", "other connected", "one disconnected", "other disconnected"]
    assert told == ["closed", "closed already"]


def test_an_endpoint_has_one_connection(world: World) -> None:
    proxy = world.open(primitive("test.echo"))
    endpoint = world.call(lambda: proxy.endpoint("numbers"))
    world.call(lambda: world.runtime.attach(endpoint))
    with pytest.raises(ConnectError, match=r"it\.numbers is connected already"):
        world.call(lambda: world.runtime.attach(endpoint))
    with pytest.raises(ConnectError, match="no event 'nonsense'"):
        world.call(lambda: world.runtime.attach(endpoint, {"nonsense": print}))
    assert world.names == ["application", "it"]  # what could not be attached is gone


def test_a_side_that_fails_when_told_is_a_failed_connection(world: World, log: list[str]) -> None:
    """The side that was not told of the beginning is not told of the end."""
    refuser = world.open(primitive("test.refuser"), "refuser")
    echo = world.open(primitive("test.echo"), "echo")

    def join() -> None:
        world.runtime.connect(refuser.endpoint("numbers"), echo.endpoint("numbers"))

    with pytest.raises(ConnectError, match=r"parted at once: .*ValueError: go away"):
        world.call(join)
    assert log == []
    assert world.names == ["echo"]


def test_a_composite_whose_parts_cannot_be_joined_is_not_opened(world: World) -> None:
    reference = (
        composite()
        .component("a", primitive("test.echo"))
        .component("z", primitive("test.refuser"))
        .connect("a.numbers", "z.numbers")
        .build()
    )
    with pytest.raises(OpenError, match=r"connection\[a\.numbers,z\.numbers\]: .* parted at once"):
        world.open(reference)
    assert world.names == []


def test_attaching_to_what_fails_at_once_leaves_nothing(world: World) -> None:
    proxy = world.open(primitive("test.refuser"))
    with pytest.raises(ConnectError, match="go away"):
        world.call(lambda: world.runtime.attach(proxy.endpoint("numbers")))
    assert world.names == []


def test_a_function_kept_beyond_the_end_goes_nowhere(world: World) -> None:
    proxy = world.open(primitive("test.echo"))
    got: list[int] = []
    attachment = world.call(
        lambda: world.runtime.attach(proxy.endpoint("numbers"), {"value": got.append})
    )
    send = attachment.port.value
    world.call(lambda: send(1))
    world.call(attachment.close)
    world.call(lambda: send(2))
    assert got == [1]


def test_queued_events_come_before_the_end_is_told(world: World, log: list[str]) -> None:
    proxy = world.open(primitive("test.queued"))

    def use() -> None:
        attachment = world.runtime.attach(proxy.endpoint("numbers"))
        for number in range(3):
            attachment.port.value(number)
        assert log == []  # whoever sends goes on first
        attachment.close()

    world.call(use)
    world.settle()
    assert log == ["connected", "value 0", "value 1", "value 2", "disconnected"]


def test_queued_events_for_a_component_that_ended_are_dropped(world: World, log: list[str]) -> None:
    proxy = world.open(primitive("test.queued"))

    def use() -> None:
        attachment = world.runtime.attach(proxy.endpoint("numbers"))
        attachment.port.value(1)
        proxy.close()

    world.call(use)
    world.settle()
    assert log == []


def test_a_queue_is_bounded(world: World) -> None:
    proxy = world.open(primitive("test.queued"))

    def use() -> bool:
        attachment = world.runtime.attach(proxy.endpoint("numbers"))
        for number in range(QUEUED_MAX + 1):
            attachment.port.value(number)
        return attachment.is_connected

    assert world.call(use) is False
    assert len(proxy.failures) == 1
    assert f"it.numbers has {QUEUED_MAX} events waiting" in str(proxy.failures[0])


def test_a_watch_can_begin_while_connected(world: World) -> None:
    proxy = world.open(primitive("test.promiser"))
    violations: list[tuple[str, Violation]] = []
    got: list[int] = []

    def use() -> None:
        attachment = world.runtime.attach(proxy.endpoint("numbers"), {"value": got.append})
        attachment.port.value(5)
        watched = proxy.endpoint("numbers")
        world.runtime.watch(watched, lambda name, found: violations.append((name, found)))
        attachment.port.value(1)
        attachment.port.value(1)

    world.call(use)
    assert got == [5, 1, 1]
    assert [name for name, _ in violations] == ["it.numbers"]
    assert violations[0][1].promise == "provided"


def test_a_watch_knows_of_the_connection_before_the_first_event(world: World) -> None:
    """The side that is told first may send at once, before the other side was told."""
    eager = world.open(primitive("test.eager"), "eager")
    promiser = world.open(primitive("test.promiser"), "promiser")
    violations: list[Violation] = []

    def use() -> None:
        end = promiser.endpoint("numbers")
        world.runtime.watch(end, lambda _, found: violations.append(found))
        world.runtime.connect(eager.endpoint("numbers"), end)

    world.call(use)
    assert violations == []


def test_a_listener_to_violations_that_raises_disturbs_nobody(world: World) -> None:
    proxy = world.open(primitive("test.promiser"))
    got: list[int] = []

    def complain(*_: object) -> None:
        raise RuntimeError("enough")

    def use() -> None:
        world.runtime.watch(proxy.endpoint("numbers"), complain)
        attachment = world.runtime.attach(proxy.endpoint("numbers"), {"value": got.append})
        attachment.port.value(1)
        attachment.port.value(1)

    world.call(use)
    assert got == [1, 1]
    assert "its watch" in str(world.told[0])
