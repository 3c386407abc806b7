"""What commands share while they run: a node's options and metrics, a trace, signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quicksilver.cli.output import remark
from quicksilver.lab.ending import Terminated
from quicksilver.net.faults import parse_faults
from quicksilver.node.options import NodeOptions
from quicksilver.node.tuning import SWITCH_INTERVAL_S

if TYPE_CHECKING:
    import asyncio

    from quicksilver.node import aio, sync
    from quicksilver.trace.parquet import ParquetTrace
    from quicksilver.trace.records import Tracer


def node_options(
    interface: str | None, faults: str | None, name: str, tracer: Tracer | None = None
) -> NodeOptions:
    """Return a node's options; raises FaultError."""
    return NodeOptions(
        name=name,
        interface=interface,
        faults=parse_faults(faults) if faults else None,
        tracer=tracer,
        keys_file=os.environ.get("QUICKSILVER_KEYS"),
        # A command has its process for itself.
        tune_gc=True,
        switch_interval_s=SWITCH_INTERVAL_S,
    )


@contextmanager
def serving_metrics(node: sync.Node | aio.Node, port: int | None) -> Iterator[None]:
    """Serve a node's metrics meanwhile, if a port is given."""
    if port is None:
        yield
        return
    from quicksilver.node.metrics import start_metrics

    with start_metrics(node, port) as server:
        remark(f"metrics at http://{server.address}/metrics")
        yield


def name_run(command: str) -> str:
    """Return a name for a run that begins now."""
    return f"{command}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def name_target(target: Path | None, command: str) -> Path | None:
    """Return where a run's records go, for the processes that share the run."""
    from quicksilver.trace.folders import run_folder, split_target

    if target is None:
        return None
    return run_folder(*split_target(target, name_run(command)))


@contextmanager
def opening_trace(
    target: Path | None, run: str, writer: str, *, waits: bool = False
) -> Iterator[ParquetTrace | None]:
    """Have a trace meanwhile, if one is wanted; says where it is, and what is missing of it."""
    if target is None:
        yield None
        return
    from quicksilver.trace.folders import split_target
    from quicksilver.trace.parquet import ParquetTrace

    folder, name = split_target(target, run)
    with ParquetTrace(folder, name, writer, waits=waits) as trace:
        yield trace
    if trace.problem is not None:
        remark(f"the trace in {trace.folder} is not whole: {trace.problem}")
    elif trace.dropped:
        remark(f"the trace in {trace.folder} lacks {trace.dropped:,} records: no room for them")
    else:
        remark(f"trace: {trace.folder}, {trace.written:,} records")


T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; Ctrl-C cancels it and raises KeyboardInterrupt, SIGTERM Terminated.

    Cancelling runs the ``finally`` parts: nodes say goodbye, children are stopped.
    """
    import asyncio

    is_terminated = False

    def end(task: asyncio.Task[Any]) -> None:
        nonlocal is_terminated
        is_terminated = True
        task.cancel()

    async def guarded() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, end, task)
        return await work

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        raise (Terminated() if is_terminated else KeyboardInterrupt()) from None
