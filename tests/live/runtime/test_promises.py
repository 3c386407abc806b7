"""Coroutines that wait for promises: results, errors, and being cancelled."""

from __future__ import annotations

import pytest

from quicksilver.live.runtime.promises import Promise, Task, TaskCancelled


def test_a_task_goes_on_when_its_promise_is_kept() -> None:
    promise: Promise[int] = Promise()

    async def double() -> int:
        return 2 * await promise

    task = Task(double())
    assert not task.is_done
    promise.keep(21)
    promise.keep(0)  # too late
    assert task.result() == 42


def test_an_error_comes_out_where_it_is_awaited() -> None:
    promise: Promise[int] = Promise()

    async def wait() -> str:
        try:
            await promise
        except ValueError as error:
            return str(error)
        return "nothing"

    task = Task(wait())
    promise.fail(ValueError("what happened"))
    assert task.result() == "what happened"


def test_a_cancelled_task_runs_its_finally_blocks_which_may_wait() -> None:
    first: Promise[None] = Promise()
    last: Promise[None] = Promise()
    steps: list[str] = []

    async def work() -> None:
        try:
            await first
            steps.append("not reached")
        finally:
            await last
            steps.append("cleaned up")

    task = Task(work())
    task.cancel()
    assert not task.is_done
    first.keep(None)  # what it waited for before does not resume it
    assert steps == []
    last.keep(None)
    assert steps == ["cleaned up"]
    assert isinstance(task.error, TaskCancelled)


def test_a_task_that_cancels_itself_ends_where_it_waits_next() -> None:
    holder: list[Task[str]] = []
    go: Promise[None] = Promise()
    steps: list[str] = []

    async def work() -> str:
        await go
        holder[0].cancel()
        steps.append("goes on")
        await Promise[None]()
        return "not reached"

    holder.append(Task(work()))
    go.keep(None)
    assert steps == ["goes on"]
    assert isinstance(holder[0].error, TaskCancelled)


def test_a_coroutine_that_swallows_the_cancellation_goes_on() -> None:
    async def stubborn() -> str:
        try:
            await Promise[None]()
        except TaskCancelled:
            return "no"
        return "not reached"

    task = Task(stubborn())
    task.cancel()
    assert task.result() == "no"


def test_only_promises_can_be_awaited() -> None:
    import asyncio

    async def wrong() -> None:
        await asyncio.sleep(0)

    with pytest.raises(TypeError, match="promises of the runtime only"):
        Task(wrong()).result()


def test_a_long_chain_of_tasks_needs_no_deep_stack() -> None:
    """Awaiting what is done already costs no frame, however often."""

    async def nothing() -> int:
        return 1

    async def work() -> int:
        total = 0
        for _ in range(5000):
            total += await Task(nothing())
        return total

    assert Task(work()).result() == 5000
