"""A recorder's logs for others to read, over TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import numpy as np
import pyarrow as pa

from quicksilver.recorder.coverage import Coverage, Source
from quicksilver.recorder.errors import RecorderError
from quicksilver.recorder.grouplog import GroupLog
from quicksilver.recorder.protocol import (
    LENGTH,
    QUESTION_BYTES_MAX,
    ROWS_BYTES_MAX,
    Answer,
    AskRows,
    AskState,
    Problem,
    Question,
    Rows,
    State,
    encode_frame,
    pack_rows,
    parse_question,
)
from quicksilver.recorder.reader import LogReader
from quicksilver.stdx.ranges import RangeSet

CONNECTIONS_MAX = 64
IDLE_S_MAX = 300.0


class LogServer:
    """Answers questions about the logs of this process."""

    def __init__(
        self, logs: Mapping[str, GroupLog], settle: Callable[[GroupLog, bool], Awaitable[State]]
    ) -> None:
        self._logs = logs
        self._settle = settle
        self._server: asyncio.Server | None = None
        self._talking: set[asyncio.Task[None]] = set()
        self.address = ""
        self.garbage = 0
        """Connections that were hung up on because of what they sent."""
        self.answers = 0

    async def start(self, host: str, port: int) -> str:
        """Listen; return ``host:port``."""
        self._server = await asyncio.start_server(self._talk, host, port)
        bound = self._server.sockets[0].getsockname()
        self.address = f"{bound[0]}:{bound[1]}"
        return self.address

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._talking):
            task.cancel()
        await asyncio.gather(*self._talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talking.add(task)
        try:
            if len(self._talking) <= CONNECTIONS_MAX:
                await self._answer_all(reader, writer)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            pass  # they went away, fell silent, or we stop: nothing is owed
        finally:
            self._talking.discard(task)
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(IDLE_S_MAX):
                (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                body = await reader.readexactly(size) if size <= QUESTION_BYTES_MAX else b""
            question = parse_question(body)
            if question is None:
                self.garbage += 1
                return
            writer.write(encode_frame(await self._answer(question)))
            await writer.drain()
            self.answers += 1

    async def _answer(self, question: Question) -> Answer:
        log = self._logs.get(question.group)
        if log is None:
            return Problem(f"group {question.group!r} is not recorded here")
        match question:
            case AskState():
                return await self._settle(log, question.had)
            case AskRows():
                wanted = None
                if question.wanted is not None:
                    parsed = Coverage.parse(question.wanted)
                    if parsed is None:
                        return Problem("ranges that are none")
                    wanted = dict(parsed)
                try:
                    return await asyncio.to_thread(read_rows, log.reader, question.offset, wanted)
                except RecorderError as error:
                    return Problem(str(error))


def read_rows(reader: LogReader, offset: int, wanted: Mapping[Source, RangeSet] | None) -> Rows:
    """Return rows from an offset on, about ``ROWS_BYTES_MAX`` of them.

    What is damaged or gone is left out: whoever asks knows from the coverage
    what is not there.
    """
    log = LogReader(reader.folder.parent, reader.group)  # other threads have their own
    first, past = log.bounds()
    found: list[pa.RecordBatch] = []
    size = 0
    following = max(offset, first)
    for batch in log.read(following, past, strict=False):
        following = batch.column("offset")[-1].as_py() + 1
        rows = batch if wanted is None else _choose(batch, wanted)
        if rows.num_rows:
            found.append(rows)
            size += rows.get_total_buffer_size() if wanted is not None else rows.nbytes
        if size >= ROWS_BYTES_MAX:
            return Rows(following, pack_rows(found))
    return Rows(max(following, past), pack_rows(found))


def _choose(batch: pa.RecordBatch, wanted: Mapping[Source, RangeSet]) -> pa.RecordBatch:
    clusters, senders, sequences = (
        batch.column(name).to_numpy() for name in ("cluster", "sender", "sequence")
    )
    is_wanted = np.zeros(batch.num_rows, np.bool_)
    for (cluster, sender), ranges in wanted.items():
        of_sender = (clusters == cluster) & (senders == sender)
        if not of_sender.any():
            continue
        for start, stop in ranges:
            is_wanted |= of_sender & (sequences >= start) & (sequences < stop)
    return batch.filter(pa.array(is_wanted))
