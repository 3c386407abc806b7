"""Queue groups, on real sockets: each message goes to one of the members of a queue."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import quicksilver
from quicksilver.node.patterns import QUEUE_AND_GROUP_BYTES_MAX, QUEUE_DRAIN_S
from tests.node.service import connect, connect_sync, run, take, take_sync, until

pytestmark = pytest.mark.integration


async def drain(group: quicksilver.Group, found: Counter[bytes]) -> None:
    async for message in group:
        found[message.payload] += 1


def test_each_message_goes_to_one_member_of_each_queue_and_to_all_others(gms: str) -> None:
    async def work() -> None:
        async with (
            connect(gms) as sender,
            connect(gms) as one,
            connect(gms) as two,
            connect(gms) as three,
        ):
            found = [Counter[bytes]() for _ in range(4)]
            groups = [
                await one.join("q1", queue="workers"),
                await two.join("q1", queue="workers"),
                await three.join("q1"),
            ]
            tasks = [asyncio.create_task(drain(g, c)) for g, c in zip(groups, found, strict=False)]
            out = await sender.open("q1")
            await out.wait_members(3)
            for number in range(1000):
                await out.send(b"%d" % number, key=b"k" if number % 7 == 0 else None)
            everything = Counter({b"%d" % n: 1 for n in range(1000)})
            await until(lambda: found[0] + found[1] == everything)
            await until(lambda: found[2] == everything)
            assert 400 < found[0].total() < 600
            for task in tasks:
                task.cancel()

    run(work())


def test_members_come_and_go_and_every_message_is_handled_once(gms: str) -> None:
    """Across view changes, while nobody fails: none twice, none lost."""

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as steady:
            found: Counter[bytes] = Counter()
            stays = await steady.join("q2", queue="w")
            tasks = [asyncio.create_task(drain(stays, found))]
            out = await sender.open("q2")
            await out.wait_members(1)
            count = 0

            async def send() -> None:
                nonlocal count
                while not done.is_set():
                    await out.send(b"%d" % count)
                    count += 1
                    if count % 50 == 0:
                        await asyncio.sleep(0.002)

            done = asyncio.Event()
            sending = asyncio.create_task(send())
            for _ in range(3):
                async with connect(gms) as visitor:
                    group = await visitor.join("q2", queue="w")
                    task = asyncio.create_task(drain(group, found))
                    await asyncio.sleep(0.1)
                    await visitor.leave(group)
                    await task
            done.set()
            await sending
            await sender.flush()
            everything = Counter({b"%d" % n: 1 for n in range(count)})
            await until(lambda: found.total() >= count)
            assert found == everything
            for task in tasks:
                task.cancel()

    run(work(), timeout_s=60)


def test_what_was_a_dead_members_to_take_is_lost_and_nothing_is_taken_twice(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as one:
            found: Counter[bytes] = Counter()
            group = await one.join("q3", queue="w")
            task = asyncio.create_task(drain(group, found))
            out = await sender.open("q3")
            async with connect(gms) as victim:
                await victim.join("q3", queue="w")
                await out.wait_members(2)
                for number in range(100):
                    await out.send(b"%d" % number)
                await sender.flush()
                await victim.close(timeout=0)
            await until(lambda: out.view is not None and len(out.view.members) == 1)
            for number in range(100, 200):
                await out.send(b"%d" % number)
            await until(lambda: all(found[b"%d" % n] for n in range(100, 200)))
            assert set(found.values()) == {1}
            assert 120 < found.total() < 180
            task.cancel()

    run(work())


def test_the_synchronous_form(gms: str) -> None:
    with connect_sync(gms) as sender, connect_sync(gms) as receiver:
        group = receiver.join("q4", queue="w")
        out = sender.open("q4")
        out.wait_members(1)
        out.send(b"x")
        assert take_sync(group, 1)[0].payload == b"x"
        receiver.leave(group)
        again = receiver.join("q4", queue="w")
        out.wait_members(1)
        out.send(b"y")
        assert take_sync(again, 1)[0].payload == b"y"


@pytest.mark.parametrize("queue", ["", "a.b", "x" * 65, "\n", 5, "*"])
def test_names_of_queues_are_checked_at_the_call(gms: str, queue: str) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            with pytest.raises(quicksilver.OptionError, match="queue: must"):
                await node.join("q5", queue=queue)
            assert (await node.join("q5")).queue is None

    run(work())


def test_a_queue_takes_messages_with_their_headers(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            group = await receiver.join("q6", queue="w")
            out = await sender.open("q6")
            await out.wait_members(1)
            await out.send(b"x", headers={"a": "b"})
            assert (await take(group, 1))[0].headers == {"a": "b"}

    run(work())


def test_members_of_a_queue_get_no_retained_values(gms: str) -> None:
    """A queue handles each message at most once: what was sent before was handled by others, or
    by nobody. A member that joined without a queue gets the values as ever."""

    async def work() -> None:
        async with (
            connect(gms) as sender,
            connect(gms) as early,
            connect(gms) as late,
            connect(gms) as plain,
        ):
            found: Counter[bytes] = Counter()
            group = await early.join("q7", queue="w")
            tasks = [asyncio.create_task(drain(group, found))]
            out = await sender.open("q7", retain=20)
            await out.wait_members(1)
            for number in range(20):
                await out.send(b"%d" % number)
            everything = Counter({b"%d" % n: 1 for n in range(20)})
            await until(lambda: found == everything)
            second = await late.join("q7", queue="w")
            tasks.append(asyncio.create_task(drain(second, found)))
            listener = await plain.join("q7")
            await out.wait_members(3)
            for number in range(20, 30):
                await out.send(b"%d" % number)
            got = await take(listener, 30)
            assert [m.is_retained for m in got] == [True] * 20 + [False] * 10
            await until(lambda: found.total() >= 30)
            assert found == Counter({b"%d" % n: 1 for n in range(30)})
            for task in tasks:
                task.cancel()

    run(work())


def test_a_leave_of_a_queue_that_was_cancelled_has_left(gms: str) -> None:
    """Its two steps are one for whoever calls: nobody stays a member halfway."""

    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            groups = [await receiver.join(name, queue="w") for name in ("q8", "q9")]
            out = await sender.open("q8", empty="drop")
            await out.wait_members(1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receiver.leave(*groups), QUEUE_DRAIN_S / 5)
            await until(lambda: out.view is not None and not out.view.members)
            for name in ("q8", "q9"):
                assert (await receiver.join(name)).is_member

    run(work())


def test_what_is_no_group_is_refused_before_a_queue_is_left(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            group = await receiver.join("q10", queue="w")
            with pytest.raises(quicksilver.OptionError, match="groups: must"):
                await receiver.leave(group, "q10")  # type: ignore[arg-type]
            out = await sender.open("q10")
            await out.send(b"x")
            assert (await take(group, 1))[0].payload == b"x"

    run(work())


def test_a_queue_and_a_group_whose_names_are_too_long_together_are_refused(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            longest = "g" * (QUEUE_AND_GROUP_BYTES_MAX - 2)
            assert (await node.join(longest, queue="ww")).is_member
            with pytest.raises(quicksilver.OptionError) as caught:
                await node.join(longest + "g", queue="ww")
            assert f"at most {QUEUE_AND_GROUP_BYTES_MAX} bytes" in str(caught.value)
            assert "$" not in str(caught.value)

    run(work())


def test_what_waits_for_a_member_is_a_queues_to_handle_though_it_is_retained(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as sender, connect(gms) as receiver:
            out = await sender.open("q11", retain=5, empty="wait")
            for number in range(3):
                await out.send(b"%d" % number)
            group = await receiver.join("q11", queue="w")
            got = await take(group, 3)
            assert [(m.payload, m.is_retained) for m in got] == [
                (b"%d" % n, False) for n in range(3)
            ]

    run(work())
