"""The shared desktop: what is dropped comes to life for everybody, and nothing takes it down."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from quicksilver.live.components.applications import desktop_objects
from quicksilver.live.components.applications.desktop_objects import Windows
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.xml import write
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.types.declare import Given, endpoint, live_object
from tests.live.applications.desk import Desk, User

CHANNEL = primitive("test.checkpointed", group="desk")
DESKTOP = primitive("quicksilver.desktop", channel=CHANNEL)


class Nothing(Protocol):
    def poke(self) -> None: ...


@component("test.fragile")
@live_object
class Fragile:
    """breaks when it is told to"""

    context: Context
    fragile = endpoint(Nothing, Nothing)
    made = 0

    def __init__(self, is_broken: Given[bool] = False) -> None:
        if is_broken:
            raise ValueError("broken in the box")
        Fragile.made += 1

    def fragile_poke(self) -> None:
        raise ValueError("poked")

    def close(self) -> None:
        Fragile.made -= 1


@pytest.fixture(autouse=True)
def none_made() -> None:
    Fragile.made = 0


def counter(group: str) -> str:
    channel = primitive("test.checkpointed", group=group)
    return write(primitive("quicksilver.counter", channel=channel))


def sit(desk: Desk, **services: Any) -> User:
    runtime = desk.runtime((Fragile,), {Windows: services["windows"]} if services else None)
    return desk.join(DESKTOP, "Desktop", runtime)


def items(user: User) -> dict[int, tuple[str, float, float]]:
    return {
        number: (item.title, item.x, item.y)
        for number, item in user.component.items.by_number.items()
    }


class Glass(Windows):
    """Remembers what it shows."""

    def __init__(self) -> None:
        self.shown: dict[int, Proxy] = {}

    def opened(self, desktop: str, item: int, proxy: Proxy) -> None:
        self.shown[item] = proxy

    def closed(self, desktop: str, item: int) -> None:
        del self.shown[item]


def test_what_is_dropped_runs_on_every_desktop_and_is_one_object() -> None:
    desk = Desk()
    glasses = [Glass(), Glass()]
    users = [sit(desk, windows=glass) for glass in glasses]
    desk.run()
    users[0].port.drop("votes", 10.0, 20.0, counter("votes"))
    desk.run()
    assert [user.got("opened") for user in users] == [[1], [1]]
    voters = [
        User(user.runtime, glass.shown[1], "Counter")
        for user, glass in zip(users, glasses, strict=True)
    ]
    voters[0].port.add(3)
    voters[1].port.add(4)
    desk.run()
    assert [voter.last("total") for voter in voters] == [7, 7]


def test_items_are_moved_retitled_and_removed_for_everybody_late_comers_included() -> None:
    desk = Desk()
    users = [sit(desk), sit(desk)]
    desk.run()
    for name in ("a", "b", "c"):
        users[0].port.drop(name, 0.0, 0.0, counter(name))
    desk.run()
    users[1].port.move(2, 5.0, 6.0)
    users[0].port.retitle(2, "B")
    users[1].port.remove(1)
    users[0].port.move(1, 9.0, 9.0)
    desk.run()
    late = sit(desk)
    desk.run()
    expected = {2: ("B", 5.0, 6.0), 3: ("c", 0.0, 0.0)}
    assert [items(user) for user in (*users, late)] == [expected] * 3
    assert late.got("opened") == [2, 3]
    assert users[0].got("disappeared") == [1]
    assert desk.hub.members("a") == []
    assert len(desk.hub.members("b")) == 3


def test_a_failure_is_shown_at_its_item_and_the_rest_goes_on() -> None:
    desk = Desk()
    user = sit(desk)
    desk.run()
    user.port.drop("broken", 0.0, 0.0, write(primitive("test.fragile", is_broken=True)))
    user.port.drop("unknown", 0.0, 0.0, write(primitive("nobody.knows")))
    user.port.drop("sound", 0.0, 0.0, write(primitive("test.fragile")))
    user.port.drop("no xml", 0.0, 0.0, "<liveobject>")
    desk.run()
    failed = dict(user.got("failed"))
    assert "broken in the box" in failed[1]
    assert "nobody.knows" in failed[2]
    assert user.got("opened") == [3]
    assert len(user.got("refused")) == 1
    assert not user.proxy.failures


def test_an_object_that_fails_later_is_shown_so_and_can_be_opened_again() -> None:
    desk = Desk()
    glass = Glass()
    user = sit(desk, windows=glass)
    desk.run()
    user.port.drop("fragile", 0.0, 0.0, write(primitive("test.fragile")))
    desk.run()
    User(user.runtime, glass.shown[1], "fragile").port.poke()
    desk.run(5.0)
    assert user.got("failed")[0][1].endswith("ValueError: poked")
    assert glass.shown == {}
    user.port.reopen(1)
    desk.run()
    assert user.got("opened") == [1, 1]
    assert Fragile.made == 1


def test_a_window_that_fails_does_no_harm() -> None:
    class Shutter(Windows):
        def opened(self, desktop: str, item: int, proxy: Proxy) -> None:
            raise RuntimeError("no light")

    desk = Desk()
    user = sit(desk, windows=Shutter())
    desk.run()
    user.port.drop("a", 0.0, 0.0, write(primitive("test.fragile")))
    desk.run()
    assert user.got("failed") == [(1, "it could not be shown: no light")]
    assert not user.proxy.failures


def test_closing_a_desktop_closes_all_that_lies_on_it() -> None:
    desk = Desk()
    user = sit(desk)
    desk.run()
    for number in range(50):
        user.port.drop(str(number), 0.0, 0.0, write(primitive("test.fragile")))
    desk.run()
    assert Fragile.made == 50
    user.proxy.close()
    assert Fragile.made == 0


def test_what_is_removed_while_it_opens_is_not_left_open() -> None:
    desk = Desk()
    user = sit(desk)
    desk.run()
    user.port.drop("a", 0.0, 0.0, write(primitive("test.fragile")))
    user.port.remove(1)
    desk.run()
    assert Fragile.made == 0
    assert items(user) == {}


def test_no_more_is_opened_than_allowed() -> None:
    desk = Desk()
    small = primitive("quicksilver.desktop", channel=CHANNEL, opened_max=2)
    user = desk.join(small, "Desktop", desk.runtime((Fragile,)))
    desk.run()
    for _ in range(4):
        user.port.drop("a", 0.0, 0.0, write(primitive("test.fragile")))
    desk.run()
    assert Fragile.made == 2
    assert [item for item, _ in user.got("failed")] == [3, 4]
    user.port.remove(1)
    user.port.reopen(3)
    desk.run()
    user.port.reopen(3)
    desk.run()
    assert user.got("opened") == [1, 2, 3]


def test_a_desktop_cannot_lie_on_itself() -> None:
    desk = Desk()
    user = sit(desk)
    desk.run()
    user.port.drop("me", 0.0, 0.0, write(DESKTOP))
    desk.run()
    [(item, problem)] = user.got("failed")
    assert item == 1
    assert "a desktop cannot lie on itself" in problem


def test_two_desktops_that_lie_on_each_other_are_told_apart_and_stopped() -> None:
    desk = Desk()
    other_channel = primitive("test.checkpointed", group="other")
    other = primitive("quicksilver.desktop", channel=other_channel)
    user = sit(desk)
    far = desk.join(other, "Desktop", desk.runtime((Fragile,)))
    desk.run()
    user.port.drop("other", 0.0, 0.0, write(other))
    far.port.drop("first", 0.0, 0.0, write(DESKTOP))
    desk.run(5.0)
    inner = user.component.opening.proxies[1].cells[0].instance
    assert "cannot lie on itself" in inner.opening.failures[1]


@pytest.mark.slow
def test_desktops_lie_only_so_deep_on_each_other() -> None:
    desk = Desk()
    names = [f"level {number}" for number in range(8)]
    desktops = [
        primitive("quicksilver.desktop", channel=primitive("test.checkpointed", group=name))
        for name in names
    ]
    users = [desk.join(one, "Desktop", desk.runtime((Fragile,))) for one in desktops]
    desk.run()
    for user, below in zip(users[:-1], desktops[1:], strict=True):
        user.port.drop("below", 0.0, 0.0, write(below))
    desk.run(5.0)
    deep = users[0].component
    levels = 0
    while deep.opening.proxies:
        deep = deep.opening.proxies[1].cells[0].instance
        levels += 1
    assert levels == desktop_objects.DEPTH_MAX - 1  # the first counts
    assert "deep on each other" in deep.opening.failures[1]


@pytest.mark.parametrize(
    ("title", "x", "reference"),
    [("t" * 300, 0.0, "<x/>"), ("a\nb", 0.0, "<x/>"), ("a", float("nan"), "<x/>")],
)
def test_what_cannot_be_an_item_is_refused(title: str, x: float, reference: str) -> None:
    desk = Desk()
    user = sit(desk)
    desk.run()
    user.port.drop(title, x, 0.0, reference)
    assert len(user.got("refused")) == 1


def test_bad_updates_are_counted_by_everybody_alike() -> None:
    desk = Desk()
    users = [sit(desk), sit(desk)]
    desk.run()
    desk.disturb("desk", b"\x93\xa4move\x01\x02")
    desk.disturb("desk", b"\x92\xa4drop\x01")
    users[0].port.drop("fine", 0.0, 0.0, write(primitive("test.fragile")))
    users[0].port.retitle(1, "t" * 500)
    desk.run()
    assert [user.component.bad_updates for user in users] == [3, 3]
    assert items(users[0]) == items(users[1]) == {1: ("fine", 0.0, 0.0)}
