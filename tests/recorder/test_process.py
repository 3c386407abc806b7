"""Recorders as processes would run them: real nodes, real sockets, real files."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from quicksilver.node.options import NodeOptions
from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.envelope import Origin, pack_envelope
from quicksilver.recorder.errors import LogBusyError, PeerError
from quicksilver.recorder.process import Recorder, RecorderConfig
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.retention import Retention, store_commit
from quicksilver.recorder.rows import PendingRows
from quicksilver.recorder.writer import LogConfig
from tests.node.service import connect, run, running_gms
from tests.recorder.logs import batch

pytestmark = pytest.mark.integration

OPTIONS = NodeOptions(interface="lo", tune_gc=False)
QUICK = RecorderConfig(flush_interval_s=0.02)


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@asynccontextmanager
async def recording(
    gms: str, path: Path, *groups: str, config: RecorderConfig = QUICK
) -> AsyncIterator[Recorder]:
    """A recorder that is ready; it is stopped as Ctrl-C stops it."""
    recorder = Recorder(gms, groups, path, config, OPTIONS)
    task = asyncio.ensure_future(recorder.run())
    ready = asyncio.ensure_future(recorder.is_ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    try:
        if task.done():
            task.result()
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, LogBusyError):
            await task


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110  # what is waited for is on disk and tells nobody
        await asyncio.sleep(0.01)


def rows(path: Path, group: str) -> list[dict[str, Any]]:
    log = LogReader(path, group)
    return [row for part in log.read(*log.bounds()) for row in part.to_pylist()]


def test_what_is_sent_is_recorded_in_order(gms: str, tmp_path: Path) -> None:
    """Sender, sequence and value of every message, in several groups."""

    async def work() -> None:
        async with recording(gms, tmp_path, "a", "b") as recorder, connect(gms) as node:
            for name in ("a", "b"):
                out = await node.open(name)
                await out.wait_members(1)
                for number in range(3_000):
                    await out.send(b"%s %d" % (name.encode(), number))
            await node.flush()
            await until(lambda: all(one.durable == 3_000 for one in recorder.status()))
            sender = node.id
        for name in ("a", "b"):
            found = rows(tmp_path, name)
            expected = [b"%s %d" % (name.encode(), number) for number in range(3_000)]
            assert [row["value"] for row in found] == expected
            assert [row["sequence"] for row in found] == list(range(3_000))
            assert {row["sender"] for row in found} == {sender}

    run(work())


def test_ctrl_c_records_what_was_received(gms: str, tmp_path: Path) -> None:
    """Whoever flushed knows that the recorder has it; a clean end must not lose it."""

    async def work() -> None:
        config = RecorderConfig(flush_interval_s=60)
        async with recording(gms, tmp_path, "c", config=config), connect(gms) as node:
            out = await node.open("c")
            await out.wait_members(1)
            for number in range(500):
                await out.send(b"%d" % number)
            await node.flush()
        assert len(rows(tmp_path, "c")) == 500

    run(work())


def test_a_folder_has_one_recorder(gms: str, tmp_path: Path) -> None:
    """Two writers would destroy each other's files."""

    async def work() -> None:
        async with recording(gms, tmp_path, "d"):
            with pytest.raises(LogBusyError, match="another recorder"):
                async with recording(gms, tmp_path, "d"):
                    pass

    run(work())


def test_rows_of_a_job_are_taken_apart_and_recorded_once(gms: str, tmp_path: Path) -> None:
    """A task that is run again sends its rows again, from another node."""

    async def send(rows_count: int) -> None:
        async with connect(gms) as node:
            out = await node.open("e")
            await out.wait_members(1)
            for number in range(rows_count):
                origin = Origin(b"q" * 16, 0, 4, number)
                headers = [("h", b"%d" % number)]
                await out.send(pack_envelope(origin, b"v%d" % number, b"k", headers))
            await node.flush()

    async def work() -> None:
        async with recording(gms, tmp_path, "e"):
            await send(7)
        async with recording(gms, tmp_path, "e") as recorder:
            await send(10)
            await until(lambda: recorder.status()[0].durable == 10)
            assert recorder.status()[0].repeats == 7
        found = rows(tmp_path, "e")
        assert [row["value"] for row in found] == [b"v%d" % number for number in range(10)]
        assert {row["key"] for row in found} == {b"k"}
        assert found[3]["headers"] == [{"key": "h", "value": b"3"}]

    run(work())


