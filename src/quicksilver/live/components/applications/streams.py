"""Streams of values of which only the latest matters: measurements and positions.

They go over a channel that may lose them. Each source numbers its values, and a
value older than one that was seen is dropped. A source sends at most so many
values a second: of those in between the last is sent, so the latest value always
comes through. It is repeated now and then, for those who missed it and late comers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from quicksilver.live.codec import BadMessageError, Codec, Packed
from quicksilver.live.components.interfaces import (
    UNRELIABLE,
    UnreliableChannel,
    channel_below,
)
from quicksilver.live.components.shared_object import ChannelUser
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.executors import Timer
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

SOURCES_MAX: Final = 1000
"""Sources that are told apart; past that, the one that was silent longest is forgotten."""

LABEL_CHARACTERS_MAX: Final = 100
RATE_HZ_MAX: Final = 1000.0


class Sample(Packed, frozen=True):
    """A value on its way."""

    label: str
    identity: int
    sequence: int
    values: tuple[float, ...]


_SAMPLES = Codec[Sample](Sample, "a value", 512)


def check_rate(rate_hz: float, limit_hz: float = RATE_HZ_MAX) -> float:
    """Return a rate; raises ValueError for one that no stream can have."""
    if not 0 < rate_hz <= limit_hz:
        raise ValueError(f"rate_hz is {rate_hz}: give more than 0 and at most {limit_hz:g}")
    return rate_hz


class NumberedStream(ChannelUser):
    """What streams share: each participant is a source that numbers what it sends."""

    def __init__(self, channel: Any) -> None:
        super().__init__(channel)
        self._identity = unique_number(self.context)
        self._sequence = 0
        """The number of what this source sent last."""


class LatestStream(NumberedStream):
    """Streams of values: the rate, the repetition, the order."""

    width: ClassVar[int]
    """Numbers in a value."""

    channel = channel_below(UNRELIABLE, inner=True)

    def __init__(self, channel: Any, source: str, rate_hz: float, repeat_s: float) -> None:
        super().__init__(channel)
        if repeat_s <= 0:
            raise ValueError(f"repeat_s is {repeat_s}: give more than 0")
        if len(source) > LABEL_CHARACTERS_MAX:
            raise ValueError(f"source has more than {LABEL_CHARACTERS_MAX} characters")
        self._label = source
        self._interval_s = 1.0 / check_rate(rate_hz)
        self._repeat_s = repeat_s
        self._value: tuple[float, ...] | None = None
        self._free_at = 0.0
        self._timer: Timer | None = None
        self._latest: dict[int, Sample] = {}
        self.stale = 0
        """Values that came after later ones, or again."""
        self.overtaken = 0
        """Values of our own that were not sent: there was a later one before their turn."""

    # What subclasses say

    @abstractmethod
    def say(self, source: str, sequence: int, values: tuple[float, ...]) -> None:
        """Tell the user a value."""

    # Sending

    def publish(self, *values: float) -> None:
        """Send a value as soon as the rate allows, unless there is a later one by then."""
        now = self.context.now()
        if self._timer is not None and self._value is not None and now < self._free_at:
            self.overtaken += 1
        self._value = values
        self._sequence += 1
        if now >= self._free_at:
            self._send()
        else:
            self._send_later(self._free_at - now)

    def _send(self) -> None:
        assert self._value is not None
        self._free_at = self.context.now() + self._interval_s
        sample = Sample(self._label, self._identity, self._sequence, self._value)
        self.channel.send(_SAMPLES.encode(sample))
        self._send_later(self._repeat_s)

    def _send_later(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.context.call_later(wait_s, self._send)

    # Receiving

    def handle_message(self, message: bytes) -> None:
        """Take a value, if it is later than what was seen of its source."""
        sample = _SAMPLES.decode(message)
        self._check(sample)
        before = self._latest.pop(sample.identity, None)
        if before is not None and before.sequence >= sample.sequence:
            self.stale += 1
            self._latest[sample.identity] = before  # it is not silent
            return
        if len(self._latest) >= SOURCES_MAX:
            del self._latest[next(iter(self._latest))]
        self._latest[sample.identity] = sample
        self.say(_source(sample), sample.sequence, sample.values)

    def _check(self, sample: Sample) -> None:
        if len(sample.values) != self.width or not all(map(math.isfinite, sample.values)):
            raise BadMessageError("a value", f"is not {self.width} finite numbers")
        if len(sample.label) > LABEL_CHARACTERS_MAX:
            raise BadMessageError("a source", f"has more than {LABEL_CHARACTERS_MAX} characters")

    def repeat_all(self) -> None:
        """Tell the user the latest value of every source."""
        for sample in list(self._latest.values()):
            self.say(_source(sample), sample.sequence, sample.values)


def _source(sample: Sample) -> str:
    return f"{sample.label or 'source'}-{sample.identity:x}"


def never_back(event: str) -> tuple[str, str]:
    """Return the promise that values of one source come in the order they were made in."""
    later = f"{event}(sequence=n, source=s)"
    earlier = f"{event}(sequence=m, source=s)"
    return ("temporal", f"{later} and previous once {earlier} -> m <= n")


# Measurements


class SensorRequests(Protocol):
    """Events that users send to a sensor stream."""

    def measure(self, value: float) -> None:
        """Publish a measurement as this sensor's latest."""


