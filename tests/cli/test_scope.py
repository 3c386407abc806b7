"""``quicksilver scope``: managers as processes, as a user starts and ends them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quicksilver import sync
from quicksilver.membership.store import SqliteStore
from quicksilver.net.frames import FrameDecoder, encode_frame
from quicksilver.scopes.management import messages as say
from quicksilver.wire import gms
from tests.cli.processes import check_one_line, read_event, run, running, running_gms

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


def read_rows(*arguments: str) -> list[dict[str, Any]]:
    """Return what a command prints as JSON."""
    return [json.loads(line) for line in run("scope", *arguments, "--json").stdout.splitlines()]


@pytest.mark.slow
def test_a_tree_shows_scopes_and_nodes_and_who_does_not_answer() -> None:
    """From any manager down; a program gets the same as JSON."""
    with (
        managing("campus") as (campus, _),
        managing("campus/lan1", "--owner", campus, "--policy", "tree:2") as (lan1, _),
        sync.connect(lan1, name="a", interface="lo") as a,
        sync.connect(lan1, name="b", interface="lo") as b,
    ):
        a.join("campus/news")
        b.join("campus/news")
        talk, _ = register(lan1, "campus/lan1/mute")  # there is no manager where it says
        lines = run("scope", "tree", "--manager", campus).stdout.splitlines()
        assert lines[0] == f"campus  scope at {campus}, 1 member, 1 topic"
        assert lines[1] == f"└─ campus/lan1  scope at {lan1}, 3 members, 1 topic"
        assert lines[2].startswith("   ├─ campus/lan1/a  node at 127.0.0.1:")
        assert lines[4] == "   └─ campus/lan1/mute  127.0.0.1:1: connection refused"
        below = run("scope", "tree", "--manager", lan1).stdout
        assert f"   owned by campus at {campus}, connected\n" in below
        rows = read_rows("tree", "--manager", campus)
        assert [(row["depth"], row["name"]) for row in rows] == [
            (0, "campus"),
            (1, "campus/lan1"),
            (2, "campus/lan1/a"),
            (2, "campus/lan1/b"),
            (2, "campus/lan1/mute"),
        ]
        assert rows[4]["problem"] == "connection refused"

        explained = run("scope", "explain", "campus/news", "--manager", campus).stdout
        assert "policy tree:2" in explained
        assert "channel campus/lan1/a-campus/lan1/b, campus/news:campus/lan1/a" in explained
        assert "(tree:2)" in explained
        assert "(node at" not in explained
        rows = read_rows("explain", "campus/news", "--manager", campus)
        ends = [row for row in rows if row["event"] == "source" and row["scope"] == "campus/lan1/a"]
        assert [row["facts"]["state"] for row in ends] == ["open"]
        talk.close()


@pytest.mark.slow
def test_mistakes_in_looking_are_one_line_each() -> None:
    """A wrong address, a wrong name, a topic that nobody has, a GMS in place of a manager."""
    with managing("campus") as (campus, _), running_gms() as gms_address:
        for arguments, code, words in (
            (("tree", "--manager", "127.0.0.1:1"), 1, "(connection refused); start one with"),
            (("tree", "--manager", "here"), 2, "'here' is not an address"),
            (("tree", "--manager", gms_address), 1, "no scope manager at"),
            (("explain", "news", "--manager", campus), 2, "names no scope"),
            (("explain", "campus/x", "--manager", campus), 1, "nobody in 'campus' or below"),
        ):
            check_one_line(run("scope", *arguments), code, words)


@pytest.mark.slow
def test_the_network_of_a_gms_is_put_under_a_scope_and_its_nodes_do_not_change() -> None:
    """A topic is a group of that name there: messages cross both ways, once and in order."""
    count = 200
    with (
        managing("campus") as (campus, _),
        running_gms() as old,
        managing("campus/old", "--owner", campus, "--gms", old) as (_, process),
        sync.connect(old, interface="lo") as inside,
        sync.connect(campus, name="new", interface="lo") as outside,
    ):
        assert read_event(process)["event"] == "gateway"
        groups = [inside.join("campus/news"), outside.join("campus/news")]
        groups[0].wait_members(2, timeout=20)  # the gateway has joined as well
        for sender, receiver in (groups, groups[::-1]):
            for number in range(count):
                sender.send(b"%d" % number)
            found: list[bytes] = []
            while len(found) < count:
                found += receiver.receive_batch(timeout=20).payloads
            assert found == [b"%d" % number for number in range(count)]


@pytest.mark.slow
def test_a_gateway_without_a_gms_or_a_manager_says_so_in_one_line() -> None:
    """And a manager whose gateway cannot work does not go on alone."""
    with managing("campus") as (campus, _):
        nobody = "127.0.0.1:1"
        outcome = run("scope", "gateway", "--gms", nobody, "--manager", campus)
        check_one_line(outcome, 1, f"no GMS at {nobody}")
