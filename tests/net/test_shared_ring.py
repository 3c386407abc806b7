"""Rings in shared memory, next to a list that forgets nothing."""

from __future__ import annotations

import fcntl
import mmap
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.net.shared_ring import (
    CAPACITY_MIN,
    RingError,
    RingReader,
    RingWriter,
    clamp_cursor,
    make_memory,
    map_memory,
    ring_bytes,
)

KIND = 7


def make_ring(capacity: int = CAPACITY_MIN) -> tuple[mmap.mmap, RingWriter]:
    fd, memory = make_memory("test", ring_bytes(capacity), is_shared_writable=False)
    os.close(fd)
    return memory, RingWriter(memory)


def read_all(reader: RingReader) -> list[bytes]:
    found = []
    while (body := reader.read(lambda kind, body: bytes(body))) is not None:
        found.append(body)
    return found


def write_whole(writer: RingWriter, body: bytes, floor: int) -> bool:
    """Write a body of any length if all its records fit; for tests with one thread."""
    parts = writer.split(KIND, body, 1)
    return all(writer.write(kind, part, count, floor) for kind, part, count in parts)


bodies = st.integers(0, 900).map(os.urandom)
steps = st.lists(st.one_of(bodies, st.integers(0, 2)), max_size=60)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_readers_that_are_waited_for_get_all_in_order(steps: list[bytes | int]) -> None:
    """The model is a list of what was accepted, and a place in it for each of three readers."""
    memory, writer = make_ring()
    readers = [RingReader(memory) for _ in range(3)]
    written: list[bytes] = []
    places = [0, 0, 0]
    for step in steps:
        if isinstance(step, bytes):
            floor = min(reader.cursor for reader in readers)
            if writer.write(KIND, step, 1, floor):
                written.append(step)
            else:
                assert writer.head - floor > CAPACITY_MIN // 4, "refused with most of it free"
        else:
            body = readers[step].read(lambda kind, body: (kind, bytes(body)))
            if places[step] == len(written):
                assert body is None
            else:
                assert body == (KIND, written[places[step]])
                places[step] += 1
    for reader, place in zip(readers, places, strict=True):
        assert read_all(reader) == written[place:]
        assert reader.missed == 0


@given(steps)
@settings(max_examples=200, deadline=None)
def test_a_reader_that_is_overtaken_knows_how_much_it_missed(steps: list[bytes | int]) -> None:
    """What it gets is in order, the newest is among it, and the rest is counted exactly."""
    memory, writer = make_ring()
    reader = RingReader(memory)
    written: list[bytes] = []
    got: list[tuple[int, bytes]] = []
    for step in steps:
        if isinstance(step, bytes):
            body = len(written).to_bytes(4, "little") + step * 3
            assert write_whole(writer, body, floor=writer.head)
            written.append(body)
        elif (found := reader.read(lambda kind, body: bytes(body))) is not None:
            got.append((int.from_bytes(found[:4], "little"), found))
    got += [(int.from_bytes(body[:4], "little"), body) for body in read_all(reader)]
    numbers = [number for number, _ in got]
    assert numbers == sorted(set(numbers))
    assert all(written[number] == body for number, body in got)
    assert reader.missed == len(written) - len(got)
    if written:
        assert numbers[-1] == len(written) - 1


def test_a_body_longer_than_the_ring_passes_in_parts() -> None:
    """A message may be 16 MiB, a ring is smaller: whoever waits gets it piece by piece."""
    memory, writer = make_ring()
    reader = RingReader(memory)
    body = os.urandom(5 * CAPACITY_MIN)
    found = []
    for kind, part, count in writer.split(KIND, body, 1):
        assert writer.write(kind, part, count, reader.cursor)
        found += read_all(reader)
    assert found == [body]
    assert reader.missed == 0


def test_one_that_begins_in_the_middle_of_a_body_passes_over_the_rest() -> None:
    """It was not promised that message, so it does not count as missed either."""
    memory, writer = make_ring()
    parts = writer.split(KIND, bytes(2000), 1)
    assert len(parts) > 1
    writer.write(*parts[0], floor=writer.head)
    reader = RingReader(memory, writer.head, writer.messages)
    for part in parts[1:]:
        writer.write(*part, floor=writer.head)
    writer.write(KIND, b"next", 1, writer.head)
    assert read_all(reader) == [b"next"]
    assert reader.missed == 0


