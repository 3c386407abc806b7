"""What recorders say to each other and to latecomers, over TCP.

A frame is four bytes of length and MessagePack. One question, one answer, in
order. Frames are bounded; whoever sends what does not parse is hung up on.
Rows travel as an Arrow stream with the columns of a segment.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import msgspec
import pyarrow as pa

from quicksilver.recorder.coverage import SenderRanges
from quicksilver.recorder.rows import COLUMNS

LENGTH = struct.Struct("<I")
QUESTION_BYTES_MAX = 2 << 20
"""A peer asks for 1,000 senders with 100 ranges each: 1.8 MB."""
ANSWER_BYTES_MAX = 64 << 20
ROWS_BYTES_MAX = 8 << 20
"""Rows of one answer: about so many bytes, and at least one batch."""


class AskState(msgspec.Struct, frozen=True, tag="state"):
    """What is there of a group, on disk?"""

    group: str
    had: bool = False
    """Name all messages that were ever recorded, and rows that were not because they were
    repeats of recorded ones; otherwise those that can be read."""


class AskRows(msgspec.Struct, frozen=True, tag="rows"):
    """The rows from an offset on; with ``wanted``, only those messages."""

    group: str
    offset: int
    wanted: list[SenderRanges] | None = None


Question: TypeAlias = AskState | AskRows


class State(msgspec.Struct, frozen=True, tag="state"):
    """First offset, the one past the last, and the messages they are."""

    first: int
    past: int
    coverage: list[SenderRanges]


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """Some rows, and the offset from which to go on; no progress means the end."""

    following: int
    data: bytes
    damage: str = ""
    """Why rows before ``following`` are not there although they were recorded, in one line."""


class Problem(msgspec.Struct, frozen=True, tag="problem"):
    """Why there is no answer, in one line."""

    text: str


Answer: TypeAlias = State | Rows | Problem

_encoder = msgspec.msgpack.Encoder()
_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encode_frame(value: Question | Answer) -> bytes:
    """Return a frame."""
    body = _encoder.encode(value)
    return LENGTH.pack(len(body)) + body


def parse_question(body: bytes) -> Question | None:
    """Read a question; None if it is none."""
    try:
        return _questions.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None


def parse_answer(body: bytes) -> Answer | None:
    """Read an answer; None if it is none."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None


def pack_rows(batches: list[pa.RecordBatch]) -> bytes:
    """Return batches of a segment as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, COLUMNS) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def parse_rows(data: bytes) -> list[pa.RecordBatch] | None:
    """Read batches that another process wrote; None if they are not what a segment holds."""
    try:
        with pa.ipc.open_stream(data) as stream:
            if not stream.schema.equals(COLUMNS):
                return None
            batches = list(stream)
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowInvalid, OSError, ValueError):
        return None
    return batches
