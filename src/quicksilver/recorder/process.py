"""The recorder: a node that joins groups and keeps what it hears.

One task a group takes batches, and what is not written yet is bounded: when
``flush_bytes`` wait, the task writes before it takes more, the group's queue
fills, and the node holds the senders back. A clock writes what waits every
``flush_interval_s``. Files are written and made safe in threads.
"""

from __future__ import annotations

import asyncio
import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

import msgspec

from quicksilver.node.aio import Group, Node
from quicksilver.node.errors import ClosedError, QuicksilverError
from quicksilver.node.options import NodeOptions
from quicksilver.recorder.coverage import Coverage
from quicksilver.recorder.errors import LogBusyError
from quicksilver.recorder.folders import LOCK
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.peers import Peers
from quicksilver.recorder.protocol import State
from quicksilver.recorder.repair import Repaired, repair_log
from quicksilver.recorder.retention import Retention
from quicksilver.recorder.server import LogServer
from quicksilver.recorder.writer import LogConfig

RETRY_S = 2.0


class RecorderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a recorder."""

    flush_interval_s: float = 0.2
    """What waits is made safe so often: a crash loses at most this much time,
    of what it had not reported as safe."""
    trim_interval_s: float = 5.0
    log: LogConfig = LogConfig()
    retention: Retention = Retention()
    listen: str | None = None
    """``host:port`` to serve the logs on; port 0 takes a free one."""
    peers: tuple[str, ...] = ()
    """Addresses of other recorders, besides those that announce themselves."""
    repairs: bool = False
    """Give up rows that are damaged, and go on after them; otherwise they are refused."""


class GroupStatus(msgspec.Struct, frozen=True):
    """One group's log at one moment."""

    group: str
    durable: int
    """The offset after the last row that a crash cannot take."""
    messages: int
    fetched: int
    covered: int
    repeats: int
    unreadable: int
    """Rows that a repair gave up."""
    given_up: int
    """Messages that are missing and will not be fetched any more: there were too many holes."""
    removed_segments: int


