"""A relay carries bytes both ways, holds them while it is cut, and loses none."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from quicksilver.lab.local_gms import Relay, Relays

WAIT_S = 10.0
SILENT_S = 0.2


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        yield listening


@pytest.fixture
def relay(server: socket.socket) -> Iterator[Relay]:
    with Relays(server.getsockname()) as relays:
        yield relays.add()


def connect(relay: Relay) -> socket.socket:
    host, _, port = relay.address.rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_S)


def is_silent(end: socket.socket) -> bool:
    end.settimeout(SILENT_S)
    try:
        end.recv(1)
    except TimeoutError:
        return True
    finally:
        end.settimeout(WAIT_S)
    return False


def test_bytes_pass_both_ways_and_an_end_is_passed_on(server: socket.socket, relay: Relay) -> None:
    with connect(relay) as here, closing(server.accept()[0]) as there:
        here.sendall(b"question")
        assert there.recv(100) == b"question"
        there.sendall(b"answer")
        assert here.recv(100) == b"answer"
        there.close()
        assert here.recv(100) == b""


@pytest.mark.slow
def test_a_cut_holds_bytes_without_closing_and_mending_lets_them_pass(
    server: socket.socket, relay: Relay
) -> None:
    """As a pulled cable does: neither end sees anything but silence."""
    with connect(relay) as here, closing(server.accept()[0]) as there:
        here.sendall(b"a")
        assert there.recv(1) == b"a"
        relay.cut()
        here.sendall(b"b")
        there.sendall(b"c")
        assert is_silent(there)
        assert is_silent(here)
        relay.mend()
        assert there.recv(1) == b"b"
        assert here.recv(1) == b"c"


def test_nobody_there_is_a_closed_connection(server: socket.socket) -> None:
    """A GMS that is down refuses; so does the way to it."""
    target = server.getsockname()
    server.close()
    with Relays(target) as relays, connect(relays.add()) as here:
        assert here.recv(1) == b""
