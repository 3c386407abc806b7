"""Many runs: over several processes, with what is finished kept on disk.

A batch that was interrupted goes on where it stopped: what has a line in its result
file is not run again. The last line may be torn by a crash; such a line is no
result, and the next one begins after it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from quicksilver.lab.child import end_with

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)


def count_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def run_batch(
    work: Callable[[T], R],
    tasks: Iterable[T],
    *,
    jobs: int = 1,
    on_start: Callable[[T], None] | None = None,
) -> Iterator[tuple[T, R]]:
    """Do the work for every task; yields tasks with results as they are finished.

    With several jobs each runs in a process of its own, a fresh one: nothing of this
    process's state can leak in. Whoever stops asking for results, for a failure that
    is enough or by a signal, ends the processes that are still at work.
    """
    begin = on_start if on_start is not None else lambda _: None
    waiting = iter(tasks)
    if jobs <= 1:
        for task in waiting:
            begin(task)
            yield task, work(task)
        return
    others = set(active_children())
    running: dict[Future[R], T] = {}
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
    ) as pool:
        try:
            while True:
                for task in islice(waiting, jobs - len(running)):
                    begin(task)
                    running[pool.submit(work, task)] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException:
            for process in set(active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _begin(parent: int) -> None:
    end_with(parent)
    # Ctrl-C in a terminal reaches all processes; the parent's answer to it is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class ResultFile(Generic[S]):
    """Finished results of a batch, one JSON object a line."""

    def __init__(self, path: Path, kind: type[S], name_of: Callable[[S], object]) -> None:
        """``name_of``: what a result is of; of two results of the same the newer counts."""
        self.path = path
        self._kind = kind
        self._name_of = name_of

    def open(self, *, fresh: bool) -> None:
        """Make the file's folder; ``fresh`` forgets the results that are there."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            self._end_torn_line()

    def _end_torn_line(self) -> None:
        with self.path.open("rb+") as file:
            file.seek(0, 2)
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":
                    file.write(b"\n")

    def read(self) -> list[S]:
        """Return the results that are there, in the order they were finished."""
        found: dict[object, S] = {}
        if not self.path.exists():
            return []
        for line in self.path.read_bytes().splitlines():
            try:
                result = msgspec.json.decode(line, type=self._kind)
            except msgspec.MsgspecError:
                continue
            name = self._name_of(result)
            found.pop(name, None)
            found[name] = result
        return list(found.values())

    def add(self, result: S) -> None:
        """Write a finished result."""
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
