"""Commands that wait say at once what for."""

from __future__ import annotations

import socket
import threading

import pytest

from quicksilver.cli.waiting import describe_wait, saying
from quicksilver.net.frames import encode_frame
from tests.cli.processes import running, running_gms
from tests.node.managers import managing


def test_what_is_over_in_a_moment_is_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with saying(lambda: "for Godot", after_s=3600):
        pass
    assert capsys.readouterr().err == ""


def test_what_takes_longer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = threading.Event()

    def what() -> str:
        asked.set()
        return "waiting for Godot"

    with saying(what, after_s=0):
        assert asked.wait(20)
        # The line is printed under a lock that the end of the block takes, too.
        while not (shown := capsys.readouterr().err):
            pass
    assert shown == "quicksilver: waiting for Godot\n"


def test_a_block_that_has_ended_is_not_talked_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Finding out what it waits for may take a while."""
    asked, go = threading.Event(), threading.Event()

    def what() -> str:
        asked.set()
        go.wait(20)
        return "too late"

    with saying(what, after_s=0):
        assert asked.wait(20)
    go.set()
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(20)
    assert capsys.readouterr().err == ""


def test_why_a_gms_does_not_answer_is_part_of_it() -> None:
    assert describe_wait("127.0.0.1:1") == (
        "no GMS answers at 127.0.0.1:1 (Connection refused); trying again"
    )
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        assert describe_wait(address) == f"waiting for the GMS at {address}"


@pytest.mark.integration
def test_a_gms_and_the_manager_of_a_scope_are_told_apart() -> None:
    """Both take a node at their address; only one of the two is waited for."""
    with running_gms() as gms:
        assert describe_wait(gms) == f"waiting for the GMS at {gms}"
    with managing("campus/library") as address:
        expected = f"waiting for the manager of scope 'campus/library' at {address}"
        assert describe_wait(address) == expected


@pytest.mark.parametrize("answer", [b"", b"\xff" * 64, encode_frame(b"\xc1")])
def test_what_answers_with_nonsense_is_what_was_asked_for(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            with server.accept()[0] as stream:
                stream.recv(1 << 10)
                stream.sendall(answer)

        thread = threading.Thread(target=talk)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert describe_wait(address) == f"waiting for the GMS at {address}"
        thread.join(20)


@pytest.mark.integration
@pytest.mark.parametrize(
    "command", [("pub", "a", "-n", "1"), ("sub", "a")], ids=lambda command: command[0]
)
def test_a_refused_gms_is_named_before_it_is_given_up(command: tuple[str, ...]) -> None:
    """It takes ten seconds to give up; nobody should wonder meanwhile."""
    with running(*command, "--gms", "127.0.0.1:1") as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert process.poll() is None, "it was said at the end only"
    assert line.startswith("quicksilver: no GMS answers at 127.0.0.1:1 (Connection refused)")


@pytest.mark.integration
def test_a_group_that_nobody_joined_is_named_before_pub_gives_up() -> None:
    """Most often the name is mistyped."""
    with running_gms() as gms, running("pub", "prcies", "-n", "1", "--gms", gms) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert process.poll() is None
    assert line.startswith("quicksilver: nobody has joined 'prcies'; waiting 30 s")
