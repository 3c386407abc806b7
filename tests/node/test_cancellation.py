"""Whoever waits may be cancelled at any point, and everything works afterwards.

Every coroutine of the API is run again and again, and cancelled where it suspends for the
first time, the second, the third …, until it runs to its end. The GMS is asked who is in which
group: what was given up must not stay there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import quicksilver
from quicksilver.multicast.config import EngineConfig
from quicksilver.node.history import HistoryState
from tests.node.networks import Network
from tests.node.service import connect, pair, run, take, until

pytestmark = pytest.mark.integration

POINTS_MAX = 60
"""Far more than any coroutine of the API suspends."""


class CancelAt:
    """Awaits a coroutine, and cancels its task where it suspends for the nth time."""

    def __init__(self, work: Coroutine[Any, Any, Any], point: int) -> None:
        self.work = work
        self.point = point
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self.work.__await__()
        task = asyncio.current_task()
        assert task is not None
        seen = 0
        step: Callable[[], Any] = partial(next, steps)
        while True:
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value
            if seen == self.point:
                self.was_cancelled = True
                asyncio.get_running_loop().call_soon(task.cancel)
            seen += 1
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001  # handed on
                step = partial(steps.throw, error)  # type: ignore[attr-defined]  # a coroutine
            else:
                step = partial(next, steps)


async def cancel_everywhere(
    make: Callable[[], Coroutine[Any, Any, Any]],
    after: Callable[[], Awaitable[None]],
) -> int:
    """Cancel a coroutine at every point in turn, look after each; return how many there are."""
    for point in range(POINTS_MAX):
        attempt = CancelAt(make(), point)

        async def awaited(attempt: CancelAt = attempt) -> Any:
            return await attempt

        try:
            await asyncio.wait_for(asyncio.ensure_future(awaited()), 20)
        except asyncio.CancelledError:
            assert attempt.was_cancelled
            await after()
        else:
            if not attempt.was_cancelled:
                return point
            await after()
    raise AssertionError(f"suspends more than {POINTS_MAX} times")


async def settled(node: quicksilver.Node, groups: int) -> None:
    """Wait until the node has so many groups, by its own account."""
    await until(lambda: node.core.group_count() == groups)


def test_a_cancelled_join_has_joined_nothing_and_can_be_repeated(gms: str) -> None:
    """No membership is left behind, and the next join does not say that there is one."""

    async def work() -> None:
        async with pair(gms) as (node, other):

            async def after() -> None:
                await settled(node, 0)
                group = await node.join("again")
                out = await other.open("again")
                await out.send(b"x")
                assert (await group.receive(timeout=10)).payload == b"x"
                await other.leave(out)
                await node.leave(group)

            async def join() -> None:
                await node.leave(await node.join("again"))

            assert await cancel_everywhere(join, after) >= 2
            watch = await other.join("again")
            view = await watch.wait_members(1)
            assert view.members == (other.id,)

    run(work())


def test_joins_that_were_cancelled_leave_nothing_in_the_node(gms: str) -> None:
    """A program may try thousands of names, each for a moment."""

    async def work() -> None:
        async with pair(gms) as (node, _):
            cancelled = 0
            for number in range(20):
                name = f"never-{number}"
                joining = asyncio.ensure_future(node.join(name))
                for _ in range(10_000):
                    if name in node.core._waiting:
                        break
                    await asyncio.sleep(0)
                joining.cancel()
                try:
                    # The GMS may have answered while this thread had to wait for a processor.
                    await node.leave(await joining)
                except asyncio.CancelledError:
                    cancelled += 1
            assert cancelled
            await settled(node, 0)
            await node.leave(await node.join("last"))
            assert node.core._waiting == {}

    run(work(), timeout_s=60)


def test_a_cancelled_open_can_be_repeated(network: Network) -> None:
    async def work() -> None:
        async with pair(network.address) as (node, other):
            group = await other.join(network.name("opened"))

            async def after() -> None:
                await settled(node, 0)
                out = await node.open(network.name("opened"))
                await out.send(b"x")
                assert (await group.receive(timeout=10)).payload == b"x"
                await node.leave(out)

            async def open_() -> None:
                await node.leave(await node.open(network.name("opened")))

            assert await cancel_everywhere(open_, after) >= 2

    run(work(), timeout_s=60)


def test_cancelled_receivers_lose_no_message(gms: str) -> None:
    """Not by ``receive``, ``receive_batch``, ``anext``, nor by iterators."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            group = await receiver.join("kept")
            views = group.views()
            out = await sender.open("kept")
            sent = got = 0

            async def check() -> None:
                nonlocal sent, got
                await out.send(b"%d" % sent)
                sent += 1
                message = await group.receive(timeout=10)
                assert message.payload == b"%d" % got
                got += 1

            ways: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                group.receive,
                lambda: group.receive(timeout=5),
                group.__anext__,
                lambda: group.messages().__anext__(),
                lambda: group.messages(timeout=5).__anext__(),
                lambda: group.batches().__anext__(),
                lambda: group.receive_batch(timeout=5),
            ]
            for way in ways:
                for point in range(4):
                    attempt = CancelAt(way(), point)

                    async def awaited(attempt: CancelAt = attempt) -> Any:
                        return await attempt

                    task = asyncio.ensure_future(awaited())
                    await asyncio.sleep(0)
                    if not task.done():
                        await out.send(b"%d" % sent)
                        sent += 1
                    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
                    if not isinstance(outcome, BaseException):
                        got += 1
                    await check_all(group, sent, got)
                    got = sent
            await check()
            # The same iterator goes on after a timeout of whoever waited for it.
            await anext(views)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(views), 0.05)
            await sender.join("kept")
            assert len((await asyncio.wait_for(anext(views), 10)).members) == 2

    async def check_all(group: quicksilver.Group[bytes], sent: int, got: int) -> None:
        for number in range(got, sent):
            assert (await group.receive(timeout=10)).payload == b"%d" % number

    run(work(), timeout_s=60)


