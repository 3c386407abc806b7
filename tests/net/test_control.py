"""The node's stream to its GMS, against a plain socket server."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from quicksilver.net.control import ControlStream
from quicksilver.net.streams import encode_frame

pytestmark = pytest.mark.integration


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


def advance_until(stream: ControlStream, expected: str) -> None:
    """Advance until the stream says a word that contains ``expected``."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        word = stream.advance(time.monotonic())
        if word is not None and expected in word:
            return
        time.sleep(0.005)
    raise AssertionError(f"{expected!r} was not said; last error: {stream.last_error!r}")


def test_frames_cross_in_both_directions_and_it_reconnects(server: socket.socket) -> None:
    """Whole frames, however the bytes are cut; a lost connection is made again."""
    stream = ControlStream(server.getsockname())
    advance_until(stream, "opened")
    peer, _ = server.accept()
    stream.send(b"hello")
    stream.advance(time.monotonic())
    assert peer.recv(100) == encode_frame(b"hello")
    data = encode_frame(b"one") + encode_frame(b"two")
    peer.sendall(data[:5])
    time.sleep(0.02)
    stream.advance(time.monotonic())
    peer.sendall(data[5:])
    time.sleep(0.02)
    stream.advance(time.monotonic())
    assert [stream.poll_frame(), stream.poll_frame(), stream.poll_frame()] == [b"one", b"two", None]
    peer.close()
    advance_until(stream, "closed the connection")
    advance_until(stream, "opened")
    stream.close()


def test_a_refused_connection_says_so_and_waits_longer_each_time() -> None:
    """Nobody is there: no hurry."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()
    stream = ControlStream(address)
    advance_until(stream, "refused")
    first = stream.next_timeout()
    assert first is not None
    advance_until(stream, "refused")
    second = stream.next_timeout()
    assert second is not None
    assert second - first > 0.05


def test_a_declared_length_out_of_bounds_ends_the_connection(server: socket.socket) -> None:
    """Any byte string from the network is survived."""
    stream = ControlStream(server.getsockname())
    advance_until(stream, "opened")
    peer, _ = server.accept()
    peer.sendall(b"\xff\xff\xff\xff nonsense")
    advance_until(stream, "nonsense")
    peer.close()
    stream.close()
