"""Waiting for descriptors, and being woken."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from quicksilver.net.poller import Poller, Waker


@pytest.fixture(params=["eventfd", "pipe"])
def waker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Waker]:
    """A waker of each kind."""
    if request.param == "pipe":
        monkeypatch.delattr(os, "eventfd", raising=False)
    elif not hasattr(os, "eventfd"):
        pytest.skip("no eventfd on this system")
    with closing(Waker()) as made:
        yield made


@pytest.fixture
def poller() -> Iterator[Poller]:
    with closing(Poller()) as made:
        yield made


def test_a_wake_makes_the_descriptor_ready_until_cleared(waker: Waker, poller: Poller) -> None:
    """Wakes are a level, not an edge: none is lost between two waits."""
    poller.register(waker.fileno())
    assert poller.wait(0) == set()
    waker.wake()
    waker.wake()
    assert poller.wait(0) == {waker.fileno()}
    assert poller.wait(0) == {waker.fileno()}
    waker.clear()
    assert poller.wait(0) == set()


def test_a_wake_from_another_thread_ends_a_wait(waker: Waker, poller: Poller) -> None:
    """This is how application threads reach the core."""
    poller.register(waker.fileno())
    thread = threading.Thread(target=waker.wake)
    thread.start()
    assert poller.wait(10) == {waker.fileno()}
    thread.join()


def test_countless_wakes_neither_block_nor_raise(waker: Waker) -> None:
    """An application may post faster than the core clears; a pipe then is full."""
    for _ in range(70_000):
        waker.wake()
    waker.clear()


def test_waking_after_close_does_nothing(waker: Waker) -> None:
    """A request may race with the end of the core; the number may be another file's."""
    waker.close()
    others = [os.pipe() for _ in range(2)]
    try:
        waker.wake()
        for read_fd, _ in others:
            os.set_blocking(read_fd, False)
            with pytest.raises(BlockingIOError):
                os.read(read_fd, 1)
    finally:
        for fd in [fd for pair in others for fd in pair]:
            os.close(fd)


def test_writability_is_reported_only_when_asked_for(poller: Poller) -> None:
    """An idle socket is always writable: the core would spin."""
    read_fd, write_fd = os.pipe()
    try:
        poller.register(write_fd, readable=True)
        assert poller.wait(0) == set()
        poller.register(write_fd, readable=False, writable=True)
        assert poller.wait(0) == {write_fd}
        poller.register(write_fd, readable=False)
        assert poller.wait(0) == set()
        poller.unregister(write_fd)
    finally:
        os.close(read_fd)
        os.close(write_fd)


def test_a_descriptor_number_used_again_is_watched(poller: Poller) -> None:
    """Sockets come and go with memberships, and the system reuses their numbers."""
    read_fd, write_fd = os.pipe()
    poller.register(read_fd)
    os.close(read_fd)
    os.close(write_fd)
    again = os.pipe()
    try:
        assert again == (read_fd, write_fd)
        poller.register(read_fd)
        os.write(write_fd, b"x")
        assert poller.wait(0) == {read_fd}
    finally:
        os.close(again[0])
        os.close(again[1])
