"""What an application is told of messages that may be lost, by a real node."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from quicksilver import Unconfirmed, UnconfirmedError, UnconfirmedReason
from quicksilver.node import aio, sync
from tests.node.service import connect, connect_sync, pair, run, take

pytestmark = pytest.mark.integration

SLOW: dict[str, Any] = {"queue_bytes": 1000, "receive_buffer_bytes": 1 << 18}
"""A receiver that leaves data in the kernel unless its application reads it."""

COUNT = 40
SIZE = 8000


def exclude(node: aio.Node | sync.Node) -> None:
    """End the node's incarnation, as if the GMS had counted it out."""
    environment = node.core.session.engine.environment
    node.core.call(lambda: environment.end_incarnation("it is for a test"))


async def wait_exclusion(node: aio.Node) -> None:
    async with asyncio.timeout(10):
        while not (node.exclusions and node.id):  # noqa: ASYNC110  # another thread counts
            await asyncio.sleep(0.01)


async def filled(sender: aio.Node, receiver: aio.Node, name: str) -> tuple[aio.Group, aio.Group]:
    """Return a group and its opener, with messages on their way that nobody acknowledges."""
    group = await receiver.join(name)
    opened = await sender.open(name)
    await opened.wait_members(1)
    for _ in range(COUNT):
        assert opened.post(bytes(SIZE))
    await asyncio.sleep(0.1)
    return group, opened


async def drain(group: aio.Group) -> None:
    """Read all that comes, so that the receiver acknowledges it."""
    async for _ in group.batches():
        pass


def test_a_flush_raises_for_what_was_lost_before_it_began_and_does_so_once(gms: str) -> None:
    """Returning means that all has arrived, so it may not forget what did not."""

    async def work() -> None:
        async with pair(gms, **SLOW) as (sender, receiver):
            group, opened = await filled(sender, receiver, "flushed")
            before = sender.id
            exclude(sender)
            await wait_exclusion(sender)
            reader = asyncio.create_task(drain(group))
            with pytest.raises(UnconfirmedError) as caught:
                await sender.flush()
            (note,) = caught.value.messages
            assert (note.reason, note.group, note.node) == (
                UnconfirmedReason.EXCLUDED,
                "flushed",
                before,
            )
            assert note.members == (receiver.id,)
            assert 1 <= note.count == caught.value.count <= COUNT
            assert "this node was excluded" in str(caught.value)
            assert (await sender.flush()) == ()
            await opened.send(b"again")  # told by flush, so not once more
            assert (await sender.flush()) == ()
            assert (await sender.stats()).counters["unconfirmed"] == note.count
            reader.cancel()

    run(work())


def test_a_send_raises_once_for_what_was_lost_in_its_group(gms: str) -> None:
    """An application that never flushes hears of it as well, and can go on."""

    async def work() -> None:
        async with pair(gms, **SLOW) as (sender, receiver):
            _, opened = await filled(sender, receiver, "sent")
            other = await sender.open("sent-other")
            exclude(sender)
            await wait_exclusion(sender)
            await other.send(b"nothing of this group is lost")
            with pytest.raises(UnconfirmedError):
                await opened.send(b"x")
            assert opened.post(b"x")
            await opened.send(b"x")
            await sender.close(timeout=0)

    run(work())


def test_whoever_asks_to_be_called_is_called_at_once_and_send_goes_on(gms: str) -> None:
    """For applications that neither flush nor want to be stopped in a send."""

    async def work() -> None:
        told: list[Unconfirmed] = []
        async with (
            connect(gms, **SLOW) as receiver,
            connect(gms, on_unconfirmed=told.append) as sender,
        ):
            _, opened = await filled(sender, receiver, "called")
            exclude(sender)
            await wait_exclusion(sender)
            assert [note.reason for note in told] == [UnconfirmedReason.EXCLUDED]
            await opened.send(b"x")
            await sender.close(timeout=0)

    run(work())


def test_a_flush_that_was_given_up_leaves_its_news_to_the_next(gms: str) -> None:
    """Whoever waited is gone, and what was lost is not forgotten with it."""

    async def work() -> None:
        async with pair(gms, **SLOW) as (sender, receiver):
            group, _ = await filled(sender, receiver, "left")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(sender.flush(), 0.05)
            exclude(sender)
            await wait_exclusion(sender)
            reader = asyncio.create_task(drain(group))
            with pytest.raises(UnconfirmedError):
                await sender.flush()
            reader.cancel()

    run(work())


def test_closing_waits_and_then_raises_for_what_is_not_acknowledged(gms: str) -> None:
    """The node is closed all the same; with no time to wait nobody is told."""

    async def work() -> None:
        async with connect(gms, **SLOW) as receiver:
            sender = await connect(gms).__aenter__()
            await filled(sender, receiver, "closed")
            with pytest.raises(UnconfirmedError) as caught:
                await sender.close(timeout=0.2)
            assert {note.reason for note in caught.value.messages} == {UnconfirmedReason.CLOSED}
            assert sender.core.is_closed
            await sender.close()

    run(work())


def test_the_synchronous_form_does_the_same(gms: str) -> None:
    """One core, two shells."""
    with connect_sync(gms, **SLOW) as receiver:
        sender = connect_sync(gms)
        group = receiver.join("in-turn")
        opened = sender.open("in-turn")
        opened.wait_members(1)
        for _ in range(COUNT):
            opened.send(bytes(SIZE))
        with pytest.raises(TimeoutError):
            sender.flush(timeout=0.2)
        exclude(sender)
        deadline = time.monotonic() + 10
        while not (sender.exclusions and sender.id) and time.monotonic() < deadline:
            time.sleep(0.01)
        reader = threading.Thread(target=lambda: list(group.messages(timeout=2)))
        reader.start()
        with pytest.raises(UnconfirmedError):
            sender.flush(timeout=10)
        assert sender.flush(timeout=10) == ()
        opened.send(b"x")
        sender.close()
        reader.join()


def test_a_receiver_that_leaves_is_no_failure(gms: str) -> None:
    """What it had not acknowledged is returned; the members that stay have all."""

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as stays:
            leaves = await connect(gms, **SLOW).__aenter__()
            kept = await stays.join("left-by-one")
            await filled(sender, leaves, "left-by-one")
            reader = asyncio.create_task(take(kept, COUNT))
            gone = leaves.id
            await leaves.close(timeout=0)
            found = await sender.flush()
            assert {note.reason for note in found} <= {UnconfirmedReason.MEMBERS_GONE}
            assert {member for note in found for member in note.members} <= {gone}
            assert len(await reader) == COUNT

    run(work())
