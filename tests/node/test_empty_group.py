"""Sending to a group that nobody is in, as a user sees it."""

from __future__ import annotations

import asyncio
import logging

import pytest

import quicksilver
from quicksilver.multicast.config import EngineConfig
from tests.node.service import connect, connect_sync, pair, run, take, until

pytestmark = pytest.mark.integration

SMALL = EngineConfig(waiting_bytes_max=1000)


def test_messages_wait_for_the_first_member(gms: str, caplog: pytest.LogCaptureFixture) -> None:
    """``send`` returns, ``flush`` waits, and a line in the log says for what."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            out = await sender.open("early")
            await out.send(b"1")
            with pytest.raises(quicksilver.TimedOutError, match="to be acknowledged"):
                await sender.flush(timeout=0.2)
            assert (await sender.stats()).counters["waiting_messages"] == 1
            group = await receiver.join("early")
            await out.send(b"2")
            assert [m.payload for m in await take(group, 2)] == [b"1", b"2"]
            await sender.flush(timeout=10)

    with caplog.at_level(logging.INFO, "quicksilver.groups"):
        run(work())
    lines = [record.getMessage() for record in caplog.records]
    assert "messages to early wait: nobody is in the group" in lines
    assert "somebody is in early: what waited is sent" in lines


def test_send_waits_when_no_more_may_wait(gms: str) -> None:
    """And the others' groups go on."""

    async def work() -> None:
        async with connect(gms, engine=SMALL) as sender, connect(gms) as receiver:
            out = await sender.open("full")
            other = await sender.open("other")
            theirs = await receiver.join("other")
            sending = asyncio.ensure_future(_send_all(out, 20))
            await until(lambda: sender.core.session.waiting_bytes() > 0)
            await other.send(b"goes")
            assert (await theirs.receive(timeout=10)).payload == b"goes"
            assert not sending.done()
            assert not out.post(bytes(500))
            group = await receiver.join("full")
            await sending
            assert len(await take(group, 20)) == 20

    run(work())


async def _send_all(group: quicksilver.Group[bytes], count: int) -> None:
    for _ in range(count):
        await group.send(bytes(100))


def test_a_send_that_waited_in_vain_has_sent_nothing(gms: str) -> None:
    """Cancelled by a timeout of its caller."""

    async def work() -> None:
        async with connect(gms, engine=SMALL) as sender, connect(gms) as receiver:
            out = await sender.open("vain")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_send_all(out, 50), 0.5)
            accepted = int((await sender.stats()).counters["waiting_messages"])
            group = await receiver.join("vain")
            await out.send(b"last")
            got = [m.payload for m in await take(group, accepted + 1)]
            assert got[-1] == b"last"

    run(work())


def test_messages_may_be_dropped(gms: str) -> None:
    """For groups where only what is new counts."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            out = await sender.open("news", empty="drop")
            await out.send(b"old")
            await sender.flush(timeout=10)
            group = await receiver.join("news")
            await out.send(b"new")
            assert (await group.receive(timeout=10)).payload == b"new"

    run(work())


def test_it_may_be_an_error(gms: str) -> None:
    """Until somebody is there, and again when all are gone."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            out = await sender.open("strict", empty="error")
            with pytest.raises(quicksilver.EmptyGroupError, match="nobody is in group 'strict'"):
                await out.send(b"x")
            group = await receiver.join("strict")
            await out.send(b"y")
            assert (await group.receive(timeout=10)).payload == b"y"
            await receiver.leave(group)
            await until(lambda: out.view is not None and not out.view.members)
            with pytest.raises(quicksilver.EmptyGroupError):
                out.post(b"z")

    run(work())
    with connect_sync(gms, empty="error") as node:
        with pytest.raises(quicksilver.EmptyGroupError):
            node.open("lonely").send(b"x")
        # A lone member is somebody.
        node.join("alone").send(b"x")
        node.flush(timeout=10)


def test_closing_tells_what_still_waits(gms: str) -> None:
    """As it does for everything else that did not arrive."""
    node = connect_sync(gms)
    node.open("never").send(b"x")
    with pytest.raises(quicksilver.UnconfirmedError, match="1 message to 'never'"):
        node.close(timeout=0.2)
