"""``join(group, history=...)`` with real nodes and a real recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.recorder.errors import DamagedSegmentError, NoLogError, PeerError
from quicksilver.recorder.history import FolderHistory, RecorderHistory
from quicksilver.recorder.process import RecorderConfig
from tests.node.service import connect, connect_sync, run, running_gms, take, take_sync
from tests.recorder.test_process import recording, until

pytestmark = pytest.mark.integration

CONFIG = RecorderConfig(listen="127.0.0.1:0")


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


@pytest.mark.parametrize("kind", ["recorder", "folder"])
def test_a_late_joiner_has_it_all_in_order(gms: str, tmp_path: Path, kind: str) -> None:
    """Messages are sent before, while and after it joins."""
    name = f"late-{kind}"

    async def work() -> None:
        async with recording(gms, tmp_path, name, config=CONFIG) as recorder, connect(gms) as feed:
            out = await feed.open(name)
            await out.wait_members(1)

            async def send() -> None:
                for number in range(3_000):
                    await out.send(b"%d" % number)
                    if number % 100 == 0:
                        await asyncio.sleep(0.01)

            sending = asyncio.ensure_future(send())
            await asyncio.sleep(0.1)
            async with connect(gms) as late:
                history = (
                    RecorderHistory(recorder.server.address)
                    if kind == "recorder"
                    else FolderHistory(tmp_path)
                )
                group = await late.join(name, history=history)
                got = await take(group, 3_000)
                await sending
            assert [message.sequence for message in got] == list(range(3_000))
            assert [message.payload for message in got] == [b"%d" % n for n in range(3_000)]
            assert group.missing == 0

    run(work(), timeout_s=60)


def test_the_synchronous_form(gms: str, tmp_path: Path) -> None:
    """The same merging, in a thread of the caller's."""

    async def record() -> None:
        async with recording(gms, tmp_path, "s", config=CONFIG), connect(gms) as feed:
            out = await feed.open("s")
            await out.wait_members(1)
            for number in range(100):
                await out.send(b"%d" % number)
            await feed.flush()

    run(record())
    with connect_sync(gms) as feed, connect_sync(gms) as late:
        group = late.join("s", history=FolderHistory(tmp_path))
        out = feed.open("s")
        out.wait_members(1)
        out.send(b"live")
        got = take_sync(group, 101)
        assert [message.payload for message in got] == [*(b"%d" % n for n in range(100)), b"live"]


def test_a_damaged_history_is_said_instead_of_a_shorter_one(gms: str, tmp_path: Path) -> None:
    """By ``join`` if it is read here; by the first messages if a recorder reads it."""

    async def work() -> None:
        async with recording(gms, tmp_path, "w", config=CONFIG) as recorder, connect(gms) as feed:
            out = await feed.open("w")
            await out.wait_members(1)
            for number in range(100):
                await out.send(b"%d" % number)
            await feed.flush()
            await until(lambda: recorder.status()[0].durable == 100)
            data = next(recorder.logs["w"].writer.folder.glob("*.arrows"))
            content = bytearray(data.read_bytes())
            content[-100] ^= 1
            data.write_bytes(content)
            async with connect(gms) as late:
                with pytest.raises(DamagedSegmentError, match="bytes have changed"):
                    await late.join("w", history=FolderHistory(tmp_path))
                history = RecorderHistory(recorder.server.address)
                with pytest.raises(PeerError, match="bytes have changed"):
                    await take(await late.join("w", history=history), 100)

    run(work(), timeout_s=60)


def test_a_history_that_is_not_there_is_said_at_once(gms: str, tmp_path: Path) -> None:
    """And the group is left again."""

    async def work() -> None:
        async with connect(gms) as node:
            with pytest.raises(NoLogError):
                await node.join("x", history=FolderHistory(tmp_path))
            with pytest.raises(PeerError, match="recorder at"):
                await node.join("x", history=RecorderHistory("127.0.0.1:1"))
            await node.join("x")

    run(work())


def test_keys_and_headers_are_recorded_and_come_back(gms: str, tmp_path: Path) -> None:
    """A log keeps header values as bytes, whatever they were sent as."""

    async def work() -> None:
        async with recording(gms, tmp_path, "keyed", config=CONFIG), connect(gms) as feed:
            out = await feed.open("keyed")
            await out.wait_members(1)
            await out.send(b"plain")
            await out.send(b"1.08", key=b"EURUSD", headers={"unit": "USD"})
            async with connect(gms) as late:
                group = await late.join("keyed", history=FolderHistory(tmp_path))
                first, second = await take(group, 2)
            assert (first.payload, first.key, dict(first.headers)) == (b"plain", None, {})
            assert (second.payload, second.key) == (b"1.08", b"EURUSD")
            assert dict(second.headers) == {"unit": b"USD"}

    run(work(), timeout_s=60)
