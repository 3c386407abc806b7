"""A node of a scope that stops reading: what it stops, and how it stays known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quicksilver.node import scoped_frames
from quicksilver.node.scoped_frames import NodeFrames
from quicksilver.scopes.dissemination.frames import Carry, Probe, encode, parse_frame
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.routing import Channel, begin

if TYPE_CHECKING:
    import pytest


class Machine:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes]] = []

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        self.got.append((conn, data))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: None


class Server:
    """Notes who is read."""

    def __init__(self) -> None:
        self.reads: dict[int, bool] = {}

    def set_reading(self, conn: int, *, reads: bool) -> None:
        self.reads[conn] = reads

    def call(self, work: Callable[[], None]) -> None:
        work()


def carry() -> bytes:
    channel = Channel("lan", ("a",), ("b",), "lan/x", "a")
    packet = Packet.of("lan/x", Sender("lan", "a", 1), 0, 0, 0, begin("lan", "a"), {}, (b"x",))
    return encode(Carry(channel, packet))


def test_links_that_bring_messages_are_paused_and_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A manager that is not heard takes the node for gone; so does who made a silent link."""
    monkeypatch.setattr(scoped_frames, "PROBE_S", 0.01)

    async def main() -> None:
        machine: Any = Machine()
        server: Any = Server()
        frames = NodeFrames(machine, on_events=lambda: None, output_bytes_max=1 << 20)
        frames.server = server
        manager, link, later = 1, 2, 3
        for conn in (manager, link, later):
            frames.handle_connected(conn, frozenset(), 0.0)
        frames.handle_frame(manager, say.encode(say.Alive()), 0.0)
        frames.handle_frame(link, carry(), 0.0)
        frames.pause(paused=True)
        assert server.reads == {link: False}
        frames.handle_frame(later, carry(), 0.0)
        assert server.reads == {link: False, later: False}
        machine.got.clear()
        async with asyncio.timeout(5):
            while len(machine.got) < 4:  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)
        assert {conn for conn, _ in machine.got} == {link, later}
        assert {type(parse_frame(data)) for _, data in machine.got} == {Probe}
        frames.handle_disconnected(later, 0.0, is_silent=False)
        frames.pause(paused=False)
        assert server.reads == {link: True, later: False}
        frames.close()

    asyncio.run(main())
