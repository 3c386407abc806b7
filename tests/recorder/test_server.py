"""A recorder's port: anybody can connect, and nobody costs more than is stated."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quicksilver.node.messages import Batch
from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.coverage import Coverage
from quicksilver.recorder.errors import PeerError
from quicksilver.recorder.folders import data_path
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.peers import fetch_missing
from quicksilver.recorder.protocol import QUESTION_BYTES_MAX, AskRows, State, encode_frame
from quicksilver.recorder.server import LogServer, ServerLimits
from quicksilver.recorder.writer import LogConfig
from tests.node.service import run
from tests.recorder.logs import CONFIG, GROUP, batch, flush, values
from tests.recorder.test_process import until

pytestmark = pytest.mark.integration

QUICK = ServerLimits(silent_s_max=0.2)
PATIENT_S = 20.0
"""How long a test waits for what should take a fifth of a second."""


@asynccontextmanager
async def serving(path: Path, limits: ServerLimits) -> AsyncIterator[tuple[LogServer, GroupLog]]:
    """A recorder's server without the recorder."""
    log = GroupLog(path, GROUP, LogConfig(does_sync=False))

    async def settle(one: GroupLog, had: bool) -> State:
        flush(one)
        return State(one.reader.bounds()[0], one.writer.durable, one.kept.state())

    server = LogServer({GROUP: log}, settle, limits)
    await server.start("127.0.0.1", 0)
    try:
        yield server, log
    finally:
        await server.close()
        log.close()


async def connected(server: LogServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = server.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def is_hung_up_on(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), PATIENT_S) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "said", [b"", b"\x10", b"\x10\0\0\0abc", struct.pack("<I", QUESTION_BYTES_MAX) + b"x" * 100_000]
)
def test_who_says_no_whole_question_is_hung_up_on(tmp_path: Path, said: bytes) -> None:
    """Nothing, half a length, half a question, half a large one."""

    async def work() -> None:
        async with serving(tmp_path, QUICK) as (server, _):
            reader, writer = await connected(server)
            writer.write(said)
            assert await is_hung_up_on(reader)
            writer.close()
            assert (server.silent, server.connections) == (1, 0)

    run(work())


def test_the_default_patience_is_seconds() -> None:
    """What the documentation states."""
    limits = ServerLimits()
    assert limits.silent_s_max <= 5
    assert (limits.connections_max, limits.connections_a_host_max) == (64, 16)


def test_a_question_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    """A length costs nothing to claim."""

    async def work() -> None:
        async with serving(tmp_path, ServerLimits()) as (server, _):
            reader, writer = await connected(server)
            writer.write(struct.pack("<I", QUESTION_BYTES_MAX + 1))
            assert await is_hung_up_on(reader)
            writer.close()
            assert server.garbage == 1

    run(work())


@pytest.mark.parametrize(
    "limits", [ServerLimits(connections_max=3), ServerLimits(connections_a_host_max=3)]
)
def test_connections_are_counted(tmp_path: Path, limits: ServerLimits) -> None:
    """All together and by host; whoever leaves makes room."""

    async def work() -> None:
        async with serving(tmp_path, limits) as (server, _):
            several = [await connected(server) for _ in range(3)]
            await until(lambda: server.connections == 3)
            reader, writer = await connected(server)
            assert await is_hung_up_on(reader)
            writer.close()
            assert (server.refused, server.connections) == (1, 3)
            several[0][1].close()
            await until(lambda: server.connections < 3)
            with RecorderClient(server.address) as client:
                assert (await asyncio.to_thread(client.state, GROUP)).past == 0
            for _, other in several:
                other.close()

    run(work())


def test_who_does_not_read_is_hung_up_on(tmp_path: Path) -> None:
    """A hundred questions for 8 MiB each: one answer is made, and not kept for long."""

    async def work() -> None:
        async with serving(tmp_path, QUICK) as (server, log):
            log.take(batch_of(16 << 20), 1)
            flush(log)
            host, _, port = server.address.rpartition(":")
            with socket.create_connection((host, int(port))) as stream:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stream.sendall(encode_frame(AskRows(GROUP, 0)) * 100)
                await until(lambda: server.silent > 0)
            assert (server.answers, server.connections) == (0, 0)

    run(work(), timeout_s=60)


def batch_of(size: int) -> Batch:
    """Messages of some size together."""
    return Batch(GROUP, 1, 3, [bytes(1 << 16)] * (size >> 16), 0, None, 7)


def test_who_does_not_read_does_not_stop_others(tmp_path: Path) -> None:
    """Answers at once are counted by host too; here all are one host, and wait their turn."""

    async def work() -> None:
        limits = ServerLimits(silent_s_max=0.2, answers_max=1, answers_a_host_max=1)
        async with serving(tmp_path, limits) as (server, log):
            log.take(batch_of(16 << 20), 1)
            flush(log)
            host, _, port = server.address.rpartition(":")
            with socket.create_connection((host, int(port))) as stream:
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stream.sendall(encode_frame(AskRows(GROUP, 0)))
                with RecorderClient(server.address) as client:
                    state = await asyncio.to_thread(client.state, GROUP)
            assert state.past == log.writer.durable
            assert server.silent == 1

    run(work(), timeout_s=60)


def test_a_client_that_was_silent_for_long_connects_again(tmp_path: Path) -> None:
    """A node reads history once more some seconds after it joined."""

    async def work() -> None:
        async with serving(tmp_path, QUICK) as (server, _):
            with RecorderClient(server.address) as client:
                for silent in (1, 2):
                    assert (await asyncio.to_thread(client.state, GROUP)).past == 0
                    await until(lambda n=silent: server.silent == n)

    run(work())


def test_a_peer_with_damage_gives_the_rest_and_says_so(tmp_path: Path) -> None:
    """A recorder that fills its gaps from another must know that it did not get all."""

    async def work() -> None:
        other = GroupLog(tmp_path / "other", GROUP, CONFIG)
        for first in range(0, 60, 10):
            other.take(batch(first, 10), 1)
            flush(other)
        other.close()
        async with serving(tmp_path / "other", ServerLimits()) as (server, theirs):
            data = data_path(theirs.writer.folder, 0)
            content = bytearray(data.read_bytes())
            content[-100] ^= 1
            data.write_bytes(content)
            ours = GroupLog(tmp_path / "own", GROUP, CONFIG)

            async def flush_own(log: GroupLog) -> None:
                flush(log)

            with pytest.raises(PeerError, match="bytes have changed: offsets 10 to 19 are damaged"):
                await fetch_missing(ours, server.address, flush_own, Coverage())
            ours.close()
        assert len(values(tmp_path / "own")) == 50

    run(work(), timeout_s=60)