def test_a_restarted_recorder_fills_its_gap_from_another(gms: str, tmp_path: Path) -> None:
    """They find each other by announcing themselves; offsets are each log's own."""
    config = RecorderConfig(flush_interval_s=0.02, listen="127.0.0.1:0")
    one, other = tmp_path / "one", tmp_path / "other"

    async def work() -> None:
        async with connect(gms) as node:
            out = await node.open("f")

            async def send(first: int, past: int) -> None:
                for number in range(first, past):
                    await out.send(b"%d" % number)
                await node.flush()

            async with recording(gms, one, "f", config=config) as keeper:
                async with recording(gms, other, "f", config=config):
                    await out.wait_members(2)
                    await send(0, 100)
                await send(100, 250)  # the other is away
                async with recording(gms, other, "f", config=config) as back:
                    await out.wait_members(2)
                    await send(250, 300)
                    await until(lambda: back.status()[0].durable == 300)
                    assert back.status()[0].fetched == 150
                assert keeper.status()[0].fetched == 0
        for path in (one, other):
            found = {(row["sequence"], row["value"]) for row in rows(path, "f")}
            assert found == {(number, b"%d" % number) for number in range(300)}
            assert len(rows(path, "f")) == 300

    run(work(), timeout_s=40)


def test_a_peer_that_is_not_there_is_reported_and_stops_nothing(gms: str, tmp_path: Path) -> None:
    """--peer may name a machine that is down."""
    config = RecorderConfig(flush_interval_s=0.02, peers=("127.0.0.1:1",))

    async def work() -> None:
        async with recording(gms, tmp_path, "g", config=config) as recorder:
            await until(lambda: recorder.peers is not None and bool(recorder.peers.problems))
            assert recorder.peers is not None
            assert "recorder at 127.0.0.1:1" in recorder.peers.problems["127.0.0.1:1"]

    run(work())


def test_garbage_is_hung_up_on_and_counted(gms: str, tmp_path: Path) -> None:
    """Anybody can connect to a port."""
    config = RecorderConfig(flush_interval_s=0.02, listen="127.0.0.1:0")

    def talk(address: str, data: bytes) -> bytes:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), 5) as stream:
            stream.sendall(data)
            return stream.recv(100)

    async def work() -> None:
        async with recording(gms, tmp_path, "h", config=config) as recorder:
            address = recorder.server.address
            for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\x03\0\0\0abc"):
                assert await asyncio.to_thread(talk, address, data) == b""
            assert recorder.server.garbage == 3
            with (
                RecorderClient(address) as client,
                pytest.raises(PeerError, match="'x' is not recorded here"),
            ):
                await asyncio.to_thread(client.state, "x")

    run(work())


def test_a_client_says_that_it_speaks_to_something_else() -> None:
    """The GMS's port given for a recorder's is an easy mistake."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            RecorderClient(address, timeout_s=0.2) as client,
            pytest.raises(PeerError, match="timed out"),
        ):
            client.state("x")
    with RecorderClient("nonsense") as client, pytest.raises(PeerError, match="give host:port"):
        client.state("x")


def test_committed_offsets_hold_segments_back(gms: str, tmp_path: Path) -> None:
    """A consumer's commit frees what lies before it, and nothing after."""
    config = RecorderConfig(
        flush_interval_s=0.01,
        trim_interval_s=0.05,
        log=LogConfig(segment_bytes=4_000),
        retention=Retention(needs_commit=True),
    )

    async def work() -> None:
        async with recording(gms, tmp_path, "i", config=config) as recorder:
            async with connect(gms) as node:
                out = await node.open("i")
                await out.wait_members(1)
                for number in range(400):
                    await out.send(b"%d" % number)
                    if number % 40 == 39:
                        await node.flush()
                        await until(lambda n=number: recorder.status()[0].durable == n + 1)
            log = recorder.logs["i"]
            assert log.reader.bounds()[0] == 0
            store_commit(log.writer.folder, "slow", 200)
            store_commit(log.writer.folder, "quick", 400)
            await until(lambda: recorder.status()[0].removed_segments > 0)
            await asyncio.sleep(0.2)
            assert 0 < log.reader.bounds()[0] <= 200
        assert rows(tmp_path, "i")[-1]["value"] == b"399"

    run(work())


def test_a_state_names_only_what_is_safe(gms: str, tmp_path: Path) -> None:
    """Others take it for granted: a late joiner would pass over the rest, a sink would commit."""
    config = RecorderConfig(flush_interval_s=60, listen="127.0.0.1:0")

    async def work() -> None:
        async with recording(gms, tmp_path, "j", config=config) as recorder:
            log = recorder.logs["j"]
            written = log.writer.write

            def slow_write(pending: PendingRows) -> int:
                # While this is written, more arrives.
                loop.call_soon_threadsafe(log.take, batch(10, 10), 2)
                time.sleep(0.05)
                return written(pending)

            loop = asyncio.get_running_loop()
            log.writer.write = slow_write  # type: ignore[method-assign]
            log.take(batch(0, 10), 1)
            with RecorderClient(recorder.server.address) as client:
                state = await asyncio.to_thread(client.state, "j")
            assert state.past == 10
            assert [one.flat for one in state.coverage] == [[0, 10]]
            log.writer.write = written  # type: ignore[method-assign]

    run(work())
