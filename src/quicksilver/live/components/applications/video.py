"""Frames of video as a stream; late or lost frames are skipped, nobody waits for them.

Over a channel that may lose messages, frames go in parts that fit a datagram; over
a reliable one they go whole, and the sender skips frames while too many are on
their way. Frames are bytes of any format.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from quicksilver.live.codec import BadMessageError, Codec, Packed
from quicksilver.live.components.applications.streams import NumberedStream, check_rate, never_back
from quicksilver.live.components.interfaces import (
    RELIABLE,
    UNRELIABLE,
    ReliableChannel,
    UnreliableChannel,
    channel_below,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

FRAME_BYTES_MAX: Final = 2 << 20
PART_BYTES_MIN: Final = 64
PART_BYTES_MAX: Final = 60_000
SOURCES_MAX: Final = 16
FRAMES_HELD_MAX: Final = 4
"""Frames of one source that may wait for parts."""


class Part(Packed, frozen=True):
    """A part of a frame; a frame sent whole has one."""

    source: int
    sequence: int
    index: int
    count: int
    data: bytes


class Frame(msgspec.Struct, frozen=True):
    """A frame that is whole, and how many before it will never be."""

    source: int
    sequence: int
    data: bytes
    lost: int


def split(source: int, sequence: int, data: bytes, part_bytes: int) -> Iterator[Part]:
    """Yield the parts of a frame."""
    count = max(1, -(-len(data) // part_bytes))
    for index in range(count):
        piece = data[index * part_bytes : (index + 1) * part_bytes]
        yield Part(source, sequence, index, count, piece)


class _Frame:
    __slots__ = ("bytes", "count", "parts")

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts: dict[int, bytes] = {}
        self.bytes = 0


class _Source:
    __slots__ = ("frames", "shown")

    def __init__(self) -> None:
        self.shown = 0
        """The last frame that was whole."""
        self.frames: dict[int, _Frame] = {}


class Assembly:
    """Puts parts together."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self.late = 0
        """Parts of frames that were shown or given up before."""
        self.given_up = 0
        """Frames that were begun and never whole."""

    def add(self, part: Part) -> Frame | None:
        """Take a part; return the frame that it makes whole. Raises BadMessageError."""
        _check(part)
        source = self._sources.pop(part.source, None) or _Source()
        if len(self._sources) >= SOURCES_MAX:
            del self._sources[next(iter(self._sources))]  # silent longest
        self._sources[part.source] = source
        if part.sequence <= source.shown:
            self.late += 1
            return None
        held = source.frames.get(part.sequence)
        if held is None:
            held = self._begin(source, part)
            if held is None:
                return None
        self._put(held, part)
        if len(held.parts) < held.count:
            return None
        return self._complete(source, part, held)

    def _begin(self, source: _Source, part: Part) -> _Frame | None:
        if len(source.frames) >= FRAMES_HELD_MAX:
            oldest = min(source.frames)
            if part.sequence < oldest:
                self.late += 1
                return None
            del source.frames[oldest]
            self.given_up += 1
        held = source.frames[part.sequence] = _Frame(part.count)
        return held

    @staticmethod
    def _put(held: _Frame, part: Part) -> None:
        if part.count != held.count:
            raise BadMessageError("a part", "is of a frame of another number of parts")
        if part.index in held.parts:
            return
        if held.bytes + len(part.data) > FRAME_BYTES_MAX:
            raise BadMessageError("a frame", f"has more than {FRAME_BYTES_MAX} bytes")
        held.parts[part.index] = part.data
        held.bytes += len(part.data)

    def _complete(self, source: _Source, part: Part, held: _Frame) -> Frame:
        # Before the first frame of a source nothing was lost: one may come late to a stream.
        lost = part.sequence - source.shown - 1 if source.shown else 0
        source.shown = part.sequence
        over = [number for number in source.frames if number <= part.sequence]
        for number in over:
            del source.frames[number]
        self.given_up += len(over) - 1
        data = b"".join(held.parts[index] for index in range(held.count))
        return Frame(part.source, part.sequence, data, lost)


