"""Asking a recorder over TCP; blocking, for a thread."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Self

from quicksilver.node.errors import AddressError
from quicksilver.node.options import parse_gms_address
from quicksilver.recorder.coverage import Source, to_state
from quicksilver.recorder.errors import PeerError
from quicksilver.recorder.protocol import (
    ANSWER_BYTES_MAX,
    LENGTH,
    Answer,
    AskRows,
    AskState,
    Problem,
    Question,
    Rows,
    State,
    encode_frame,
    parse_answer,
    parse_rows,
)
from quicksilver.stdx.ranges import RangeSet

if TYPE_CHECKING:
    import pyarrow as pa


ANSWER_S_MAX = 60.0
"""A recorder that takes longer for one answer counts as silent."""
TEXT_CHARACTERS_MAX = 300


def one_line(text: str) -> str:
    """Return what another process said as a line that can be printed."""
    said = "".join(one if one.isprintable() else "?" for one in text[:TEXT_CHARACTERS_MAX])
    return said if len(text) <= TEXT_CHARACTERS_MAX else f"{said}…"


class RecorderClient:
    """A connection to one recorder; raises PeerError for all that goes wrong."""

    def __init__(self, address: str, timeout_s: float = 10.0) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None

    def state(self, group: str, *, had: bool = False) -> State:
        """Return what the recorder has of a group, safe on disk; or ever had: see ``AskState``."""
        answer = self._ask(AskState(group, had))
        if not isinstance(answer, State):
            raise self._unfit(answer)
        return answer

    def rows(
        self,
        group: str,
        offset: int,
        wanted: Mapping[Source, RangeSet] | None = None,
        damage: list[str] | None = None,
    ) -> tuple[list[pa.RecordBatch], int]:
        """Return some rows from an offset on, and where to go on; no progress means the end.

        Damage in the recorder's log raises PeerError too; with a list for it, it is
        noted there, and what is left is read.
        """
        chosen = None if wanted is None else to_state(wanted.items())
        answer = self._ask(AskRows(group, offset, chosen))
        if not isinstance(answer, Rows):
            raise self._unfit(answer)
        batches = parse_rows(answer.data)
        if batches is None or answer.following < offset:
            raise PeerError(self.address, "sent rows that are none")
        if answer.damage:
            if damage is None:
                raise PeerError(self.address, one_line(answer.damage))
            damage.append(one_line(answer.damage))
        return batches, answer.following

    def missing(
        self, group: str, wanted: Mapping[Source, RangeSet], past: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages from the recorder's log up to an offset."""
        offset = 0
        while offset < past:
            batches, following = self.rows(group, offset, wanted)
            yield from batches
            if following <= offset:
                return
            offset = following

    def _ask(self, question: Question) -> Answer:
        try:
            body = self._exchange(encode_frame(question))
        except OSError as error:
            self.close()
            raise PeerError(self.address, error.strerror or str(error) or "no answer") from None
        answer = parse_answer(body)
        if answer is None:
            self.close()
            raise PeerError(self.address, "sent what is no answer; is it a recorder?")
        return answer

    def _exchange(self, question: bytes) -> bytes:
        if self._socket is not None:
            try:
                return self._say(self._socket, question)
            except ConnectionError:
                # A recorder hangs up on whoever says nothing for some seconds.
                self.close()
        return self._say(self._connected(), question)

    def _say(self, stream: socket.socket, question: bytes) -> bytes:
        ends = time.monotonic() + ANSWER_S_MAX
        stream.sendall(question)
        (size,) = LENGTH.unpack(self._receive(stream, LENGTH.size, ends))
        if size > ANSWER_BYTES_MAX:
            self.close()
            raise PeerError(self.address, f"answers with {size} bytes, which is too much")
        return self._receive(stream, size, ends)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            try:
                place = parse_gms_address(self.address)
            except AddressError:
                raise PeerError(self.address, "no address; give host:port") from None
            self._socket = socket.create_connection(place, self._timeout_s)
        return self._socket

    @staticmethod
    def _receive(stream: socket.socket, size: int, ends: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            if time.monotonic() > ends:
                raise TimeoutError(f"no complete answer within {ANSWER_S_MAX:.0f} s")
            part = stream.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionResetError("it closed the connection")
            data += part
        return bytes(data)

    def _unfit(self, answer: Answer) -> PeerError:
        if isinstance(answer, Problem):
            return PeerError(self.address, one_line(answer.text))
        return PeerError(self.address, "answered something else")

    def close(self) -> None:
        """Hang up; the next question connects again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
