"""What the objects' types promise is watched while they work, and a broken promise is told."""

from __future__ import annotations

from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.references.xml import write
from tests.live.applications.desk import Desk, User
from tests.live.applications.test_image import png

CHANNEL = primitive("test.checkpointed", group="p")


def watched(desk: Desk, reference: Reference, endpoint: str) -> tuple[User, list[str]]:
    user = desk.join(reference, endpoint)
    violations: list[str] = []
    user.runtime.watch(
        user.proxy.endpoint(endpoint), lambda _, violation: violations.append(str(violation))
    )
    desk.run()
    return user, violations


def test_nothing_opens_that_did_not_appear() -> None:
    desk = Desk()
    reference = primitive("quicksilver.desktop", channel=CHANNEL)
    user, violations = watched(desk, reference, "Desktop")
    inner = primitive("quicksilver.counter", channel=primitive("test.checkpointed", group="q"))
    user.port.drop("a", 0.0, 0.0, write(inner))
    user.port.drop("b", 0.0, 0.0, write(primitive("nobody.knows")))
    desk.run()
    assert user.got("opened") == [1]
    assert violations == []
    user.component.desktop.opened(99)
    assert len(violations) == 1


def test_nothing_is_drawn_where_nothing_is_shown() -> None:
    desk = Desk()
    reference = primitive("quicksilver.image", channel=CHANNEL)
    user, violations = watched(desk, reference, "Image")
    user.port.draw(0, 0, png(2, 2))
    user.port.replace(png(9, 9))
    user.port.draw(0, 0, png(2, 2))
    user.port.clear()
    user.port.draw(0, 0, png(2, 2))
    desk.run()
    assert len(user.got("drawn")) == 1
    assert violations == []
    user.component.image.drawn(0, 0, 2, 2, png(2, 2))
    assert len(violations) == 1


def test_a_source_never_goes_back() -> None:
    desk = Desk()
    channel = primitive("test.unreliable", group="p")
    reference = primitive("quicksilver.sensor", channel=channel)
    user, violations = watched(desk, reference, "Sensor")
    for number in range(5):
        user.port.measure(float(number))
        desk.run()
    assert len(user.got("reading")) == 5
    assert violations == []
    user.component.sensor.reading("roof", 7, 1.0)
    user.component.sensor.reading("roof", 6, 1.0)
    assert len(violations) == 1