@given(st.lists(st.tuples(st.integers(0, CAPACITY_MIN + 63), st.integers(0, 255)), max_size=40))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_and_never_read_past_the_end(scribbles: list[tuple[int, int]]) -> None:
    """Whoever scribbles in a ring makes readers stop with an error, and nothing else."""
    memory, writer = make_ring()
    for size in (10, 700, 0, 300):
        writer.write(KIND, bytes(size), 1, writer.head)
    words = memoryview(memory)
    reader = RingReader(memory)
    for at, value in scribbles:
        if at >= 16:
            words[at] = value
    try:
        for _ in range(CAPACITY_MIN // 8 + 2):
            if reader.read(lambda kind, body: bytes(body)) is None:
                break
        else:
            raise AssertionError("it reads without end")
    except RingError:
        pass


def test_what_is_no_ring_is_refused() -> None:
    """A descriptor may be of anything."""
    fd, memory = make_memory("test", 3000, is_shared_writable=True)
    with pytest.raises(RingError):
        RingReader(memory)
    os.close(fd)
    fd, memory = make_memory("test", ring_bytes(CAPACITY_MIN), is_shared_writable=True)
    with pytest.raises(RingError):
        RingReader(memory)
    os.close(fd)


def test_nobody_but_the_writer_can_write_or_cut_a_ring() -> None:
    """The kernel refuses: an application cannot spoil what others read, nor end them by SIGBUS."""
    fd, _ = make_memory("test", ring_bytes(CAPACITY_MIN), is_shared_writable=False)
    with pytest.raises(PermissionError):
        os.write(fd, b"x")
    with pytest.raises(RingError):
        map_memory(fd, is_writable=True)
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert len(map_memory(fd, is_writable=False)) == ring_bytes(CAPACITY_MIN)
    os.close(fd)


def test_memory_that_others_could_cut_is_not_mapped() -> None:
    """An application would die by SIGBUS when whoever has it shortens the file."""
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, ring_bytes(CAPACITY_MIN))
    with pytest.raises(RingError, match="size may change"):
        map_memory(fd, is_writable=False)
    os.close(fd)


def test_a_cursor_is_believed_only_where_it_can_be() -> None:
    """It neither goes back nor past what was written."""
    assert clamp_cursor(5, 10, 20) == 10
    assert clamp_cursor(15, 10, 20) == 15
    assert clamp_cursor(2**64 - 1, 10, 20) == 20


def test_a_record_that_is_overwritten_while_it_is_read_does_not_count() -> None:
    """The writer of another process may overtake at any moment: here, in the middle of a read."""
    memory, writer = make_ring()
    reader = RingReader(memory)
    writer.write(KIND, b"first", 1, writer.head)
    overtaken = []

    def take(kind: int, body: memoryview) -> bytes:
        if not overtaken:
            overtaken.append(bytes(body))
            while writer.tail <= reader.cursor:
                writer.write(KIND, bytes(500), 1, writer.head)
            writer.write(KIND, b"last", 1, writer.head)
        return bytes(body)

    found = []
    while (body := reader.read(take)) is not None:
        found.append(body)
    assert overtaken == [b"first"]
    assert found[0] == bytes(500)
    assert found[-1] == b"last"
    assert len(found) + reader.missed == writer.messages


def test_garbage_that_is_overwritten_while_it_is_read_is_no_error() -> None:
    """What cannot be parsed was torn, not damaged."""
    memory, writer = make_ring()
    reader = RingReader(memory)
    writer.write(KIND, b"first", 1, writer.head)

    def take(kind: int, body: memoryview) -> bytes:
        if writer.messages == 1:
            while writer.tail <= reader.cursor:
                writer.write(KIND, bytes(500), 1, writer.head)
            raise ValueError("torn")
        return bytes(body)

    assert reader.read(take) == bytes(500)