def _check(part: Part) -> None:
    if part.sequence <= 0 or not 0 <= part.index < part.count:
        raise BadMessageError("a part", "has numbers that make no sense")
    if part.count > -(-FRAME_BYTES_MAX // PART_BYTES_MIN):
        raise BadMessageError("a frame", "has too many parts")


RATE_HZ_MAX: Final = 240.0
BURST: Final = 2.0
"""Frames that may follow each other at once."""

IN_FLIGHT_BYTES_MAX: Final = 4 << 20
IN_FLIGHT_FRAMES_MAX: Final = 8
"""Frames of our own that have not come back through a reliable channel."""


class VideoRequests(Protocol):
    """Events that users send to a video stream."""

    def show(self, data: bytes) -> None:
        """Send a frame; it is skipped if frames come faster than the rate."""


class VideoFrames(Protocol):
    """Events that a video stream sends to its users."""

    def frame(self, source: str, sequence: int, data: bytes) -> None:
        """Show a frame, later than all before of its source."""

    def lost(self, source: str, frames: int) -> None:
        """Hear that frames before the next were lost."""

    def refused(self, reason: str) -> None:
        """Hear that a frame cannot be sent."""


_PROMISES = (("delivery", "best effort"), never_back("frame"))


class FrameStream(NumberedStream):
    """What both forms of video share: the rate, the parts, the user's side."""

    video = endpoint(VideoRequests, VideoFrames, provides=_PROMISES, name="Video")

    def __init__(self, channel: Any, rate_hz: float) -> None:
        super().__init__(channel)
        self._rate_hz = check_rate(rate_hz, RATE_HZ_MAX)
        self._budget = BURST
        self._budget_at = self.context.now()
        self.assembly = Assembly()
        self.skipped = 0
        """Frames of our own that were not sent: too soon, or too many on their way."""
        self.lost = 0
        """Frames of others that never came."""
        self._parts = Codec[Part](Part, "a frame", FRAME_BYTES_MAX + 64)

    # Sending

    @abstractmethod
    def send_frame(self, sequence: int, data: bytes) -> None:
        """Send a frame through the channel."""

    def has_room(self, data: bytes) -> bool:
        """Whether the channel may be given a frame now."""
        return True

    def video_show(self, data: bytes) -> None:
        """Send a frame, or skip it."""
        if len(data) > FRAME_BYTES_MAX:
            reason = f"a frame has {len(data)} bytes of at most {FRAME_BYTES_MAX}"
            self.video.refused(reason)
            return
        now = self.context.now()
        self._budget = min(BURST, self._budget + (now - self._budget_at) * self._rate_hz)
        self._budget_at = now
        # A frame that was skipped has no number: numbers tell what the channel lost.
        if self._budget < 1.0 or not self.has_room(data):
            self.skipped += 1
            return
        self._budget -= 1.0
        self._sequence += 1
        self.send_frame(self._sequence, data)

    # Receiving

    def handle_message(self, message: bytes) -> None:
        """Take a part; show the frame that it completes."""
        part = self._parts.decode(message)
        if part.source == self._identity:
            self.handle_own(part)
        frame = self.assembly.add(part)
        if frame is None:
            return
        source = f"video-{frame.source:x}"
        if frame.lost:
            self.lost += frame.lost
            self.video.lost(source, frame.lost)
        self.video.frame(source, frame.sequence, frame.data)

    def handle_own(self, part: Part) -> None:  # a hook; most streams need it not
        """Take note that something of our own came back."""


@component("quicksilver.video", type_name="VideoStream")
@live_object(title="VideoStream")
class VideoStream(FrameStream):
    """frames of video over a channel that may lose them

    At most ``rate_hz`` frames a second, of at most 2 MiB, in parts of ``part_bytes``.
    """

    channel = channel_below(UNRELIABLE, inner=True)

    def __init__(
        self,
        channel: Given[Ref[UnreliableChannel]],
        rate_hz: Given[float] = 30.0,
        part_bytes: Given[int] = 1200,
    ) -> None:
        if not PART_BYTES_MIN <= part_bytes <= PART_BYTES_MAX:
            bounds = f"give {PART_BYTES_MIN} to {PART_BYTES_MAX}"
            raise ValueError(f"part_bytes is {part_bytes}: {bounds}")
        super().__init__(channel, rate_hz)
        self._part_bytes = part_bytes

    def send_frame(self, sequence: int, data: bytes) -> None:
        """Send a frame in parts."""
        for part in split(self._identity, sequence, data, self._part_bytes):
            self.channel.send(self._parts.encode(part))


@component("quicksilver.reliable-video", type_name="ReliableVideoStream")
@live_object(title="ReliableVideoStream")
class ReliableVideoStream(FrameStream):
    """frames of video over a reliable channel, skipped while too many are on their way

    At most ``rate_hz`` frames a second, of at most 2 MiB; 8 frames or 4 MiB on their way.
    """

    channel = channel_below(RELIABLE, inner=True)

    def __init__(self, channel: Given[Ref[ReliableChannel]], rate_hz: Given[float] = 30.0) -> None:
        super().__init__(channel, rate_hz)
        self._in_flight: dict[int, int] = {}

    def has_room(self, data: bytes) -> bool:
        """Whether few enough frames are on their way."""
        sizes = self._in_flight.values()
        return not sizes or (
            len(sizes) < IN_FLIGHT_FRAMES_MAX and sum(sizes) + len(data) <= IN_FLIGHT_BYTES_MAX
        )

    def send_frame(self, sequence: int, data: bytes) -> None:
        """Send a frame whole."""
        self._in_flight[sequence] = len(data)
        self.channel.send(self._parts.encode(Part(self._identity, sequence, 0, 1, data)))

    def handle_own(self, part: Part) -> None:  # a hook; most streams need it not
        """A frame came back: all before it did, or never will."""
        for sequence in [one for one in self._in_flight if one <= part.sequence]:
            del self._in_flight[sequence]


SIDE_MAX: Final = 1024


def draw_pattern(width: int, height: int, number: int) -> bytes:
    """Return a frame as a grey picture (PGM): the number of the frame is where the bar is."""
    row = bytearray(255 * x // max(1, width - 1) for x in range(width))
    row[number % width] = 255 - row[number % width]
    return b"P5 %d %d 255\n" % (width, height) + bytes(row) * height


@component("quicksilver.video-pattern", type_name="VideoPattern")
@live_object(title="VideoPattern")
class VideoPattern:
    """a source of video frames for trying things out

    Connect it to a video stream. With ``frames``, it stops after so many.
    """

    context: Context
    video = endpoint(VideoFrames, VideoRequests, name="Video")

    def __init__(
        self,
        width: Given[int] = 160,
        height: Given[int] = 120,
        rate_hz: Given[float] = 25.0,
        frames: Given[int] = 0,
    ) -> None:
        if not (0 < width <= SIDE_MAX and 0 < height <= SIDE_MAX):
            raise ValueError(f"the picture is {width} by {height}: sides are 1 to {SIDE_MAX}")
        self._size = (width, height)
        self._interval_s = 1.0 / check_rate(rate_hz, RATE_HZ_MAX)
        self._frames = frames
        self.shown = 0
        """Frames made."""
        self.received = 0
        """Frames that the stream gave, our own included."""
        self.lost = 0

    def video_connected(self) -> None:
        self._next()

    def video_frame(self, source: str, sequence: int, data: bytes) -> None:
        self.received += 1

    def video_lost(self, source: str, frames: int) -> None:
        """Count what was lost."""
        self.lost += frames

    def video_refused(self, reason: str) -> None:
        """Cannot be: frames are small."""

    def _next(self) -> None:
        if not self.video.is_connected or (self._frames and self.shown >= self._frames):
            return
        self.shown += 1
        self.video.show(draw_pattern(*self._size, self.shown))
        self.context.call_later(self._interval_s, self._next)
