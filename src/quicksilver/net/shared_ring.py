"""A ring of records in memory that processes of one machine share: one writer, many readers.

A record is written once, however many read it (dissertation 3.2.6). Each reader has a cursor
of its own, kept elsewhere (``shared_words``). A reader that the writer waits for loses nothing;
any other may be overtaken, and then finds out how many messages it has missed.

Layout, native byte order; positions count bytes since the beginning and never wrap::

     0  magic u64 | capacity u64
    16  head u64: the end of what was written        (the writer alone writes these two)
    24  tail u64: nothing before it is valid any more
    64  capacity bytes, a record at position p at p % capacity, all in one piece

    record: length u32 | kind u32 | before u64 | messages u32 | check u32 | body, padded to 8

``before`` counts the messages of all records before this one, ``check`` is made of the position.

**Order in memory.** The writer stores ``tail``, then the record, then ``head``; a reader loads
``head``, then the record, then ``tail``. On x86-64 no store passes an earlier store and no load an
earlier load, string moves included as far as what follows them is concerned; and what CPython
does for an item of a memoryview of ``Q`` is a call into C with one aligned store or load of
8 bytes, which compilers cannot move across the calls around it. So a reader that sees a head sees
the records before it, and one that finds its cursor at or past the tail has read what was written
there. Only a store followed by a load may be swapped: see ``fence``. Other processors order less,
and are refused.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import TypeVar

from quicksilver.stdx.errors import QuicksilverError

T = TypeVar("T")

MAGIC = 0x51_52_49_4E_47_30_30_31
HEADER_BYTES = 64
_HEAD, _TAIL = 2, 3  # words of the header
_RECORD = Struct("=IIQII")
RECORD_BYTES = _RECORD.size
CAPACITY_MIN = 1 << 12
CAPACITY_MAX = 1 << 30
PART_SHARE = 4
"""A body longer than this part of the ring is written in several records."""

KIND_PAD = 0
"""Fills the end of the ring when the next record does not fit there."""
_MORE = 1 << 31
"""The body goes on in the next record."""
_REST = 1 << 30
"""The body began in the record before."""
_KIND = _REST - 1

BODY_BYTES_MAX = 64 << 20
"""The longest body that a reader puts together."""

_F_SEAL_FUTURE_WRITE = 0x10  # Linux 5.1; Python 3.11 has no name for it


class RingError(QuicksilverError):
    """The memory of a ring does not hold what a writer writes."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"shared memory is damaged: {self.problem}"


@cache
def is_supported() -> bool:
    """Return whether this machine has what rings need: its order of memory, and sealed files."""
    if not hasattr(os, "memfd_create") or platform.machine() not in ("x86_64", "AMD64"):
        return False
    try:
        descriptor, memory = make_memory("quicksilver-probe", 4096, is_shared_writable=False)
    except OSError:
        return False  # a kernel before 5.1
    os.close(descriptor)
    memory.close()
    return True


_LOCK = threading.Lock()


def fence() -> None:
    """Let no later load pass an earlier store: between "I sleep" and the last look, say.

    To take a lock is an atomic exchange, which on x86-64 is a full barrier. (To try to take one
    that another thread has is a mere load: so this waits for it.)
    """
    with _LOCK:
        pass