class Recorder:
    """Records groups into a folder; use ``run`` in a task, and cancel it to end."""

    def __init__(
        self,
        gms: str,
        groups: Sequence[str],
        path: Path,
        config: RecorderConfig | None = None,
        options: NodeOptions | None = None,
    ) -> None:
        self.gms = gms
        self.groups = list(groups)
        self.path = path
        self.config = config if config is not None else RecorderConfig()
        self.options = options if options is not None else NodeOptions()
        self.logs: dict[str, GroupLog] = {}
        self.server = LogServer(self.logs, self._settle)
        self.peers: Peers | None = None
        self.repaired: list[Repaired] = []
        """What was given up before recording began, if this was asked for."""
        self.is_ready = asyncio.Event()
        """Set when the groups are joined: from then on nothing is missed."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._tried: dict[tuple[str, str], Coverage] = {}

    def status(self) -> list[GroupStatus]:
        """Return what was recorded so far."""
        return [
            GroupStatus(
                name,
                log.writer.durable,
                log.messages,
                log.fetched,
                log.covered,
                log.repeats.dropped,
                log.known.unreadable,
                log.known.coverage.given_up,
                log.removed_segments,
            )
            for name, log in self.logs.items()
        ]

    async def run(self) -> None:
        """Record until cancelled, then make everything safe; raises what went wrong."""
        with locked(self.path):
            try:
                for name in self.groups:
                    if self.config.repairs:
                        self.repaired.append(await asyncio.to_thread(repair_log, self.path, name))
                    self.logs[name] = await asyncio.to_thread(
                        GroupLog, self.path, name, self.config.log
                    )
                    self._locks[name] = asyncio.Lock()
                await self._record()
            finally:
                self.is_ready.clear()
                for log in self.logs.values():
                    log.close()

    async def _record(self) -> None:
        config = self.config
        if config.listen is not None:
            host, _, port = config.listen.rpartition(":")
            await self.server.start(host, int(port))
        try:
            async with Node(self.gms, self.options) as node:
                groups = await node.join_all(self.groups, overflow="block")
                self.is_ready.set()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        for group in groups:
                            tasks.create_task(self._follow(group))
                        tasks.create_task(self._flush_by_clock())
                        tasks.create_task(self._trim_by_clock())
                        if config.listen is not None or config.peers:
                            tasks.create_task(self._talk_to_peers())
                except asyncio.CancelledError:
                    await self._drain(node, groups)
                    raise
        except BaseExceptionGroup as several:
            # The first problem is the one to tell; the others follow from it.
            raise several.exceptions[0] from None
        finally:
            await self.server.close()

    async def _follow(self, group: Group[bytes]) -> None:
        log = self.logs[group.name]
        while True:
            try:
                batch = await group.receive_batch()
            except ClosedError:
                return
            log.take(batch, time.time_ns() // 1000)
            if log.writer.is_full:
                await self._flush(log)

    async def _drain(self, node: Node, groups: list[Group[bytes]]) -> None:
        """Leave the groups, and record what was received and acknowledged before."""
        try:
            await node.leave(*groups)
        except QuicksilverError:
            return
        for group in groups:
            await self._follow(group)

    async def _talk_to_peers(self) -> None:
        from quicksilver.recorder.peers import Peers

        self.peers = Peers(
            gms=self.gms,
            options=self.options,
            address=self.server.address,
            groups=self.groups,
            fixed=self.config.peers,
            fetch=self._fetch,
            forget=self._forget_others,
        )
        while True:
            try:
                await self.peers.run()
            except* QuicksilverError as several:
                # Recording goes on without the others.
                self.peers.problems["peers"] = str(several.exceptions[0])
            await asyncio.sleep(RETRY_S)

    async def _fetch(self, group: str, address: str) -> None:
        from quicksilver.recorder.peers import fetch_missing

        tried = self._tried.setdefault((group, address), Coverage())
        await fetch_missing(self.logs[group], address, self._flush, tried)

    def _forget_others(self, addresses: AbstractSet[str]) -> None:
        """Keep what was asked of the recorders that are known, and of no others."""
        for group, address in list(self._tried):
            if address not in addresses:
                del self._tried[group, address]

    # Disk

    async def _flush(self, log: GroupLog) -> None:
        async with self._locks[log.group]:
            rows = log.cut()
            if rows is not None:
                await _finish(log.write, rows)

    async def _settle(self, log: GroupLog, had: bool) -> State:
        """Make safe what arrived, and say what the log has: all of it safe, and nothing else.

        What arrives while this is written is not in the answer, although it is
        known by then.
        """
        async with self._locks[log.group]:
            rows = log.cut()
            state = (log.coverage if had else log.kept).state()
            if rows is not None:
                await _finish(log.write, rows)
            return State(log.reader.bounds()[0], log.writer.durable, state)

    async def _flush_by_clock(self) -> None:
        while True:
            await asyncio.sleep(self.config.flush_interval_s)
            for log in list(self.logs.values()):
                if log.writer.pending:
                    await self._flush(log)

    async def _trim_by_clock(self) -> None:
        retention = self.config.retention
        if retention == Retention():
            return
        while True:
            await asyncio.sleep(self.config.trim_interval_s)
            for log in list(self.logs.values()):
                await self.trim(log)

    async def trim(self, log: GroupLog) -> None:
        """Forget what may be forgotten of one log."""
        now_us = time.time_ns() // 1000
        async with self._locks[log.group]:
            found = await asyncio.to_thread(log.find_cut, self.config.retention, now_us)
            if found is None:
                return
            cut, runs = found
            log.forget(runs)
            rows = log.cut()
            memory = log.memory(rows, cut)
            if rows is not None:
                await _finish(log.write, rows)
            await _finish(log.trim, cut, memory)


async def _finish(work: Callable[..., object], *arguments: object) -> None:
    """Run work in a thread to its end, even if whoever waits is cancelled."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only writer of a folder; raises LogBusyError."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogBusyError(path) from None
        yield
