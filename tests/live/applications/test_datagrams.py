"""Streams over datagrams: in virtual time with loss, repetition and disorder, and on sockets."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from quicksilver import live
from quicksilver.live.components.applications.video import draw_pattern
from quicksilver.live.references.builder import primitive
from quicksilver.live.services.datagrams import Datagrams
from quicksilver.stdx.rand import Rng
from tests.live.applications.desk import Desk, User
from tests.live.media import DatagramMedium, MediumDatagrams

CHANNEL = primitive("quicksilver.udp-channel", address="239.77.0.9:7790")
SENSOR = primitive("quicksilver.sensor", channel=CHANNEL)
VIDEO = primitive("quicksilver.video", channel=CHANNEL)


class Air:
    """Users of a stream over a medium that does what it likes."""

    def __init__(self, seed: int) -> None:
        from quicksilver.live.components.library import standard_components

        self.desk = Desk(seed, kinds=standard_components())
        self._medium = DatagramMedium(
            Rng(seed),
            self.desk.executor.call_later,
            loss=0.1,
            duplicates=0.1,
            jitter_s=0.05,
        )

    def join(self, reference: object, endpoint: str) -> User:
        datagrams = MediumDatagrams(self._medium, self.desk.executor)
        runtime = self.desk.runtime(services={Datagrams: datagrams})
        return self.desk.join(reference, endpoint, runtime)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_the_latest_measurement_comes_through(seed: int) -> None:
    air = Air(seed)
    users = [air.join(SENSOR, "Sensor") for _ in range(3)]
    for number in range(20):
        users[0].port.measure(float(number))
        air.desk.run(0.1)
    late = air.join(SENSOR, "Sensor")
    air.desk.run(10.0)
    for user in (*users, late):
        assert user.last("reading")[1:] == (20, 19.0)
        sequences = [sequence for _, sequence, _ in user.got("reading")]
        assert sequences == sorted(set(sequences))


@pytest.mark.parametrize("seed", range(3))
def test_frames_are_shown_whole_or_counted_as_lost(seed: int) -> None:
    air = Air(seed)
    users = [air.join(VIDEO, "Video") for _ in range(2)]
    for number in range(60):
        users[0].port.show(draw_pattern(60, 40, number))
        air.desk.run(0.1)
    air.desk.run(2.0)
    got = users[1].got("frame")
    assert len(got) > 20
    assert len(got) + users[1].component.lost == got[-1][1] - got[0][1] + 1
    assert users[1].component.lost > 0
    for _, sequence, data in got:
        assert data == draw_pattern(60, 40, sequence - 1)


@pytest.mark.integration
def test_frames_and_measurements_over_sockets() -> None:
    """Two runtimes with sockets of their own on loopback."""

    def wait(is_done: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not is_done():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    frame = draw_pattern(100, 80, 1)
    with live.platform_in_thread() as here, live.platform_in_thread() as there:
        for reference, endpoint, event, values, told in (
            (SENSOR, "Sensor", "measure", (2.5,), "reading"),
            (VIDEO, "Video", "show", (frame,), "frame"),
        ):
            seen: list[tuple[object, ...]] = []
            with here.open(reference) as mine, there.open(reference) as theirs:
                sender = mine.attach(endpoint)
                theirs.attach(endpoint, {told: lambda *got, seen=seen: seen.append(got)})
                sender.say(event, *values)
                wait(lambda seen=seen: seen)
            assert seen[0][-1] == values[0]
