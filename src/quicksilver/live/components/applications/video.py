"""Frames of video as a stream; late or lost frames are skipped, nobody waits for them.

Over a channel that may lose messages, frames go in parts that fit a datagram; over
a reliable one they go whole, and the sender skips frames while too many are on
their way. Frames are bytes of any format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Protocol

from quicksilver.live.components.applications.codec import BadMessageError, Codec
from quicksilver.live.components.applications.replica import end_with_channel
from quicksilver.live.components.applications.streams import never_back
from quicksilver.live.components.applications.video_assembly import (
    FRAME_BYTES_MAX,
    PART_BYTES_MAX,
    PART_BYTES_MIN,
    Assembly,
    Part,
    split,
)
from quicksilver.live.components.interfaces import (
    RELIABLE,
    UNRELIABLE,
    ChannelDeliveries,
    ChannelRequests,
    ReliableChannel,
    UnreliableChannel,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

RATE_HZ_MAX: Final = 240.0
BURST: Final = 2.0
"""Frames that may follow each other at once."""

IN_FLIGHT_BYTES_MAX: Final = 4 << 20
IN_FLIGHT_FRAMES_MAX: Final = 8
"""Frames of our own that have not come back through a reliable channel."""


class VideoRequests(Protocol):
    """What a video stream takes."""

    def show(self, data: bytes) -> None:
        """Send a frame; it is skipped if frames come faster than the rate."""


class VideoFrames(Protocol):
    """What a video stream gives."""

    def frame(self, source: str, sequence: int, data: bytes) -> None:
        """Show a frame, later than all before of its source."""

    def lost(self, source: str, frames: int) -> None:
        """Hear that frames before the next were lost."""

    def refused(self, reason: str) -> None:
        """Hear that a frame cannot be sent."""


_PROMISES = (("delivery", "best effort"), never_back("frame"))


class VideoReplica(ABC):
    """What both forms share: the rate, the numbering, the user's side."""

    context: Context
    video = endpoint(VideoRequests, VideoFrames, provides=_PROMISES, name="Video")

    def __init__(self, channel: Reference, rate_hz: float) -> None:
        if not 0 < rate_hz <= RATE_HZ_MAX:
            raise ValueError(f"rate_hz is {rate_hz}: give more than 0 and at most {RATE_HZ_MAX:g}")
        self._reference = channel
        self._identity = unique_number(self.context)
        self._rate_hz = rate_hz
        self._budget = BURST
        self._budget_at = self.context.now()
        self._sequence = 0
        self.assembly = Assembly()
        self.skipped = 0
        """Frames of our own that were not sent: too soon, or too many on their way."""
        self.lost = 0
        """Frames of others that never came."""
        self.bad_updates = 0
        """Messages that came in and were dropped."""
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

    def channel_receive(self, message: bytes) -> None:
        """Take a part; show the frame that it completes."""
        try:
            part = self._parts.decode(message)
            if part.source == self._identity:
                self.handle_own(part)
            frame = self.assembly.add(part)
        except BadMessageError:
            self.bad_updates += 1
            return
        if frame is None:
            return
        source = f"video-{frame.source:x}"
        if frame.lost:
            self.lost += frame.lost
            self.video.lost(source, frame.lost)
        self.video.frame(source, frame.sequence, frame.data)

    def handle_own(self, part: Part) -> None:  # noqa: B027  # a hook; most streams need it not
        """Take note that something of our own came back."""

    def channel_disconnected(self) -> None:
        """End with the channel."""
        end_with_channel(self.context)


@component("quicksilver.video", type_name="VideoStream")
@live_object(title="VideoStream")
class VideoStream(VideoReplica):
    """frames of video over a channel that may lose them

    At most ``rate_hz`` frames a second, of at most 2 MiB, in parts of ``part_bytes``.
    """

    channel = endpoint(
        ChannelDeliveries,
        ChannelRequests,
        requires=[("delivery", "best effort")],
        name=UNRELIABLE,
        inner=True,
    )

    def __init__(
        self,
        channel: Given[Ref[UnreliableChannel]],
        rate_hz: Given[float] = 30.0,
        part_bytes: Given[int] = 1200,
    ) -> None:
        if not PART_BYTES_MIN <= part_bytes <= PART_BYTES_MAX:
            bounds = f"give {PART_BYTES_MIN} to {PART_BYTES_MAX}"
            raise ValueError(f"part_bytes is {part_bytes}: {bounds}")
        super().__init__(channel, rate_hz)  # type: ignore[arg-type]  # Ref annotates references
        self._part_bytes = part_bytes

    async def start(self) -> None:
        """Open the channel."""
        await self.context.attach(self.channel, self._reference, "channel")

    def send_frame(self, sequence: int, data: bytes) -> None:
        """Send a frame in parts."""
        for part in split(self._identity, sequence, data, self._part_bytes):
            self.channel.send(self._parts.encode(part))


@component("quicksilver.reliable-video", type_name="ReliableVideoStream")
@live_object(title="ReliableVideoStream")
class ReliableVideoStream(VideoReplica):
    """frames of video over a reliable channel, skipped while too many are on their way

    At most ``rate_hz`` frames a second, of at most 2 MiB; 8 frames or 4 MiB on their way.
    """

    channel = endpoint(
        ChannelDeliveries,
        ChannelRequests,
        requires=[("delivery", "exactly once and fifo")],
        name=RELIABLE,
        inner=True,
    )

    def __init__(self, channel: Given[Ref[ReliableChannel]], rate_hz: Given[float] = 30.0) -> None:
        super().__init__(channel, rate_hz)  # type: ignore[arg-type]  # Ref annotates references
        self._in_flight: dict[int, int] = {}

    async def start(self) -> None:
        """Open the channel."""
        await self.context.attach(self.channel, self._reference, "channel")

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
