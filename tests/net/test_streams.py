"""Frames over TCP: any cut of the bytes, any handler."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.core.ports import ConnectionFinished, FrameTransmit
from quicksilver.net.frames import FrameDecoder, FrameError, encode_frame
from quicksilver.net.streams import ListenError, serve_frames


@given(st.lists(st.binary(max_size=50)), st.lists(st.integers(1, 30)))
def test_frames_survive_any_cut(frames: list[bytes], cuts: list[int]) -> None:
    """TCP keeps no boundaries."""
    stream = b"".join(map(encode_frame, frames))
    decoder, got = FrameDecoder(50), []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        got += decoder.feed(stream[:size])
        stream = stream[size:]
    assert got == frames
    assert decoder.waiting_bytes == 0


def test_a_frame_that_is_too_long_is_refused_by_its_header() -> None:
    """Before any memory is used for it, and after what came before it."""
    decoder = FrameDecoder(10)
    assert decoder.feed(encode_frame(b"x" * 10) + struct.pack("<I", 11)) == [b"x" * 10]
    with pytest.raises(FrameError, match="a frame of 11 bytes, the limit is 10"):
        decoder.feed(b"")
    with pytest.raises(FrameError):
        FrameDecoder(10).feed(b"\xff\xff\xff\xff")


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    """Never more memory than the bytes that came."""
    decoder = FrameDecoder(64)
    try:
        frames = decoder.feed(data)
    except FrameError:
        frames = []
    assert all(len(frame) <= 64 for frame in frames)
    assert decoder.waiting_bytes <= 64 + 4


class Echo:
    """Echoes frames; b"close" ends the connection, b"raise" is a bug."""

    def __init__(self, length_max: int = 1 << 20) -> None:
        self.length_max = length_max
        self.log: list[tuple[object, ...]] = []
        self.output: list[tuple[int, bytes]] = []
        self.closing: list[int] = []
        self.blocked: set[int] = set()
        self.wake: float | None = None
        self.woken_at: list[float] = []

    def handle_connected(self, conn: int, addresses: frozenset[str], now: float) -> None:
        self.log.append(("connected", conn))

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        if frame == b"raise":
            raise RuntimeError("a bug")
        self.output.append((conn, frame))
        if frame == b"close":
            self.closing.append(conn)
        if frame == b"wake":
            self.wake = now + 0.02

    def frame_bytes_max(self, conn: int) -> int:
        return self.length_max

    def handle_disconnected(self, conn: int, now: float, *, is_silent: bool) -> None:
        self.log.append(("disconnected", conn))

    def handle_blocked(self, conn: int, now: float) -> None:
        self.blocked.add(conn)

    def handle_unblocked(self, conn: int, now: float) -> None:
        self.blocked.discard(conn)

    def handle_timeout(self, now: float) -> None:
        assert self.wake is not None
        assert now >= self.wake
        self.woken_at.append(now)
        self.wake = None
        self.output.append((1, b"woken"))

    def next_timeout(self) -> float | None:
        return self.wake

    def poll_transmit(self) -> FrameTransmit | None:
        for at, (conn, _) in enumerate(self.output):
            if conn not in self.blocked:
                return FrameTransmit(*self.output.pop(at))
        return None

    def poll_event(self) -> ConnectionFinished | None:
        return ConnectionFinished(self.closing.pop()) if self.closing else None


class Caller:
    """The other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def call(cls, address: tuple[str, int]) -> Caller:
        return cls(*await asyncio.open_connection(*address))

    def say(self, *frames: bytes) -> None:
        self.writer.write(b"".join(map(encode_frame, frames)))

    async def hear(self) -> bytes:
        head = await asyncio.wait_for(self.reader.readexactly(4), 5)
        return await self.reader.readexactly(int.from_bytes(head, "little"))

    async def hang_up(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # the handler knows nothing of asyncio
            await asyncio.sleep(0.001)


pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.integration
def test_a_handler_is_driven_through_real_sockets() -> None:
    """Frames, timers, closings and what becomes of connections."""

    async def main() -> None:
        echo = Echo()
        server = await serve_frames(echo, "127.0.0.1", 0, input_bytes_max=1 << 24)
        assert server.address[1] > 0
        first, second = await Caller.call(server.address), await Caller.call(server.address)
        first.say(b"one", b"", b"wake")
        second.say(b"x" * (1 << 20))
        assert [await first.hear() for _ in range(4)] == [b"one", b"", b"wake", b"woken"]
        assert await second.hear() == b"x" * (1 << 20)
        second.say(b"close")
        assert await second.hear() == b"close"
        assert await second.reader.read() == b""
        await first.hang_up()
        await second.hang_up()
        await until(lambda: len(echo.log) == 4)
        assert sorted(echo.log) == [
            ("connected", 1),
            ("connected", 2),
            ("disconnected", 1),
            ("disconnected", 2),
        ]
        await server.close()

    asyncio.run(main())


@pytest.mark.integration
def test_a_frame_that_is_too_long_ends_only_its_connection() -> None:
    """Others are served as before."""

    async def main() -> None:
        server = await serve_frames(Echo(8), "127.0.0.1", 0, input_bytes_max=1 << 24)
        bad, good = await Caller.call(server.address), await Caller.call(server.address)
        bad.say(b"123456789")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await bad.hear()
        good.say(b"12345678")
        assert await good.hear() == b"12345678"
        await bad.hang_up()
        await good.hang_up()
        await server.close()

    asyncio.run(main())


@pytest.mark.integration
def test_a_reader_that_stops_blocks_and_unblocks_its_connection_only() -> None:
    """Output waits in the handler, where it is counted."""

    async def main() -> None:
        echo = Echo()
        server = await serve_frames(echo, "127.0.0.1", 0, input_bytes_max=1 << 24)
        slow, quick = await Caller.call(server.address), await Caller.call(server.address)
        slow.writer.transport.pause_reading()
        count = 64
        slow.say(*[b"x" * (1 << 18)] * count)
        await until(lambda: bool(echo.blocked))
        quick.say(b"still here")
        assert await quick.hear() == b"still here"
        slow.writer.transport.resume_reading()
        for _ in range(count):
            assert len(await slow.hear()) == 1 << 18
        assert not echo.blocked
        await slow.hang_up()
        await quick.hang_up()
        await server.close()

    asyncio.run(main())


@pytest.mark.integration
def test_an_exception_of_the_handler_stops_the_server_and_comes_out() -> None:
    """A GMS that cannot store must not go on talking."""

    async def main() -> None:
        server = await serve_frames(Echo(), "127.0.0.1", 0, input_bytes_max=1 << 24)
        caller = await Caller.call(server.address)
        caller.say(b"raise", b"after")
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(server.wait_failed(), 5)
        await server.close()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await caller.hear()
        await caller.hang_up()

    asyncio.run(main())


@pytest.mark.integration
def test_a_taken_port_and_a_strange_address_give_one_line() -> None:
    """They are the user's to fix."""

    async def listen(host: str, port: int) -> str:
        with pytest.raises(ListenError) as caught:
            await serve_frames(Echo(), host, port, input_bytes_max=1 << 24)
        return str(caught.value)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert asyncio.run(listen("127.0.0.1", port)) == (
            f"cannot listen on 127.0.0.1:{port}: "
            "the port is in use: stop what uses it or choose another port"
        )
    assert "does not have that address" in asyncio.run(listen("192.0.2.1", 0))
    assert "cannot be resolved" in asyncio.run(listen("no.such.host.invalid", 0))
    assert "65535" in asyncio.run(listen("127.0.0.1", 70_000))


class Doorkeeper(Echo):
    """Lets a connection send long frames once it has said b"hello"."""

    def __init__(self) -> None:
        super().__init__(8)
        self.greeted: set[int] = set()
        self.addresses: list[frozenset[str]] = []

    def handle_connected(self, conn: int, addresses: frozenset[str], now: float) -> None:
        super().handle_connected(conn, addresses, now)
        self.addresses.append(addresses)

    def frame_bytes_max(self, conn: int) -> int:
        return 1 << 20 if conn in self.greeted else 8

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        super().handle_frame(conn, frame, now)
        if frame == b"hello":
            self.greeted.add(conn)


@pytest.mark.integration
def test_a_greeting_changes_how_long_the_next_frame_may_be() -> None:
    """Also when both arrive in one piece: nodes do not wait for an answer to their Hello."""

    async def main() -> None:
        keeper = Doorkeeper()
        server = await serve_frames(keeper, "127.0.0.1", 0, input_bytes_max=1 << 24)
        node, stranger = await Caller.call(server.address), await Caller.call(server.address)
        node.say(b"hello", b"x" * 1000)
        assert [await node.hear(), await node.hear()] == [b"hello", b"x" * 1000]
        stranger.say(b"x" * 1000)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await stranger.hear()
        assert "127.0.0.1" in keeper.addresses[0]
        await node.hang_up()
        await stranger.hang_up()
        await server.close()

    asyncio.run(main())


@pytest.mark.integration
def test_incomplete_frames_share_a_budget_and_the_greediest_goes() -> None:
    """However many send only half: the others are served."""

    async def main() -> None:
        server = await serve_frames(Echo(), "127.0.0.1", 0, input_bytes_max=1 << 20)
        modest = await Caller.call(server.address)
        modest.writer.write(encode_frame(b"x" * 1000)[:900])
        greedy = [await Caller.call(server.address) for _ in range(6)]
        for caller in greedy:
            caller.writer.write(encode_frame(b"x" * (1 << 20))[: 300 << 10])
        await until(lambda: server.overfed >= 3)
        assert server.input_bytes <= 1 << 20
        modest.writer.write(encode_frame(b"x" * 1000)[900:])
        assert len(await modest.hear()) == 1000
        for caller in (modest, *greedy):
            await caller.hang_up()
        await until(lambda: server.input_bytes == 0)
        await server.close()

    asyncio.run(main())


@pytest.mark.parametrize("first", [0, 2, 4, 1000], ids="cut after {} bytes".format)
def test_a_decoder_gives_back_what_a_long_frame_needed(first: int) -> None:
    """A connection that once sent a long frame does not hold its length for ever."""
    decoder = FrameDecoder(1 << 20)
    stream = encode_frame(b"x" * (1 << 20)) + b"ab"
    decoder.push(stream[:first])
    assert decoder.next_frame() is None
    decoder.push(stream[first:])
    assert decoder.next_frame() is not None
    assert decoder.next_frame() is None
    assert decoder.waiting_bytes == 2
    assert decoder._partial.__sizeof__() + decoder._chunk.__sizeof__() < 1000


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_frames_wait_until_they_are_taken(frames: list[bytes], data: st.DataObject) -> None:
    """More may arrive meanwhile, in any pieces."""
    stream = b"".join(map(encode_frame, frames))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    decoder = FrameDecoder(20)
    found: list[bytes] = []
    for start, stop in itertools.pairwise([0, *cuts, len(stream)]):
        decoder.push(stream[start:stop])
        if data.draw(st.booleans()):
            while (frame := decoder.next_frame()) is not None:
                found.append(frame)
            taken = sum(len(encode_frame(frame)) for frame in found)
            assert decoder.waiting_bytes == stop - taken
    assert found + decoder.feed(b"") == frames
    assert decoder.waiting_bytes == 0


@given(st.integers(0, 9), st.integers(0, 40))
def test_a_frame_that_is_too_long_ends_the_stream_wherever_it_is_cut(good: int, cut: int) -> None:
    decoder = FrameDecoder(20)
    stream = encode_frame(b"good") * good + encode_frame(bytes(21))
    found: list[bytes] = []

    def feed_all() -> None:
        for part in (stream[:cut], stream[cut:], b""):
            found.extend(decoder.feed(part))

    with pytest.raises(FrameError):
        feed_all()
    assert found == [b"good"] * good
    with pytest.raises(FrameError):
        decoder.next_frame()
    assert decoder.waiting_bytes == 0


OUT_OF_DESCRIPTORS = """
import asyncio, os, resource, sys
from quicksilver.net.streams import serve_frames
from tests.net.test_streams import Caller, Echo

async def main():
    notes = []
    server = await serve_frames(
        Echo(), "127.0.0.1", 0, input_bytes_max=1 << 20, on_note=notes.append
    )
    first = await Caller.call(server.address)
    first.say(b"one")
    assert await first.hear() == b"one"
    await asyncio.to_thread(int)  # loads modules, which takes descriptors
    # The callers are another process's: only accepting takes descriptors here.
    print(server.address[1], flush=True)
    limit = max(map(int, os.listdir("/proc/self/fd"))) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    while not server.accept_pauses:
        await asyncio.sleep(0.05)
    for word in (b"two", b"three"):
        first.say(word)
        assert await first.hear() == word
    print("exhausted", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    while len(server._streams) > 2:
        await asyncio.sleep(0.05)
    print("recovered", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(len(notes), notes[0], flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.integration
def test_a_server_without_descriptors_says_so_once_and_serves_those_it_has() -> None:
    """20,909 tracebacks came instead; new connections wait until some are free."""
    process = subprocess.Popen(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = ("127.0.0.1", int(process.stdout.readline()))
        callers = [socket.create_connection(address, 5) for _ in range(60)]
        assert process.stdout.readline() == "exhausted\n"
        for caller in callers:
            caller.close()
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "recovered\n", process.communicate()[1]
        with socket.create_connection(address, 5) as late:
            late.settimeout(10)
            late.sendall(encode_frame(b"late"))
            assert late.recv(100) == encode_frame(b"late")
        out, errors = process.communicate("\n", timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert errors == ""
    count, note = out.split(" ", 1)
    assert int(count) <= 4
    assert note.startswith("new connections wait: Too many open files with ")
    assert "ulimit -n" in note
