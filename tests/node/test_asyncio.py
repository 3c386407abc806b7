"""The asyncio form, on real sockets, as a user would use it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import quicksilver
from quicksilver.trace.sinks import MemoryTrace
from tests.node.networks import Network
from tests.node.service import connect, pair, run, take

pytestmark = pytest.mark.integration


class Quote(msgspec.Struct):
    symbol: str
    price: float


def test_messages_arrive_in_order_and_numbered(network: Network) -> None:
    """FIFO per sender, with the sequence of the group visible."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("order"))
            out = await sender.open(network.name("order"))
            await network.wait_members(out, 1)
            for number in range(500):
                await out.send(b"%d" % number)
            got = await take(group, 500)
            assert [m.payload for m in got] == [b"%d" % n for n in range(500)]
            assert [m.sequence for m in got] == list(range(500))
            assert len({m.sender for m in got}) == 1
            assert all(network.is_from(message, sender) for message in got)
            assert {m.group for m in got} == {network.name("order")}
            await sender.flush()

    run(work())


@pytest.mark.parametrize("echo", [False, True])
def test_members_hear_themselves_only_if_they_ask(network: Network, echo: bool) -> None:
    """DESIGN: members hear their own messages if they ask to."""

    async def work() -> None:
        async with pair(network.address) as (one, other):
            theirs = await other.join(network.name(f"echo-{echo}"))
            mine = await one.join(network.name(f"echo-{echo}"), echo=echo)
            await network.wait_members(mine, 2)
            await mine.send(b"x")
            assert (await take(theirs, 1))[0].payload == b"x"
            assert mine.queued_bytes == 0 or echo
            if echo:
                assert (await take(mine, 1))[0].payload == b"x"

    run(work())


def test_views_are_events_each_once(gms: str) -> None:
    """Every view is told once, in order, with who came and who left."""

    async def work() -> None:
        async with connect(gms) as one:
            group = await one.join("views")
            views = group.views()
            first = await anext(views)
            assert first.members == (one.id,)
            async with connect(gms) as other:
                await other.join("views")
                second = await asyncio.wait_for(anext(views), 5)
                assert second.number > first.number
                assert second.joined == (other.id,)
                left = other.id
            third = await asyncio.wait_for(anext(views), 5)
            assert third.left == (left,)

    run(work())


def test_a_group_may_be_opened_twice_and_joined_as_well(network: Network) -> None:
    """Each of them is ready when it is returned, and knows the view."""

    async def work() -> None:
        async with pair(network.address) as (one, other):
            theirs = await other.join(network.name("thrice"))
            mine, *opened = await asyncio.gather(
                one.join(network.name("thrice")),
                one.open(network.name("thrice")),
                one.open(network.name("thrice")),
            )
            late = await one.open(network.name("thrice"))
            await network.wait_members(mine, 2)
            await network.wait_members(late, 2)
            for group in (mine, *opened, late):
                await group.send(b"x")
            assert [m.sequence for m in await take(theirs, 4)] == [0, 1, 2, 3]

    run(work())


def test_a_large_message_is_fragmented_and_whole(network: Network) -> None:
    """Messages up to 16 MiB travel in pieces."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("large"))
            out = await sender.open(network.name("large"))
            await network.wait_members(out, 1)
            payload = bytes(range(256)) * 12_000
            await out.send(payload)
            await out.send(b"after")
            assert [m.payload for m in await take(group, 2)] == [payload, b"after"]
            with pytest.raises(quicksilver.MessageTooLargeError, match="split it"):
                await out.send(bytes((16 << 20) + 1))

    run(work())


def test_many_groups_in_one_request(network: Network) -> None:
    """Joins of many groups are one request; messages find theirs."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            names = [network.name(f"many-{n}") for n in range(300)]
            groups = await receiver.join_all(names)
            outs = await sender.open_all(names)
            await network.wait_members(outs[-1], 1)
            for out in outs:
                await out.send(out.name.encode())
            for group in groups:
                (message,) = await take(group, 1)
                assert message.payload == group.name.encode()

    run(work())


