"""The connections of a node of a scope, and how it stops reading when its application is behind.

Only connections that bring messages are paused: those of managers must be heard, or the node
would count as gone. Who made a paused link asks now and then whether this node is there. That
question waits unread, so the node is told of one in its place, and answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quicksilver.net.peers import PeerFrames, PeerMachine
from quicksilver.net.streams import FrameServer
from quicksilver.scopes.dissemination.frames import Carry, Probe, encode

PROBE_S = 1.0
"""How often paused links are answered for."""

_PROBE = encode(Probe())
_CARRY_TAG = Carry.__struct_config__.tag


class NodeFrames(PeerFrames[str]):
    """Drives a ``ScopeNode``; the loop's thread only."""

    def __init__(
        self, machine: PeerMachine[str], *, on_events: Callable[[], None], output_bytes_max: int
    ) -> None:
        super().__init__(machine, on_events=on_events, output_bytes_max=output_bytes_max)
        self.server: FrameServer | None = None
        """Set by who made it."""
        self._carriers: dict[int, None] = {}
        """Connections over which messages came."""
        self._probing: asyncio.TimerHandle | None = None
        """Set while they are paused."""

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        if frame[1:2] and frame[1] == _CARRY_TAG and conn not in self._carriers:
            self._carriers[conn] = None
            if self._probing is not None:
                self._read(conn, reads=False)
        super().handle_frame(conn, frame, now)

    def handle_disconnected(self, conn: int, now: float, *, is_silent: bool) -> None:
        self._carriers.pop(conn, None)
        super().handle_disconnected(conn, now, is_silent=is_silent)

    def pause(self, *, paused: bool) -> None:
        """Read messages no more, or again."""
        if paused == (self._probing is not None):
            return
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        for conn in self._carriers:
            self._read(conn, reads=not paused)
        if paused:
            self._probe_later()

    def _probe_later(self) -> None:
        self._probing = asyncio.get_running_loop().call_later(PROBE_S, self._probe)

    def _probe(self) -> None:
        self._probe_later()
        now = asyncio.get_running_loop().time()

        def ask() -> None:
            for conn in list(self._carriers):
                PeerFrames.handle_frame(self, conn, _PROBE, now)

        if self.server is not None:
            self.server.call(ask)

    def _read(self, conn: int, *, reads: bool) -> None:
        if self.server is not None:
            self.server.set_reading(conn, reads=reads)

    def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