def test_a_timeout_of_the_caller_does_not_end_the_iterator(gms: str) -> None:
    """``wait_for(anext(group), …)`` again and again, as loops with a deadline do."""

    async def work() -> None:
        async with pair(gms) as (sender, receiver):
            group = await receiver.join("patient")
            out = await sender.open("patient")
            for number in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(group), 0.05)
                with pytest.raises(quicksilver.TimedOutError, match="a message of group 'patient'"):
                    await group.receive(timeout=0.05)
                await out.send(b"%d" % number)
                assert (await asyncio.wait_for(anext(group), 10)).payload == b"%d" % number

    run(work())


def test_a_cancelled_send_has_sent_nothing(gms: str) -> None:
    """It waits for room first and queues the message without a pause."""

    async def work() -> None:
        engine = EngineConfig(queue_bytes_max=2000, waiting_bytes_max=2000)
        async with connect(gms, engine=engine) as sender, connect(gms) as receiver:
            out = await sender.open("room")
            accepted: list[bytes] = []

            async def send_one(payload: bytes) -> None:
                await out.send(payload)
                accepted.append(payload)

            async def fill() -> None:
                while True:
                    await send_one(b"%04d" % len(accepted) + bytes(100))

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(fill(), 0.5)
            for point in range(3):
                attempt = CancelAt(send_one(b"cancelled"), point)

                async def awaited(attempt: CancelAt = attempt) -> Any:
                    return await attempt

                await asyncio.gather(asyncio.ensure_future(awaited()), return_exceptions=True)
            group = await receiver.join("room")
            await send_one(b"last")
            got = [m.payload for m in await take(group, len(accepted))]
            assert got == accepted

    run(work())


def test_a_cancelled_flush_leaves_what_it_would_have_told_to_the_next(network: Network) -> None:
    async def work() -> None:
        async with pair(network.address) as (sender, receiver):
            group = await receiver.join(network.name("flushed"))
            out = await sender.open(network.name("flushed"))

            async def flush() -> None:
                await out.send(b"x")
                await sender.flush()

            async def after() -> None:
                await sender.flush(timeout=10)
                await group.receive(timeout=10)

            assert await cancel_everywhere(flush, after) >= 1

    run(work(), timeout_s=60)


def test_a_cancelled_connect_leaves_nothing_open(gms: str) -> None:
    """Neither a thread nor a socket."""

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async def work() -> None:
        async with connect(gms):
            await asyncio.to_thread(lambda: None)  # the pool's threads exist from here on
        before = descriptors()

        async def enter() -> None:
            node = await connect(gms)
            await node.close()

        async def after() -> None:
            for _ in range(200):
                if descriptors() <= before:
                    break
                await asyncio.sleep(0.01)
            assert descriptors() <= before

        assert await cancel_everywhere(enter, after) >= 2

    run(work(), timeout_s=60)


def test_a_cancelled_close_closes(network: Network) -> None:
    """Whoever gives up waiting for the flush still wants the node gone."""

    async def work() -> None:
        for point in range(3):
            node = await connect(network.address)
            out = await node.open(network.name("closing"))
            await out.send(b"waits for members")
            attempt = CancelAt(node.close(timeout=0.3), point)

            async def awaited(attempt: CancelAt = attempt) -> Any:
                return await attempt

            await asyncio.gather(asyncio.ensure_future(awaited()), return_exceptions=True)
            await until(lambda node=node: node.core.is_closed)  # type: ignore[misc]  # of this turn
            with pytest.raises(quicksilver.ClosedError):
                await node.join(network.name("closing"))

    run(work(), timeout_s=60)


def test_waiting_for_members_and_statistics_may_be_cancelled(gms: str) -> None:
    async def work() -> None:
        async with connect(gms) as node:
            group = await node.join("few")

            async def wait() -> None:
                await node.stats()
                with pytest.raises(quicksilver.TimedOutError, match="2 members of group 'few'"):
                    await group.wait_members(2, timeout=0.05)

            async def after() -> None:
                assert len((await group.wait_members(1, timeout=10)).members) == 1
                assert (await node.stats()).connected

            await cancel_everywhere(wait, after)

    run(work(), timeout_s=60)


class SlowHistory:
    """A history of three messages that is read one at a time, and counts its readers."""

    def __init__(self) -> None:
        self.reading = 0
        self.overlaps = 0

    def open(self, group: str) -> SlowHistory:
        self.group = group
        return self

    def state(self) -> HistoryState:
        from quicksilver.stdx.ranges import RangeSet

        return HistoryState(3, {(1, 99): RangeSet([(0, 3)])})

    def rows(self, offset: int) -> tuple[list[quicksilver.Batch], int]:
        import time

        self.reading += 1
        self.overlaps += self.reading > 1
        time.sleep(0.02)
        self.reading -= 1
        batch = quicksilver.Batch(self.group, 99, 1, [b"%d" % offset], offset, None, 1)
        return [batch], offset + 1

    def close(self) -> None: ...


def test_a_reader_of_history_may_be_cancelled(gms: str) -> None:
    """The history goes on to be read by one thread at a time, and nothing of it is lost."""

    async def work() -> None:
        async with connect(gms) as node:
            history = SlowHistory()
            group = await node.join("past", history=history)
            got: list[bytes] = []
            while len(got) < 3:
                try:
                    got.append((await asyncio.wait_for(anext(group), 0.005)).payload)
                except TimeoutError:
                    continue
            assert got == [b"0", b"1", b"2"]
            assert history.overlaps == 0

    run(work())