def make_memory(name: str, size: int, *, is_shared_writable: bool) -> tuple[int, mmap.mmap]:
    """Return a descriptor for others and this process's own mapping of new memory.

    Nobody can change its size: whoever did could end all others with SIGBUS. If it is not
    writable for others, the kernel refuses every later attempt to map or write it so.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        memory = mmap.mmap(fd, size)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        if not is_shared_writable:
            seals |= _F_SEAL_FUTURE_WRITE
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals | fcntl.F_SEAL_SEAL)
    except OSError:
        os.close(fd)
        raise
    return fd, memory


def map_memory(fd: int, *, is_writable: bool) -> mmap.mmap:
    """Map what another process has made; raises RingError where it is something else."""
    try:
        size = os.fstat(fd).st_size
        if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise RingError("its size may change")
        prot = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
        return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=prot)
    except (OSError, ValueError) as error:
        raise RingError(str(error)) from None


def shared_words(memory: mmap.mmap) -> memoryview[int]:
    """Return memory as 64-bit words, which are loaded and stored whole."""
    return memoryview(memory).cast("Q")


def ring_bytes(capacity: int) -> int:
    """Return how much memory a ring takes; the capacity is a power of two."""
    assert CAPACITY_MIN <= capacity <= CAPACITY_MAX
    assert capacity & (capacity - 1) == 0
    return HEADER_BYTES + capacity


class RingWriter:
    """The only one that writes a ring.

    It never reads what others may write; those who wait say from where on
    (``floor``) the ring must not be overwritten.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        """Begin a ring in new memory of ``ring_bytes`` bytes."""
        self.capacity = len(memory) - HEADER_BYTES
        self.part_bytes = self.capacity // PART_SHARE - RECORD_BYTES
        self.head = 0
        self.tail = 0
        self.messages = 0
        """How many messages were written so far."""
        self._words = shared_words(memory)
        self._data = memoryview(memory)[HEADER_BYTES:]
        self._ends: deque[int] = deque()
        """Where valid records end: kept here, so that none is read back."""
        self._words[1] = self.capacity
        self._words[0] = MAGIC

    def write(self, kind: int, body: bytes, messages: int, floor: int) -> bool:
        """Write one record; False if that would overwrite what lies at ``floor`` or after.

        A body may be at most ``part_bytes`` long; ``split`` cuts longer ones.
        """
        size = len(body)
        assert size <= self.part_bytes
        need = (RECORD_BYTES + size + 7) & ~7
        head, capacity = self.head, self.capacity
        offset = head % capacity
        pad = capacity - offset if offset + need > capacity else 0
        end = head + pad + need
        if end - floor > capacity:
            return False
        if end - self.tail > capacity:
            self._move_tail(end - capacity)
        data = self._data
        if pad:
            if pad >= RECORD_BYTES:
                _RECORD.pack_into(
                    data, offset, pad - RECORD_BYTES, KIND_PAD, self.messages, 0, _check(head)
                )
            head += pad
            self._ends.append(head)
            offset = 0
        start = offset + RECORD_BYTES
        data[start : start + size] = body
        _RECORD.pack_into(data, offset, size, kind, self.messages, messages, _check(head))
        self._ends.append(end)
        self.head = end
        self.messages += messages
        self._words[_HEAD] = end
        return True

    def split(self, kind: int, body: bytes, messages: int) -> list[tuple[int, bytes, int]]:
        """Return the records that a body of any length needs: kind, part and messages of each."""
        limit = self.part_bytes
        if len(body) <= limit:
            return [(kind, body, messages)]
        last = (len(body) - 1) // limit
        return [
            (
                kind | (_REST if place else 0) | (_MORE if place < last else 0),
                body[place * limit : (place + 1) * limit],
                messages if place == last else 0,
            )
            for place in range(last + 1)
        ]

    def _move_tail(self, least: int) -> None:
        ends = self._ends
        tail = self.tail
        while tail < least:
            tail = ends.popleft()
        self.tail = tail
        self._words[_TAIL] = tail


