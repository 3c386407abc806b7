"""``quicksilver scope``: managers as processes, as a user starts and ends them."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quicksilver.membership.store import SqliteStore
from quicksilver.net.frames import FrameDecoder, encode_frame
from quicksilver.scopes.management import messages as say
from quicksilver.wire import gms
from tests.cli.processes import check_one_line, read_event, run, running

pytestmark = pytest.mark.integration


@contextmanager
def managing(name: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Keep the manager of a scope running on a free port; yields its address."""
    listen = ("--listen", "127.0.0.1:0") if "--listen" not in arguments else ()
    with running("scope", "run", "--name", name, *listen, "--json", *arguments) as process:
        yield str(read_event(process)["address"]), process


class Talk:
    """Somebody who speaks the managers' protocol by hand."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._decoder = FrameDecoder(1 << 20)

    def say(self, frame: bytes) -> None:
        self._socket.sendall(encode_frame(frame))

    def hear(self) -> bytes:
        while (frame := self._decoder.next_frame()) is None:
            data = self._socket.recv(65536)
            assert data, "the manager has hung up"
            self._decoder.push(data)
        return frame

    def is_over(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


def register(address: str, name: str) -> tuple[Talk, say.Message | None]:
    talk = Talk(address)
    message = say.Register(say.PROTOCOL_VERSION, name, "127.0.0.1:1", is_member=True, grace_s=1.0)
    talk.say(say.encode(message))
    return talk, say.parse(talk.hear())


@pytest.mark.slow
def test_a_manager_says_where_it_listens_and_ends_with_the_signals_number() -> None:
    """Both forms of the command: the second is how the papers' readers write it."""
    for words in (("scope", "run"), ("scope",)):
        with running(*words, "--name", "campus", "--listen", "127.0.0.1:0") as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("scope campus ready at 127.0.0.1:")
            assert line.endswith(", no owner, policy star, recovery none, state in memory\n")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=10) == 143


@pytest.mark.slow
def test_a_scope_becomes_a_member_of_its_owner() -> None:
    """And its own members are told of both."""
    with (
        managing("campus") as (owner, _),
        managing("campus/lan1", "--owner", owner, "--policy", "tree:2", "-v") as (address, lan),
    ):
        assert lan.stderr is not None
        while "member of campus" not in lan.stderr.readline():
            pass
        talk, answer = register(address, "campus/lan1/a")
        assert answer == say.Registered("campus/lan1", ("campus",))
        talk.close()


@pytest.mark.slow
def test_a_manager_that_was_killed_goes_on_with_new_numbers(tmp_path: Path) -> None:
    """A number that was told is not told again."""
    state = str(tmp_path / "campus.db")
    domains = []
    for _ in range(2):
        with managing("campus", "--state", state, "--recovery", "ring") as (address, process):
            talk, _ = register(address, "campus/a")
            talk.say(say.encode(say.Subscribe("campus/x", 0, publishes=True, subscribes=True)))
            while not isinstance(heard := say.parse(talk.hear()), say.PostAgent):
                pass
            domains.append((heard.post.domain.number, heard.post.view))
            process.kill()
            talk.close()
    assert domains[0][1] < domains[1][1]


@pytest.mark.slow
def test_a_node_that_takes_a_manager_for_a_gms_is_told_in_its_own_language() -> None:
    """Before that the node waited for an answer until it gave up."""
    with managing("campus") as (address, _):
        talk = Talk(address)
        talk.say(gms.encode(gms.Hello(gms.PROTOCOL_VERSION, "n", "127.0.0.1", 5, 1 << 20)))
        answer = gms.parse_reply(talk.hear())
        assert answer == gms.Refused(
            "this is the manager of the scope 'campus', not a GMS", "campus"
        )
        assert talk.is_over()
        talk.close()


@pytest.mark.slow
def test_mistakes_are_one_line_each(tmp_path: Path) -> None:
    """What happened, and what to do next."""
    state = tmp_path / "gms.db"
    SqliteStore(state).close()
    for arguments, code, words in (
        (("--name", "lan-1"), 2, "has '-', which no scope's name can have"),
        (("--name", "a", "--policy", "tre:3"), 2, "there is no policy 'tre:3'; there are star"),
        (("--name", "a", "--listen", "7501"), 2, "write HOST:PORT"),
        (("--name", "a", "--owner", "here"), 2, "'here' is not an address: write HOST:PORT"),
        (("--name", "a", "--recovery", "rings"), 2, "there is no recovery protocol 'rings'"),
        (("--name", "a", "--policy", "multicast"), 2, "needs --multicast"),
        (("--name", "a", "--multicast", "10.0.0.0/8:1"), 2, "is not multicast"),
        (("--name", "a", "--listen", "192.0.2.1:0"), 1, "does not have that address"),
        (("--name", "a", "--state", str(state)), 1, "this scope manager reads 1001"),
    ):
        check_one_line(run("scope", "run", *arguments), code, words)
