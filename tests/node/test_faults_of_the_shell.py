"""What a user can do to a node by accident, and must not harm it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from quicksilver import ClosedError
from tests.node.networks import Network
from tests.node.service import connect, connect_sync, pair, run, take

pytestmark = pytest.mark.integration

QUIET_S = 1.0
"""How long a test waits for what it expects not to come."""


def test_a_flush_that_was_given_up_leaves_the_node_alive(network: Network) -> None:
    """``wait_for(node.flush(), t)`` is how everybody bounds a wait."""

    async def work() -> None:
        slow = {"queue_bytes": 1000, "receive_buffer_bytes": 1 << 18}
        async with pair(network.address, **slow) as (sender, receiver):
            group = await receiver.join(network.name("given-up"))
            opened = await sender.open(network.name("given-up"))
            await network.wait_members(opened, 1)
            for _ in range(200):
                assert opened.post(bytes(8000))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sender.flush(), 0.001)
            await take(group, 200)
            await asyncio.wait_for(sender.flush(), 2 * QUIET_S)
            assert (await sender.stats()).connected

    run(work())


def test_closing_ends_a_flush_under_way(network: Network) -> None:
    """Whoever waits learns that nothing more will come."""

    async def work() -> None:
        slow = {"queue_bytes": 1000, "receive_buffer_bytes": 1 << 18}
        async with pair(network.address, **slow) as (sender, receiver):
            await receiver.join(network.name("unread"))
            opened = await sender.open(network.name("unread"))
            await network.wait_members(opened, 1)
            for _ in range(300):
                opened.post(bytes(8000))
            flush = asyncio.create_task(sender.flush())
            await asyncio.sleep(0.2)
            assert not flush.done()
            await sender.close(timeout=0)
            done, _ = await asyncio.wait([flush], timeout=QUIET_S)
            flush.cancel()
            assert done
            assert isinstance(flush.exception(), ClosedError)

    run(work())


def test_leaving_a_full_group_lets_the_others_go_on(gms: str) -> None:
    """Nobody reads the queue of a group that was left."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            full = await receiver.join("full", queue_bytes=1000)
            other = await receiver.join("other")
            to_full, to_other = await sender.open_all(["full", "other"])
            await to_full.wait_members(1)
            await to_other.wait_members(1)
            for _ in range(20):
                await to_full.send(bytes(1000))
            for _ in range(500):
                if full.queued_bytes > 1000:
                    break
                await asyncio.sleep(0.01)
            await receiver.leave(full)
            await to_other.send(b"still here")
            batch = await asyncio.wait_for(other.receive_batch(), QUIET_S)
            assert batch.payloads == [b"still here"]

    run(work())


def test_closing_an_opened_group_leaves_the_joined_one_alone(network: Network) -> None:
    """A library that sends to a group need not know that its host joined it."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            joined = await receiver.join(network.name("both"))
            opened = await receiver.open(network.name("both"))
            to_both = await sender.open(network.name("both"))
            await network.wait_members(to_both, 1)
            await receiver.leave(opened)
            await to_both.send(b"x")
            batch = await asyncio.wait_for(joined.receive_batch(), QUIET_S)
            assert batch.payloads == [b"x"]

    run(work())


def test_a_group_of_type_bytes_carries_bytes(network: Network) -> None:
    """What ``post`` and ``send`` put in is what comes out."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("typed"), bytes)
            opened = await sender.open(network.name("typed"), bytes)
            await network.wait_members(opened, 1)
            await opened.send(b"sent")
            assert opened.post(b"posted")
            found = []
            async with asyncio.timeout(QUIET_S):
                async for message in group:
                    found.append(message.payload)
                    if len(found) == 2:
                        break
            assert found == [b"sent", b"posted"]
            assert group.invalid == 0

    run(work())


def test_refused_messages_take_no_room_from_other_groups(gms: str) -> None:
    """A lane is shared: the mistakes of one group must not slow another."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            await receiver.join_all(["left", "kept"])
            left, kept = await sender.open_all(["left", "kept"])
            await sender.leave(left)
            for _ in range(5000):
                with pytest.raises(ClosedError):
                    await left.send(bytes(1000))
            assert kept._lane.queued_bytes() == 0

    run(work())


def test_a_second_iteration_goes_on_where_the_first_stopped(network: Network) -> None:
    """``break`` and come back later: reliable means that nothing is lost in between."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("resumed"))
            opened = await sender.open(network.name("resumed"))
            await network.wait_members(opened, 1)
            for number in range(10):
                await opened.send(b"%d" % number)
            await sender.flush()
            found: list[bytes] = []
            async with asyncio.timeout(QUIET_S):
                while len(found) < 10:
                    async for message in group:
                        found.append(message.payload)
                        break
            assert found == [b"%d" % number for number in range(10)]

    run(work())


@pytest.mark.parametrize("echo", [False, True])
def test_a_lone_member_can_flush(network: Network, echo: bool) -> None:
    """Everything sent is on every other member: there is none."""

    async def work() -> None:
        async with connect(network.address) as node:
            group = await node.join(network.name(f"alone-{echo}"), echo=echo)
            await group.send(b"x")
            flush = asyncio.ensure_future(node.flush())
            done, _ = await asyncio.wait([flush], timeout=QUIET_S)
            await node.close(timeout=0)
            flush.cancel()
            assert done

    run(work())


def test_closed_nodes_leave_the_switch_interval_as_it_was(gms: str) -> None:
    """The interpreter belongs to the application."""
    found = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    first, second = connect_sync(gms), connect_sync(gms)
    try:
        with first:
            second.__enter__()
        second.close()
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(found)


def test_a_node_can_be_closed_twice(network: Network) -> None:
    """``async with`` closes again what the application closed."""

    async def work() -> None:
        async with connect(network.address) as node:
            await node.close()
            with pytest.raises(ClosedError):
                await node.join(network.name("too-late"))

    run(work())
