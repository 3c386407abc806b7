"""A source of video that needs no camera: a bar that moves over a gradient."""

from __future__ import annotations

from typing import Final

from quicksilver.live.components.applications.video import VideoFrames, VideoRequests
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object

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
        if not 0 < rate_hz <= 240:
            raise ValueError(f"rate_hz is {rate_hz}: give more than 0 and at most 240")
        self._size = (width, height)
        self._interval_s = 1.0 / rate_hz
        self._frames = frames
        self.shown = 0
        """Frames made."""
        self.received = 0
        """Frames that the stream gave, our own included."""
        self.lost = 0

    def video_connected(self) -> None:
        """Begin."""
        self._next()

    def video_frame(self, source: str, sequence: int, data: bytes) -> None:
        """Count a frame."""
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
