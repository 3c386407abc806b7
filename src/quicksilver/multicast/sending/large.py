"""Large messages: those that no packet can hold leave in pieces.

All pieces go to the streams of the view that the message was committed to, even if the
group has another view by the time of the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.hybrid import commit_hybrid, hybrid_bytes
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.wire.packets import FLAG_FRAGMENT, OVERHEAD_FRAGMENT, encode_fragment


class LargeMessage:
    """A large message on its way, bound to the streams of its view."""

    __slots__ = (
        "_is_hybrid",
        "_offset",
        "_room",
        "batch",
        "group",
        "payload",
        "sequence",
        "streams",
    )

    def __init__(
        self, group: GroupSender, sequence: int, payload: bytes, batch: int, packet_bytes: int
    ) -> None:
        assert group.streams is not None
        extra = hybrid_bytes(group, group.streams, packet_bytes)
        self.group = group
        self.streams = group.streams
        self.sequence = sequence
        self.payload = payload
        self.batch = batch
        self._is_hybrid = bool(extra)
        """True: pieces leave room for the headers of all streams."""
        self._room = packet_bytes - OVERHEAD_FRAGMENT - extra
        """Bytes of a piece. It stays as it is, whatever becomes of the group meanwhile: those
        who wait for the end of a stream were told how many are to come."""
        self._offset = 0

    def is_committed(self) -> bool:
        """True when no piece is left."""
        return self._offset >= len(self.payload)

    def pieces_left(self, stream: SendStream) -> int:
        """How many more packets the message will put on a stream."""
        if stream not in self.streams or stream.has_ended():
            return 0
        return -(-(len(self.payload) - self._offset) // self._room)

    def drop_ended_streams(self) -> None:
        """Those who have died meanwhile must not hold up the others' pieces."""
        self.streams = tuple(stream for stream in self.streams if not stream.has_ended())

    def commit_pieces(
        self,
        environment: Environment,
        count: int,
        now: float,
        are_open: Callable[[tuple[SendStream, ...], float], bool],
    ) -> tuple[dict[SendStream, list[bytes]], Transmit | None]:
        """Commit up to ``count`` pieces, the first of them in any case; stop at closed streams.

        Returns the packets for each stream, or one transmit that does for all of them.
        """
        group, streams, payload, batch = self.group, self.streams, self.payload, self.batch
        # Only in the view that it was committed to do all members listen at the address.
        hybrid = group.hybrid if self._is_hybrid and group.streams == streams else None
        runs: dict[SendStream, list[bytes]] = {stream: [] for stream in streams}
        joint: list[bytes] = []
        for _ in range(count):
            offset = self._offset
            chunk = payload[offset : offset + self._room]
            parts = encode_fragment(group.id, self.sequence, len(payload), offset, chunk)
            if hybrid is not None:
                joint.append(commit_hybrid(environment, streams, FLAG_FRAGMENT, parts, batch, now))
            else:
                for stream in streams:
                    runs[stream].append(stream.commit(FLAG_FRAGMENT, parts, batch, now))
            self._offset = offset + len(chunk)
            if self._offset >= len(payload) or not are_open(streams, now):
                break
        return runs, None if hybrid is None else Transmit(hybrid, joint)
