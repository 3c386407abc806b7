"""Executors: order, timers, other threads, and what happens at the end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.runtime.errors import ClosedError, WrongThreadError
from quicksilver.live.runtime.executors import AsyncioExecutor, ThreadExecutor
from quicksilver.live.runtime.promises import Promise, Task
from quicksilver.live.runtime.runtime import Runtime
from tests.live.runtime.worlds import COMPONENTS, LONG_S, World, log, world

__all__ = ["log", "world"]


def test_timers_run_by_their_time_and_not_if_cancelled(world: World) -> None:
    seen: list[str] = []
    done = threading.Event()

    def begin() -> None:
        world.executor.call_later(0.02, lambda: (seen.append("later"), done.set()))
        world.executor.call_later(0.0, lambda: seen.append("soon"))
        cancelled = world.executor.call_later(0.0, lambda: seen.append("never"))
        cancelled.cancel()

    world.call(begin)
    assert done.wait(LONG_S)
    assert seen == ["soon", "later"]


def test_a_step_that_posts_itself_does_not_keep_timers_from_running(world: World) -> None:
    done = threading.Event()

    def again() -> None:
        if not done.is_set():
            world.executor.post(again)

    world.call(lambda: (again(), world.executor.call_later(0.0, done.set)))
    assert done.wait(LONG_S)


def test_a_runtime_is_used_on_its_executor_only(world: World) -> None:
    with pytest.raises(WrongThreadError, match=r"executor\.call"):
        world.runtime.open(primitive("test.echo"))


def test_a_call_to_a_closed_executor_says_so() -> None:
    executor = ThreadExecutor()
    executor.close()
    executor.close()
    executor.post(lambda: None)
    with pytest.raises(ClosedError):
        executor.call(lambda: None)


def test_whoever_waits_is_told_when_the_executor_ends() -> None:
    executor = ThreadExecutor()
    never: Promise[None] = Promise()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        begun = threading.Event()
        waiting = pool.submit(executor.call, lambda: (begun.set(), never)[1])
        assert begun.wait(LONG_S)
        executor.close()
        with pytest.raises(ClosedError):
            waiting.result(LONG_S)


def test_a_step_that_raises_does_not_end_the_thread(caplog: pytest.LogCaptureFixture) -> None:
    executor = ThreadExecutor()

    def leave() -> None:
        raise SystemExit(3)

    executor.post(leave)
    assert executor.call(lambda: 5) == 5
    executor.close()
    assert "failed" in caplog.text


def test_call_does_not_wait_for_itself() -> None:
    executor = ThreadExecutor()
    with pytest.raises(RuntimeError, match="wait for itself"):
        executor.call(lambda: executor.call(lambda: None))
    executor.close()


def test_an_asyncio_task_that_is_cancelled_cancels_the_opening() -> None:
    async def run() -> list[str]:
        executor = AsyncioExecutor()
        runtime = Runtime(executor, components=COMPONENTS)
        task = asyncio.ensure_future(executor.future(runtime.open(primitive("test.waiter"))))
        await asyncio.sleep(0)
        assert len(runtime.cells) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        left = [cell.name for cell in runtime.cells]
        runtime.close()
        return left

    assert asyncio.run(run()) == []


def test_posting_to_a_closed_loop_does_nothing() -> None:
    async def make() -> AsyncioExecutor:
        return AsyncioExecutor()

    executor = asyncio.run(make())
    executor.post(lambda: None)


def test_a_future_has_the_result_and_the_error() -> None:
    async def run() -> None:
        executor = AsyncioExecutor()

        async def give() -> int:
            return 7

        async def fail() -> int:
            raise ValueError("no")

        assert await executor.future(Task(give())) == 7
        with pytest.raises(ValueError, match="no"):
            await executor.future(Task(fail()))

    asyncio.run(run())
