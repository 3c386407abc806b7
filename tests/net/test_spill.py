"""A file for packets that no longer fit into memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest

from quicksilver.net.spill import SpillFile

Completions = Queue[Callable[[], None]]


@pytest.fixture
def completions() -> Completions:
    return Queue()


@pytest.fixture
def spill(tmp_path: Path, completions: Completions) -> Iterator[SpillFile]:
    file = SpillFile(
        folder=str(tmp_path), bytes_max=4500, packet_bytes=1000, submit_disk=completions.put
    )
    yield file
    file.close()


def write(spill: SpillFile, completions: Completions, packet: bytes) -> int | None:
    places: list[int | None] = []
    spill.write(packet, places.append)
    assert places == [], "told later, by the core"
    completions.get(timeout=10)()
    (place,) = places
    return place


def test_what_is_written_can_be_read(spill: SpillFile, completions: Completions) -> None:
    packets = [bytes([n]) * (900 + n) for n in range(4)]
    places = [write(spill, completions, packet) for packet in packets]
    assert [spill.read(place) for place in places if place is not None] == packets


def test_places_are_used_again(spill: SpillFile, completions: Completions) -> None:
    """The file never holds more than it may."""
    places = [write(spill, completions, bytes(1000)) for _ in range(5)]
    assert places[4] is None
    assert places[1] is not None
    spill.free(places[1])
    assert write(spill, completions, b"new") == places[1]
    assert spill.read(places[1]) == b"new"


def test_the_file_has_no_name(spill: SpillFile, completions: Completions, tmp_path: Path) -> None:
    """It is gone with the process, however that ends."""
    assert write(spill, completions, b"secret") == 0
    assert list(tmp_path.iterdir()) == []


def test_without_a_disk_nothing_is_kept_and_one_line_says_so(
    completions: Completions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spill = SpillFile(
        folder=str(tmp_path / "none"),
        bytes_max=9000,
        packet_bytes=1000,
        submit_disk=completions.put,
    )
    with caplog.at_level(logging.WARNING):
        assert [write(spill, completions, b"a") for _ in range(3)] == [None] * 3
    spill.close()
    assert len(caplog.records) == 1
    assert "no more packets are kept on disk" in caplog.text


def test_a_closed_one_leaves_no_thread(spill: SpillFile, completions: Completions) -> None:
    assert write(spill, completions, b"a") == 0
    spill.close()
    assert "quicksilver-spill" not in [thread.name for thread in threading.enumerate()]


def test_closing_does_not_wait_for_packets_that_nobody_will_read(
    spill: SpillFile, completions: Completions, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    may_go_on = threading.Event()

    def write_slowly(_file: int, packet: bytes, _at: int) -> int:
        written.append(len(packet))
        may_go_on.wait(10)
        return len(packet)

    monkeypatch.setattr("quicksilver.net.spill.os.pwrite", write_slowly)
    for _ in range(4):
        spill.write(bytes(1000), lambda _: None)
    while not written:
        threading.Event().wait(0.001)
    closing = threading.Thread(target=spill.close)
    closing.start()
    while spill._work.qsize() < 4:
        threading.Event().wait(0.001)
    may_go_on.set()
    closing.join(10)
    assert written == [1000], "the others are not written"