class SensorReadings(Protocol):
    """Events that a sensor stream sends to its users."""

    def reading(self, source: str, sequence: int, value: float) -> None:
        """Take a sensor's latest measurement; gaps in the numbers are what was left out."""

    def refused(self, reason: str) -> None:
        """Hear that a measurement was not sent."""


@component("quicksilver.sensor", type_name="SensorStream")
@live_object(title="SensorStream")
class SensorStream(LatestStream):
    """measurements of many sensors, of which the latest counts

    Each source sends at most ``rate_hz`` values a second and repeats the latest every
    ``repeat_s`` seconds.
    """

    width: ClassVar = 1
    sensor = endpoint(
        SensorRequests,
        SensorReadings,
        provides=[("delivery", "best effort"), never_back("reading")],
        name="Sensor",
    )

    def __init__(
        self,
        channel: Given[Ref[UnreliableChannel]],
        source: Given[str] = "",
        rate_hz: Given[float] = 20.0,
        repeat_s: Given[float] = 1.0,
    ) -> None:
        super().__init__(channel, source, rate_hz, repeat_s)

    def sensor_measure(self, value: float) -> None:
        """Publish a measurement."""
        _publish(self, self.sensor.refused, value)

    def sensor_connected(self) -> None:
        """Begin with what is known."""
        self.repeat_all()

    def say(self, source: str, sequence: int, values: tuple[float, ...]) -> None:
        self.sensor.reading(source, sequence, values[0])


# Positions


class CoordinateRequests(Protocol):
    """Events that users send to a coordinate stream."""

    def move(self, x: float, y: float, z: float) -> None:
        """Publish where this thing is now."""


class CoordinatePositions(Protocol):
    """Events that a coordinate stream sends to its users."""

    def moved(self, source: str, sequence: int, x: float, y: float, z: float) -> None:
        """Take where a thing is now."""

    def refused(self, reason: str) -> None:
        """Hear that a position was not sent."""


@component("quicksilver.coordinates", type_name="CoordinateStream")
@live_object(title="CoordinateStream")
class CoordinateStream(LatestStream):
    """positions of many things, of which the latest counts

    Each source sends at most ``rate_hz`` values a second and repeats the latest every
    ``repeat_s`` seconds.
    """

    width: ClassVar = 3
    coordinates = endpoint(
        CoordinateRequests,
        CoordinatePositions,
        provides=[("delivery", "best effort"), never_back("moved")],
        name="Coordinates",
    )

    def __init__(
        self,
        channel: Given[Ref[UnreliableChannel]],
        source: Given[str] = "",
        rate_hz: Given[float] = 30.0,
        repeat_s: Given[float] = 1.0,
    ) -> None:
        super().__init__(channel, source, rate_hz, repeat_s)

    def coordinates_move(self, x: float, y: float, z: float) -> None:
        """Publish a position."""
        _publish(self, self.coordinates.refused, x, y, z)

    def coordinates_connected(self) -> None:
        """Begin with what is known."""
        self.repeat_all()

    def say(self, source: str, sequence: int, values: tuple[float, ...]) -> None:
        self.coordinates.moved(source, sequence, *values)


def _publish(stream: LatestStream, refuse: Callable[..., Any], *values: float) -> None:
    if all(map(math.isfinite, values)):
        stream.publish(*values)
    else:
        refuse(f"{values} are not all finite numbers")
