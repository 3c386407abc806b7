"""When ``join`` returns, whatever is sent afterwards is delivered to the new member."""

from __future__ import annotations

import asyncio

import pytest

from tests.node.networks import Network
from tests.node.service import connect, pair, run, take

pytestmark = pytest.mark.integration


def test_what_is_sent_right_after_a_join_arrives(network: Network) -> None:
    """One after the other, without a word of ``wait_members``."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            for number in range(40):
                out = await sender.open(network.name(f"after-{number}"))
                group = await receiver.join(network.name(f"after-{number}"))
                await out.send(b"x")
                assert (await take(group, 1))[0].payload == b"x"

    run(work())


def test_what_is_sent_right_after_joins_side_by_side_arrives(network: Network) -> None:
    """A hundred tasks at a time, each with a group of its own."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):

            async def one(number: int) -> None:
                out = await sender.open(network.name(f"beside-{number}"))
                group = await receiver.join(network.name(f"beside-{number}"))
                await out.send(b"x")
                assert (await take(group, 1))[0].payload == b"x"

            for start in range(0, 300, 100):
                await asyncio.gather(*(one(number) for number in range(start, start + 100)))

    run(work(), timeout_s=60)


def test_members_may_send_right_after_a_join_as_well(network: Network) -> None:
    """A member is a sender, too; messages that it sent before are not for the newcomer."""

    async def work() -> None:
        async with connect(network.address) as one, connect(network.address) as other:
            mine = await one.join(network.name("talk"))
            await mine.send(b"before")
            await one.flush()
            theirs = await other.join(network.name("talk"))
            await mine.send(b"after")
            assert (await take(theirs, 1))[0].payload == b"after"

    run(work())