class RingReader:
    """Reads a ring from a position on; trusts nothing in it but that its size is fixed."""

    def __init__(self, memory: mmap.mmap, cursor: int = 0, messages: int = 0) -> None:
        """``messages``: how many were written before ``cursor``. Raises RingError."""
        capacity = len(memory) - HEADER_BYTES
        is_power = capacity >= CAPACITY_MIN and capacity & (capacity - 1) == 0
        if not is_power or capacity > CAPACITY_MAX:
            raise RingError(f"a ring has no {len(memory)} bytes")
        self._words = shared_words(memory)
        if self._words[0] != MAGIC or self._words[1] != capacity:
            raise RingError("it does not begin as rings do")
        self.capacity = capacity
        self.cursor = cursor
        """Where the next record begins; all before it was read or overtaken."""
        self.missed = 0
        """Messages that were overwritten before they were read."""
        self._data = memoryview(memory)[HEADER_BYTES:].toreadonly()
        self._expected = messages
        self._parts: list[bytes] = []
        """The beginning of a body whose end was not read yet."""
        self._is_overtaken = False
        """False: a body whose beginning is not here began before this reader did."""

    @property
    def head(self) -> int:
        """Where what was written so far ends, as the writer says."""
        return self._words[_HEAD]

    def has_more(self) -> bool:
        """Return whether something was written that was not read yet."""
        return self._words[_HEAD] != self.cursor

    def read(self, take: Callable[[int, memoryview], T]) -> T | None:
        """Return what ``take`` makes of the next record's kind and body; None: there is none.

        ``take`` gets the body in place: it must copy what it keeps, must not believe the bytes
        (they may change while it looks), and raises ValueError if they make no sense. If the
        record was overwritten meanwhile, what it made or raised is dropped.

        Raises:
            RingError: what is there was written by no ``RingWriter``, or ``take`` refused it.
        """
        words, data = self._words, self._data
        while True:
            head, cursor = words[_HEAD], self.cursor
            if head == cursor:
                return None
            if words[_TAIL] > cursor:
                self._handle_overtaken()
                continue
            offset = cursor % self.capacity
            left = self.capacity - offset
            if left < RECORD_BYTES:  # too short an end for a record, even for one that pads
                self._advance(cursor + left, head)
                continue
            size, kind, before, messages, check = _RECORD.unpack_from(data, offset)
            total = (RECORD_BYTES + size + 7) & ~7
            problem: str | None = None
            found: T | None = None
            is_whole = is_lost = False
            if check != _check(cursor) or total > left or not 0 < head - cursor <= self.capacity:
                problem = "a record lies about its length or place"
            elif kind != KIND_PAD:
                start = offset + RECORD_BYTES
                body = data[start : start + size]
                is_lost = bool(kind & _REST) and not self._parts
                is_whole = not kind & _MORE and not is_lost
                if is_whole:
                    try:
                        found = take(kind & _KIND, self._whole(body) if self._parts else body)
                    except ValueError as error:
                        problem = str(error) or "a record has no meaning"
                elif not is_lost:
                    problem = self._add_part(bytes(body), is_first=not kind & _REST)
            # Loaded after all that was read: what was overwritten since does not count.
            if words[_TAIL] > cursor:
                self._handle_overtaken()
                continue
            if problem is None and cursor + total > head:
                problem = "a record goes past the end"
            if problem is not None:
                raise RingError(problem)
            if before > self._expected:
                self.missed += before - self._expected
            if is_lost and self._is_overtaken:
                self.missed += messages
            self._expected = before + messages
            self._advance(cursor + total, head)
            if is_whole:
                self._parts.clear()
                return found

    def _whole(self, last: memoryview) -> memoryview:
        return memoryview(b"".join((*self._parts, last)))

    def _add_part(self, part: bytes, *, is_first: bool) -> str | None:
        if is_first:
            self._parts.clear()
        self._parts.append(part)
        is_long = len(self._parts) * self.capacity // PART_SHARE > BODY_BYTES_MAX
        return "a record is too long" if is_long else None

    def _advance(self, cursor: int, head: int) -> None:
        if cursor > head:
            raise RingError("the head lies behind its records")
        self.cursor = cursor

    def _handle_overtaken(self) -> None:
        """Go on with the oldest record that is still there."""
        tail = self._words[_TAIL]
        # The head that was loaded before may be older than this tail: load it anew.
        if not self.cursor < tail <= self._words[_HEAD]:
            raise RingError("head and tail contradict each other")
        self.cursor = tail
        self._is_overtaken = True
        self._parts.clear()


def clamp_cursor(told: int, least: int, head: int) -> int:
    """Return a cursor that a reader has told, or the nearest that it can be."""
    return min(max(told, least), head)


def _check(position: int) -> int:
    return (position >> 3 ^ 0x5117_C3A5) & 0xFFFF_FFFF
