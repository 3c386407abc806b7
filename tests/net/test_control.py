"""The node's stream to its GMS, against a plain socket server."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from quicksilver.core.ports import ControlClosed, ControlEvent, ControlFrame, ControlOpened
from quicksilver.net.control import ControlStream
from quicksilver.net.frames import encode_frame

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


def take(stream: ControlStream, kind: type[ControlEvent], what: str = "") -> ControlEvent:
    """Wait for the next event, which is of a kind and says something."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        event = stream.poll_event(time.monotonic())
        if event is not None:
            assert isinstance(event, kind)
            assert what in str(event)
            return event
        time.sleep(0.005)
    raise AssertionError(f"no {kind.__name__}; last error: {stream.last_error!r}")


def test_frames_cross_in_both_directions_and_it_reconnects(server: socket.socket) -> None:
    """Whole frames, however the bytes are cut; a lost connection is made again."""
    stream = ControlStream(server.getsockname())
    take(stream, ControlOpened)
    peer, _ = server.accept()
    stream.send(b"hello")
    assert stream.poll_event(time.monotonic()) is None
    assert peer.recv(100) == encode_frame(b"hello")
    data = encode_frame(b"one") + encode_frame(b"two")
    peer.sendall(data[:5])
    time.sleep(0.02)
    assert stream.poll_event(time.monotonic()) is None
    peer.sendall(data[5:])
    assert take(stream, ControlFrame) == ControlFrame(b"one")
    assert take(stream, ControlFrame) == ControlFrame(b"two")
    peer.close()
    take(stream, ControlClosed, "closed the connection")
    take(stream, ControlOpened)
    stream.close()


def test_frames_come_before_the_end_of_their_connection(server: socket.socket) -> None:
    """What the GMS said last is heard."""
    stream = ControlStream(server.getsockname())
    take(stream, ControlOpened)
    peer, _ = server.accept()
    peer.sendall(encode_frame(b"last"))
    peer.close()
    time.sleep(0.02)
    assert take(stream, ControlFrame) == ControlFrame(b"last")
    take(stream, ControlClosed)
    stream.close()


def test_a_refused_connection_says_so_and_waits_longer_each_time() -> None:
    """Nobody is there: no hurry."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    stream = ControlStream(address)
    take(stream, ControlClosed, "refused")
    first = stream.next_timeout()
    assert first is not None
    take(stream, ControlClosed, "refused")
    second = stream.next_timeout()
    assert second is not None
    assert second - first > 0.05


def test_it_says_what_it_waits_for() -> None:
    """Whoever looks at a node that is not served wants to know."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host, port = gone.getsockname()
    stream = ControlStream((host, port))
    take(stream, ControlClosed, "refused")
    assert stream.waits_for.startswith(f"the GMS at {host}:{port} (connection refused), next ")


@pytest.mark.parametrize("timeout_s", [0.5, 3.0, 60.0])
def test_an_attempt_and_its_pause_take_no_longer_than_the_failure_timeout(
    timeout_s: float,
) -> None:
    """Nobody answers: how long may it take until the next attempt, at most?"""
    # An address of a network that does not exist: packets go nowhere.
    now = 100.0
    stream = ControlStream(("192.0.2.1", 9))
    stream.set_failure_timeout(timeout_s)
    begun = []
    for _ in range(12):
        while stream._socket is None and stream.poll_event(now) is None:
            now += 0.001
        begun.append(now)
        while stream._socket is not None:
            now += 0.01
            stream.poll_event(now)
    gaps = [after - before for before, after in pairwise(begun)]
    assert max(gaps) <= min(timeout_s, 6.1)
    stream.close()


def test_a_dead_connection_is_abandoned_and_made_anew(server: socket.socket) -> None:
    """The kernel thinks that all is well."""
    stream = ControlStream(server.getsockname())
    take(stream, ControlOpened)
    peer, _ = server.accept()
    stream.abandon("the GMS said nothing", time.monotonic())
    assert not stream.is_connected
    take(stream, ControlClosed, "said nothing")
    take(stream, ControlOpened)
    peer.close()
    stream.close()


def test_a_declared_length_out_of_bounds_ends_the_connection(server: socket.socket) -> None:
    """Any byte string from the network is survived."""
    stream = ControlStream(server.getsockname())
    take(stream, ControlOpened)
    peer, _ = server.accept()
    peer.sendall(b"\xff\xff\xff\xff nonsense")
    take(stream, ControlClosed, "nonsense")
    peer.close()
    stream.close()
