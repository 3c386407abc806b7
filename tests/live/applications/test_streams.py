"""Streams: the latest value wins, a rate is kept, lost frames are counted, nothing blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.applications.video import (
    FRAMES_HELD_MAX,
    SOURCES_MAX,
    Assembly,
    Part,
    draw_pattern,
    split,
)
from quicksilver.live.monitors import Violation
from quicksilver.live.references.builder import composite, primitive
from tests.live.applications.desk import Desk

LOSSY = primitive("test.unreliable", group="s")
SENSOR = primitive("quicksilver.sensor", channel=LOSSY, source="roof", rate_hz=10.0)
COORDINATES = primitive("quicksilver.coordinates", channel=LOSSY)
VIDEO = primitive("quicksilver.video", channel=LOSSY, part_bytes=100)
RELIABLE_VIDEO = primitive(
    "quicksilver.reliable-video", channel=primitive("test.reliable", group="s"), rate_hz=100.0
)


def test_the_latest_value_comes_through_loss_and_disorder() -> None:
    desk = Desk(seed=3)
    desk.hub.loss, desk.hub.delay_s = 0.5, 0.4
    users = [desk.join(SENSOR, "Sensor") for _ in range(3)]
    violations: list[Violation] = []
    for user in users:
        endpoint = user.proxy.endpoint("Sensor")
        user.runtime.watch(endpoint, lambda _, violation: violations.append(violation))
    for number in range(40):
        users[0].port.measure(float(number))
        desk.run(0.05)
    desk.run(10.0)
    for user in users:
        source, sequence, value = user.last("reading")
        assert source.startswith("roof-")
        assert (sequence, value) == (40, 39.0)
        sequences = [sequence for _, sequence, _ in user.got("reading")]
        assert sequences == sorted(set(sequences))
    assert violations == []
    assert users[1].component.stale > 0


def test_a_source_keeps_to_its_rate_and_sends_the_last_of_those_between() -> None:
    desk = Desk()
    user = desk.join(SENSOR, "Sensor")
    for number in range(1000):
        user.port.measure(float(number))
        desk.run(0.001)
    desk.run(0.5)
    assert len(desk.hub.sent) <= 12
    assert user.last("reading")[2] == 999.0
    assert user.component.overtaken >= 980


def test_a_late_comer_gets_the_value_without_anybody_measuring() -> None:
    desk = Desk()
    first = desk.join(COORDINATES, "Coordinates")
    first.port.move(1.0, 2.0, 3.0)
    desk.run(5.0)
    late = desk.join(COORDINATES, "Coordinates")
    desk.run(2.0)
    assert late.last("moved")[2:] == (1.0, 2.0, 3.0)


def test_values_that_are_no_numbers_are_refused_and_bad_messages_counted() -> None:
    desk = Desk()
    user = desk.join(SENSOR, "Sensor")
    user.port.measure(float("nan"))
    for bad in (b"", b"\x94\xa0\x01\x01\x92\xca\0\0\0\0\xca\0\0\0\0", b"\xff" * 600):
        desk.disturb("s", bad)
    desk.run()
    assert len(user.got("refused")) == 1
    assert user.component.bad_updates == 3
    assert not user.proxy.failures


def test_only_so_many_sources_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver.live.components.applications.streams.SOURCES_MAX", 2)
    desk = Desk()
    users = [desk.join(SENSOR, "Sensor") for _ in range(4)]
    for user in users:
        user.port.measure(1.0)
    desk.run()
    assert len(users[0].component._latest) == 2


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e9])
def test_a_rate_that_makes_no_sense_is_refused(rate: float) -> None:
    desk = Desk()
    with pytest.raises(Exception, match="rate_hz"):
        desk.join(primitive("quicksilver.sensor", channel=LOSSY, rate_hz=rate), "Sensor")


# Video


@pytest.mark.parametrize("form", [VIDEO, RELIABLE_VIDEO], ids=["unreliable", "reliable"])
def test_frames_arrive_whole_and_in_order(form: object) -> None:
    desk = Desk()
    users = [desk.join(form, "Video") for _ in range(2)]  # type: ignore[arg-type]
    frames = [draw_pattern(30, 20, number) for number in range(10)]
    for frame in frames:
        users[0].port.show(frame)
        desk.run(0.1)
    desk.run()
    for user in users:
        assert [data for _, _, data in user.got("frame")] == frames
        assert user.got("lost") == []


def test_lost_frames_are_counted_and_the_stream_goes_on() -> None:
    desk = Desk(seed=5)
    desk.hub.loss, desk.hub.delay_s = 0.05, 0.1
    users = [desk.join(VIDEO, "Video") for _ in range(2)]
    for number in range(200):
        users[0].port.show(draw_pattern(30, 20, number))
        desk.run(0.05)
    desk.run()
    watcher = users[1].component
    got = users[1].got("frame")
    assert 0 < len(got) < 200
    first = got[0][1]
    assert len(got) + watcher.lost == got[-1][1] - first + 1
    assert sum(frames for _, frames in users[1].got("lost")) == watcher.lost
    for _, sequence, data in got:
        assert data == draw_pattern(30, 20, sequence - 1)


def test_frames_faster_than_the_rate_are_skipped() -> None:
    desk = Desk()
    user = desk.join(VIDEO, "Video")
    for number in range(1000):
        user.port.show(bytes([number % 256]))
        desk.run(0.001)
    assert 29 <= len(user.got("frame")) <= 33
    assert len(user.got("frame")) + user.component.skipped == 1000


def test_a_slow_channel_makes_the_sender_skip_and_never_wait() -> None:
    desk = Desk()
    desk.hub.delay_s = 100.0
    user = desk.join(RELIABLE_VIDEO, "Video")
    for _ in range(100):
        user.port.show(b"frame")
        desk.run(0.02)
    assert len(desk.hub.sent) == 8
    assert user.component.skipped == 92
    desk.run(1000.0)
    user.port.show(b"again")
    assert len(desk.hub.sent) == 9


def test_a_frame_that_is_too_large_is_refused() -> None:
    desk = Desk()
    user = desk.join(VIDEO, "Video")
    user.port.show(bytes(3 << 20))
    assert "bytes of at most" in user.last("refused")
    assert desk.hub.sent == []


def test_the_pattern_plays_through_a_stream() -> None:
    desk = Desk()
    player = (
        composite()
        .component("source", primitive("quicksilver.video-pattern", frames=20, rate_hz=20.0))
        .component("stream", VIDEO)
        .connect("source.Video", "stream.Video")
        .build()
    )
    watcher = desk.join(VIDEO, "Video")
    task = desk.runtime().open(player)
    desk.run(5.0)
    source = next(
        cell.instance for cell in task.result().cells if hasattr(cell.instance, "received")
    )
    assert source.shown == source.received == len(watcher.got("frame")) == 20


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.binary(min_size=0, max_size=300), min_size=1, max_size=5),
    st.integers(64, 128),
    st.randoms(use_true_random=False),
)
def test_parts_in_any_order_make_only_true_frames_in_order(
    frames: list[bytes], size: int, chance: object
) -> None:
    parts = [part for n, data in enumerate(frames, 1) for part in split(7, n, data, size)]
    parts += parts[:3]
    chance.shuffle(parts)  # type: ignore[attr-defined]
    assembly = Assembly()
    whole = [frame for part in parts if (frame := assembly.add(part)) is not None]
    numbers = [frame.sequence for frame in whole]
    assert numbers == sorted(set(numbers))
    assert all(frame.data == frames[frame.sequence - 1] for frame in whole)


def test_what_is_held_of_incomplete_frames_is_bounded() -> None:
    assembly = Assembly()
    for source in range(100):
        for sequence in range(1, 50):
            assembly.add(Part(source, sequence, 0, 2, b"x" * 1000))
    held = assembly._sources
    assert len(held) == SOURCES_MAX
    assert all(len(source.frames) <= FRAMES_HELD_MAX for source in held.values())


@pytest.mark.parametrize(
    "part",
    [
        Part(1, 0, 0, 1, b""),
        Part(1, 1, 1, 1, b""),
        Part(1, 1, -1, 1, b""),
        Part(1, 1, 0, 10_000_000, b""),
    ],
)
def test_parts_that_make_no_sense_are_refused(part: Part) -> None:
    with pytest.raises(BadMessageError):
        Assembly().add(part)
