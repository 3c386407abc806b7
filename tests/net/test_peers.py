"""Machines that connect to each other: real sockets, whoever made the connection."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import pytest

from quicksilver.net import streams
from quicksilver.net.peers import PeerFrames
from quicksilver.net.streams import FrameServer, serve_frames

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("error")]


class Wish(NamedTuple):
    address: str
    why: str = ""


class Talker:
    """A machine that notes what happens; a peer that says "bye" is closed with "farewell"."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []
        self.out: deque[tuple[int, str]] = deque()
        self.closes: deque[int] = deque()
        self.dials: deque[Wish] = deque()
        self.dialled: dict[str, int | None] = {}
        self.sent: Counter[int] = Counter()

    def handle_accepted(self, conn: int, now: float) -> None:
        self.log.append(("accepted", conn))

    def handle_dialled(self, dial: Wish, conn: int | None, now: float) -> None:
        self.dialled[dial.why] = conn

    def handle_closed(self, conn: int, now: float) -> None:
        self.log.append(("closed", conn))

    def handle_frame(self, conn: int, data: bytes, now: float) -> None:
        message = data.decode()
        self.log.append(("said", conn, message))
        if message == "bye":
            self.out.append((conn, "farewell"))
            self.closes.append(conn)

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        self.sent[conn] += size

    def frame_bytes_max(self, conn: int) -> int:
        return 1 << 20

    def handle_timeout(self, now: float) -> None: ...

    def next_timeout(self) -> float | None:
        return None

    def poll_transmit(self) -> tuple[int, bytes] | None:
        if not self.out:
            return None
        conn, text = self.out.popleft()
        return conn, text.encode()

    def poll_close(self) -> int | None:
        return self.closes.popleft() if self.closes else None

    def poll_dial(self) -> Wish | None:
        return self.dials.popleft() if self.dials else None


async def run(
    talker: Talker, host: str | None = "127.0.0.1", output_bytes_max: int = 1 << 20
) -> tuple[FrameServer, PeerFrames[Wish]]:
    frames = PeerFrames[Wish](talker, output_bytes_max=output_bytes_max)
    return await serve_frames(frames, host, 0, input_bytes_max=1 << 24), frames


def dial(server: FrameServer, talker: Talker, address: tuple[str, int] | str, why: str) -> None:
    text = address if isinstance(address, str) else f"{address[0]}:{address[1]}"
    talker.dials.append(Wish(text, why))
    server.call(lambda: None)


def say(server: FrameServer, talker: Talker, conn: int | None, *texts: str) -> None:
    assert conn is not None
    talker.out.extend((conn, text) for text in texts)
    server.call(lambda: None)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # the machine knows nothing of asyncio
            await asyncio.sleep(0.001)


def test_a_connection_is_the_same_whoever_made_it() -> None:
    """Both ends say and hear; who closes says its last words first, and is not told."""

    async def main() -> None:
        one, other = Talker(), Talker()
        # Only one of them listens.
        (caller, _), (listener, _) = await run(one, None), await run(other)
        dial(caller, one, listener.address, "x")
        await until(lambda: one.dialled.get("x") is not None)
        conn = one.dialled["x"]
        say(caller, one, conn, "hello", "bye")
        await until(lambda: ("closed", conn) in one.log)
        assert one.log == [("said", conn, "farewell"), ("closed", conn)]
        assert other.log == [("accepted", 1), ("said", 1, "hello"), ("said", 1, "bye")]
        await caller.close()
        await listener.close()

    asyncio.run(main())


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", ":5", "no.such.host.invalid:1"])
def test_an_address_that_cannot_be_reached_is_told_and_never_raises(address: str) -> None:
    """It may be what a peer wrote."""

    async def main() -> None:
        talker = Talker()
        server, _ = await run(talker)
        dial(server, talker, address, "x")
        await until(lambda: "x" in talker.dialled)
        assert talker.dialled == {"x": None}
        await server.close()

    asyncio.run(main())


def test_a_port_that_refuses_and_one_that_never_answers_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A dial has a time limit; the server's end does not wait for it."""
    monkeypatch.setattr(streams, "DIAL_S", 0.1)

    async def main() -> None:
        talker = Talker()
        server, _ = await run(talker)
        with socket.socket() as unused, socket.socket() as deaf:
            unused.bind(("127.0.0.1", 0))
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            # Its queue is full: what comes now gets no answer.
            fillers = [socket.socket() for _ in range(3)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(deaf.getsockname())
            dial(server, talker, unused.getsockname(), "refuses")
            dial(server, talker, deaf.getsockname(), "deaf")
            await until(lambda: len(talker.dialled) == 2)
            assert talker.dialled == {"refuses": None, "deaf": None}
            monkeypatch.setattr(streams, "DIAL_S", 60.0)
            dial(server, talker, deaf.getsockname(), "for long")
            await asyncio.sleep(0)
            await asyncio.wait_for(server.close(), 5)
            for filler in fillers:
                filler.close()

    asyncio.run(main())


def test_whoever_does_not_read_is_cut_off_and_others_are_served() -> None:
    """What waits for one connection is bounded."""

    async def main() -> None:
        talker, other = Talker(), Talker()
        (server, frames), (good, _) = await run(talker, output_bytes_max=1 << 20), await run(other)
        reader, writer = await asyncio.open_connection(*server.address)
        writer.transport.pause_reading()
        await until(lambda: ("accepted", 1) in talker.log)
        dial(server, talker, good.address, "x")
        await until(lambda: talker.dialled.get("x") is not None)
        for _ in range(1000):
            say(server, talker, 1, "x" * 65536)
            if ("closed", 1) in talker.log:
                break
        assert frames.cut_off == 1
        say(server, talker, 1, "nobody is there")
        say(server, talker, talker.dialled["x"], "still here")
        await until(lambda: ("said", 1, "still here") in other.log)
        writer.close()
        del reader
        await server.close()
        await good.close()

    asyncio.run(main())


def test_what_waits_goes_on_in_order_and_before_the_end() -> None:
    """A reader that pauses loses nothing, also not what was said before it was closed."""

    async def main() -> None:
        talker = Talker()
        server, frames = await run(talker, output_bytes_max=64 << 20)
        reader, writer = await asyncio.open_connection(*server.address)
        writer.transport.pause_reading()
        await until(lambda: ("accepted", 1) in talker.log)
        texts = [f"{number:06}" + "x" * 60_000 for number in range(200)]
        say(server, talker, 1, *texts)
        # The machine is told what has left, so that it need not make more than can.
        assert 0 < talker.sent[1] < sum(map(len, texts))
        assert frames._waiting_bytes[1] == sum(map(len, texts)) - talker.sent[1]
        talker.closes.append(1)
        server.call(lambda: None)
        writer.transport.resume_reading()
        data = await asyncio.wait_for(reader.read(), 10)
        got = []
        while data:
            (size,) = struct.unpack("<I", data[:4])
            got.append(data[4 : 4 + size].decode())
            data = data[4 + size :]
        assert got == texts
        writer.close()
        await server.close()

    asyncio.run(main())
