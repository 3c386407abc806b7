"""Nodes of scopes: whoever waits may be cancelled at any point, and everything works after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quicksilver
from tests.node.managers import managing
from tests.node.service import connect, pair, run, take, until
from tests.node.test_cancellation import CancelAt, cancel_everywhere, settled

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module", params=["none", "ring"])
def lan(request: pytest.FixtureRequest) -> Iterator[str]:
    with managing("lan", recovery=request.param) as address:
        yield address


async def check_way(
    sender: quicksilver.Node, receiver: quicksilver.Node, topic: str, payload: bytes
) -> None:
    """A message goes from one node to the other."""
    group, out = await receiver.join(topic), await sender.open(topic)
    await out.send(payload)
    while (await group.receive(timeout=10)).payload != payload:
        pass  # What was sent before is kept for a while, for those who come later.
    await sender.leave(out)
    await receiver.leave(group)


def test_a_cancelled_join_has_joined_nothing_and_can_be_repeated(lan: str) -> None:
    async def work() -> None:
        async with pair(lan) as (node, other):
            count = 0

            async def after() -> None:
                nonlocal count
                count += 1
                await settled(node, 0)
                await check_way(other, node, "lan/again", b"%d" % count)

            async def join() -> None:
                await node.leave(await node.join("lan/again"))

            assert await cancel_everywhere(join, after) >= 2

    run(work(), timeout_s=60)


def test_a_cancelled_open_can_be_repeated(lan: str) -> None:
    async def work() -> None:
        async with pair(lan) as (node, other):
            count = 0

            async def after() -> None:
                nonlocal count
                count += 1
                await settled(node, 0)
                await check_way(node, other, "lan/opened", b"%d" % count)

            async def open_() -> None:
                await node.leave(await node.open("lan/opened"))

            assert await cancel_everywhere(open_, after) >= 2

    run(work(), timeout_s=60)


def test_who_publishes_goes_on_when_its_join_was_cancelled(lan: str) -> None:
    """The group that was opened before is as it was."""

    async def work() -> None:
        async with pair(lan) as (node, other):
            group, out = await other.join("lan/both"), await node.open("lan/both")
            count = 0

            async def after() -> None:
                nonlocal count
                count += 1
                await settled(node, 1)
                await out.send(b"%d" % count)
                assert (await group.receive(timeout=10)).payload == b"%d" % count

            async def join() -> None:
                await node.leave(await node.join("lan/both"))

            # To leave a group that was joined and opened leaves both.
            joining = asyncio.ensure_future(node.join("lan/both"))
            await asyncio.sleep(0)
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            await after()

    run(work(), timeout_s=60)


def test_a_cancelled_send_has_sent_nothing(lan: str) -> None:
    """It waits for room first and queues the message without a pause."""

    async def work() -> None:
        async with connect(lan) as sender, connect(lan, queue_bytes=1 << 20) as receiver:
            group, out = await receiver.join("lan/room"), await sender.open("lan/room")
            accepted: list[bytes] = []

            async def send_one(payload: bytes) -> None:
                await out.send(payload)
                accepted.append(payload[:9])

            async def fill() -> None:
                while True:
                    await send_one(b"%09d" % len(accepted) + bytes(50_000))

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(fill(), 3)
            for point in range(3):
                attempt = CancelAt(send_one(b"cancelled"), point)

                async def awaited(attempt: CancelAt = attempt) -> Any:
                    return await attempt

                await asyncio.gather(asyncio.ensure_future(awaited()), return_exceptions=True)
            sending = asyncio.ensure_future(send_one(b"the last."))
            got: list[bytes] = []
            while not got or got[-1] != b"the last.":
                got += [m.payload[:9] for m in await take(group, 1)]
            await sending
            assert got == accepted

    run(work(), timeout_s=90)


def test_a_cancelled_flush_does_not_harm_the_next(lan: str) -> None:
    async def work() -> None:
        async with pair(lan) as (sender, receiver):
            group, out = await receiver.join("lan/flushed"), await sender.open("lan/flushed")

            async def flush() -> None:
                await out.send(b"x")
                await sender.flush()

            async def after() -> None:
                await sender.flush(timeout=10)
                await group.receive(timeout=10)

            assert await cancel_everywhere(flush, after) >= 1
            await until(lambda: sender.core._flushes == [])

    run(work(), timeout_s=60)


@pytest.mark.parametrize("links", ["tcp", "udp"])
def test_a_cancelled_connect_leaves_nothing_open(lan: str, links: str) -> None:
    """Neither a thread nor a socket."""

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def work() -> None:
        async with connect(lan):
            await asyncio.to_thread(lambda: None)  # the pool's threads exist from here on
        before = descriptors()

        async def enter() -> None:
            node = await connect(lan, links=links)
            await node.close()

        async def after() -> None:
            for _ in range(500):
                if descriptors() <= before:
                    break
                await asyncio.sleep(0.01)
            assert descriptors() <= before

        for _ in range(10):  # It takes a thread of the pool that is late.
            assert await cancel_everywhere(enter, after) >= 2

    run(work(), timeout_s=90)
