"""A recorder's logs for others to read, over TCP.

Anybody can connect, so everything that a connection costs has a limit: how many
there are, how long one may say nothing, how many bytes of questions and answers
are held at once. Whoever does not read its answer is hung up on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
import numpy as np
import pyarrow as pa

from quicksilver.recorder.coverage import Coverage, Source
from quicksilver.recorder.errors import DamagedSegmentError, OffsetsLostError, RecorderError
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.protocol import (
    ANSWER_BYTES_MAX,
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


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What strangers may cost a recorder."""

    connections_max: int = 64
    """One more is hung up on at once."""
    connections_a_host_max: int = 16
    """So that one host cannot take all of them."""
    silent_s_max: float = 5.0
    """A connection must have said a whole question so long after it was made or after its
    last answer, and must take some of an answer so often; otherwise it is hung up on."""
    small_question_bytes: int = 64 << 10
    """Larger questions are read few at a time."""
    large_questions_max: int = 4
    answers_max: int = 4
    """Answers that are made or sent at once; other questions wait."""
    answers_a_host_max: int = 2


CHUNK_BYTES = 256 << 10
"""An answer is given to the system in such parts, so that progress can be seen."""


class LogServer:
    """Answers questions about the logs of this process."""

    def __init__(
        self,
        logs: Mapping[str, GroupLog],
        settle: Callable[[GroupLog, bool], Awaitable[State]],
        limits: ServerLimits | None = None,
    ) -> None:
        self._logs = logs
        self._settle = settle
        self._limits = ServerLimits() if limits is None else limits
        self._server: asyncio.Server | None = None
        self._talking: set[asyncio.Task[None]] = set()
        self._hosts: Counter[str] = Counter()
        """Connections of each host that has any."""
        self._large = asyncio.Semaphore(self._limits.large_questions_max)
        self._answering = asyncio.Semaphore(self._limits.answers_max)
        self._answering_hosts: dict[str, asyncio.Semaphore] = {}
        self.address = ""
        self.garbage = 0
        """Connections that were hung up on because of what they sent."""
        self.refused = 0
        """Connections that were too many."""
        self.silent = 0
        """Connections that said nothing, or did not read, for too long."""
        self.answers = 0

    @property
    def connections(self) -> int:
        """How many there are now."""
        return sum(self._hosts.values())

    async def start(self, host: str, port: int) -> str:
        """Listen; return ``host:port``."""
        # What is read ahead of a question is as much as a small question.
        limit = self._limits.small_question_bytes
        self._server = await asyncio.start_server(self._talk, host, port, limit=limit)
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
        peer = writer.get_extra_info("peername")
        host = str(peer[0]) if peer else ""
        try:
            if self._is_full(host):
                self.refused += 1
                return
            self._hosts[host] += 1
            try:
                await self._answer_all(reader, writer, host)
            finally:
                self._leave(host)
        except TimeoutError:
            self.silent += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # they went away, or we stop: nothing is owed
        finally:
            self._talking.discard(task)
            # Not ``close``: that would go on holding an answer that nobody reads.
            writer.transport.abort()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    def _is_full(self, host: str) -> bool:
        limits = self._limits
        return (
            self.connections >= limits.connections_max
            or self._hosts[host] >= limits.connections_a_host_max
        )

    def _leave(self, host: str) -> None:
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
            self._answering_hosts.pop(host, None)

    async def _answer_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> None:
        limits = self._limits
        own = self._answering_hosts.setdefault(host, asyncio.Semaphore(limits.answers_a_host_max))
        while True:
            async with asyncio.timeout(limits.silent_s_max):
                body = await self._read_question(reader)
            question = parse_question(body)
            if question is None:
                self.garbage += 1
                return
            async with own, self._answering:
                frame = encode_frame(await self._answer(question))
                if len(frame) > ANSWER_BYTES_MAX:
                    frame = encode_frame(Problem(f"the answer has {len(frame)} bytes: too many"))
                await self._send(writer, frame)
            self.answers += 1

    async def _read_question(self, reader: asyncio.StreamReader) -> bytes:
        (size,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if size > QUESTION_BYTES_MAX:
            return b""  # which is no question
        if size <= self._limits.small_question_bytes:
            return await reader.readexactly(size)
        async with self._large:
            return await reader.readexactly(size)

    async def _send(self, writer: asyncio.StreamWriter, frame: bytes) -> None:
        """Send an answer; raises TimeoutError if it is not read."""
        left = memoryview(frame)
        while left:
            writer.write(left[:CHUNK_BYTES])
            left = left[CHUNK_BYTES:]
            async with asyncio.timeout(self._limits.silent_s_max):
                await writer.drain()

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
                        return Problem("the ranges asked for cannot be read")
                    wanted = dict(parsed)
                try:
                    return await asyncio.to_thread(read_rows, log.reader, question.offset, wanted)
                except RecorderError as error:
                    return Problem(str(error))


def read_rows(reader: LogReader, offset: int, wanted: Mapping[Source, RangeSet] | None) -> Rows:
    """Return rows from an offset on, about ``ROWS_BYTES_MAX`` of them.

    What retention took or a repair gave up is left out: whoever asks knows from the
    coverage what is not there. Other damage is told with the rows before it.
    """
    log = LogReader(reader.folder.parent, reader.group)  # other threads have their own
    first, past = log.bounds()
    found: list[pa.RecordBatch] = []
    size = 0
    following = max(offset, first)
    try:
        for batch in log.read_rest(following, past):
            following = batch.column("offset")[-1].as_py() + 1
            rows = batch if wanted is None else _choose(batch, wanted)
            if rows.num_rows:
                found.append(rows)
                size += rows.get_total_buffer_size() if wanted is not None else rows.nbytes
            if size >= ROWS_BYTES_MAX:
                return Rows(following, pack_rows(found))
    except (DamagedSegmentError, OffsetsLostError) as error:
        return Rows(max(following, error.end), pack_rows(found), str(error))
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