def test_typed_groups_validate_on_receipt(network: Network) -> None:
    """What is not of the type is counted and dropped."""

    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("typed"), Quote)
            good = await sender.open(network.name("typed"), Quote)
            await network.wait_members(good, 1)
            async with connect(network.address) as stranger:
                bad = await stranger.open(network.name("typed"))
                await bad.send(b"\xc1 not a quote")
                await stranger.flush()
            await good.send(Quote("EURUSD", 1.0842))
            async for message in group:
                assert message.payload == Quote("EURUSD", 1.0842)
                break
            assert group.invalid == 1

    run(work())


def test_a_slow_consumer_slows_the_sender(gms: str) -> None:
    """Back-pressure end to end: nothing is dropped, and memory stays bounded."""

    async def work() -> None:
        options = {"queue_bytes": 200_000, "receive_buffer_bytes": 1 << 18}
        async with pair(gms, **options) as (sender, receiver):
            group = await receiver.join("slow")
            out = await sender.open("slow")
            await out.wait_members(1)
            sent = 0

            async def pump() -> None:
                nonlocal sent
                while sent < 20_000:
                    await out.send(bytes(1000))
                    sent += 1

            task = asyncio.create_task(pump())
            await asyncio.sleep(0.7)
            assert sent < 20_000, "the sender was not held back"
            assert group.queued_bytes < 1_000_000
            assert len(await take(group, 20_000)) == 20_000
            await task

    run(work(), timeout_s=60)


def test_the_pull_form_asks_just_before_sending(gms: str) -> None:
    """The application is asked for the next message until it has none."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            group = await receiver.join("pull")
            out = await sender.open("pull")
            await out.wait_members(1)
            numbers = iter(range(1000))
            out.send_from(lambda: next((b"%d" % n for n in numbers), None))
            got = await take(group, 1000)
            assert [m.payload for m in got] == [b"%d" % n for n in range(1000)]

    run(work())


def test_callbacks_run_on_the_core_thread_and_may_send(network: Network) -> None:
    """The fastest path: an answer sent from the callback."""

    async def work() -> None:
        async with pair(network.address) as (client, server):
            asked = await server.join(network.name("ask"))
            answers = await server.open(network.name("answer"))
            mine = await client.join(network.name("answer"))
            out = await client.open(network.name("ask"))
            await network.wait_members(out, 1)
            await network.wait_members(answers, 1)
            asked.on_message(lambda message: answers.post(b"re: " + message.payload))
            for number in range(20):
                await out.send(b"%d" % number)
            got = await take(mine, 20)
            assert [m.payload for m in got] == [b"re: %d" % n for n in range(20)]

    run(work())


def test_mistakes_are_one_line_each(gms: str) -> None:
    """Errors say what happened and what to do."""

    async def work() -> None:
        with pytest.raises(quicksilver.AddressError, match="host:port"):
            quicksilver.connect("nonsense")
        with pytest.raises(quicksilver.GmsUnreachableError, match="quicksilver gms"):
            async with connect("127.0.0.1:9", connect_timeout_s=0.3):
                pass
        async with connect(gms) as node:
            opened = await node.open("only-sending")
            with pytest.raises(quicksilver.NotJoinedError):
                await opened.receive_batch()
            group = await node.join("left")
            await node.leave(group)
            with pytest.raises(quicksilver.ClosedError):
                await group.send(b"x")
        with pytest.raises(quicksilver.ClosedError):
            await node.join("late")

    run(work())


def test_a_tracer_records_views_and_rounds(gms: str) -> None:
    """Everything a node does worth knowing is a record."""
    trace = MemoryTrace()

    async def work() -> None:
        async with pair(gms, tracer=trace) as (sender, receiver):
            group = await receiver.join("traced")
            out = await sender.open("traced")
            await out.wait_members(1)
            await out.send(b"x")
            await take(group, 1)
            await sender.flush()
            stats = await sender.stats()
            assert stats.counters["sent_messages"] == 1
            assert stats.connected

    run(work())
    counts = trace.counts()
    assert counts["ViewInstalled"] >= 1
    assert counts["RoundCompleted"] >= 1
