"""A node with a hostile name and a hostile payload, seen by every command that shows others."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from quicksilver.node import sync
from tests.cli.processes import COMMAND, read_event, run, running, running_gms

pytestmark = pytest.mark.integration

NAME = "x[/oops]"
"""The GMS refuses names with control characters, and nothing else."""
PAYLOAD = b"[/b] \x1b]0;owned\x07 \x1b[31m\r\n\xc2\x9b2J"
GROUP = "g[/x]"


@pytest.fixture
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def is_tame(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def on_terminal(*arguments: str, until: str, columns: int = 80) -> tuple[str, int]:
    """Run a command on a terminal until it shows something; returns all of it and its exit code."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    watchdog = threading.Timer(30, process.kill)
    watchdog.start()
    shown = b""
    try:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:
                break
            if not data:
                break
            had = until.encode() in shown
            shown += data
            if until.encode() in shown and not had:
                process.send_signal(signal.SIGTERM)
        return shown.decode(errors="replace"), process.wait(10)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        os.close(ours)


def test_top_shows_the_name_and_lives(gms: str) -> None:
    """Any node could crash everybody's `top`."""
    with sync.connect(gms, name=NAME, interface="lo") as node:
        node.join(GROUP)
        outcome = run("top", "--once", "--interval", "0.2", "--gms", gms)
        assert outcome.returncode == 0, outcome.stderr
        assert NAME in outcome.stdout
        assert is_tame(outcome.stdout)
        shown, code = on_terminal("top", "--interval", "0.2", "--gms", gms, until="x[/oops]")
    assert code == 143
    assert "Traceback" not in shown
    # At 80 columns the state is there, whole.
    assert "state" in shown
    assert "ok" in shown


def test_sub_shows_payloads_and_obeys_none(gms: str) -> None:
    """A sender's escape sequences are shown, one line for each message."""
    with running("sub", GROUP, "-n", "1", "--views", "--gms", gms) as sub:
        assert sub.stderr is not None
        assert sub.stderr.readline().startswith("quicksilver: ready: node 1 has joined")
        with sync.connect(gms, name=NAME, interface="lo") as node:
            group = node.open(GROUP)
            group.wait_members(1, 20)
            group.send(PAYLOAD)
            node.flush(20)
            out, err = sub.communicate(timeout=20)
    assert is_tame(out), out
    assert is_tame(err), err
    assert rf"{GROUP} 2#0 [/b] \x1b]0;owned\x07 \x1b[31m\r\n\x9b2J" in out.splitlines()


def test_sub_gives_programs_the_bytes_that_were_sent(gms: str) -> None:
    """Text and bytes that are no text are told apart, and both are read back."""
    payloads = [PAYLOAD, b"\xff\x00", base64.b64encode(b"\xff\x00")]
    with running("sub", GROUP, "-n", "3", "--json", "--gms", gms) as sub:
        assert read_event(sub)["event"] == "ready"
        with sync.connect(gms, interface="lo") as node:
            group = node.open(GROUP)
            group.wait_members(1, 20)
            for payload in payloads:
                group.send(payload)
            node.flush(20)
        messages = [read_event(sub) for _ in payloads]
        assert sub.wait(20) == 0
    assert {message["event"] for message in messages} == {"message"}
    assert [decode(message) for message in messages] == payloads


def decode(message: dict[str, Any]) -> bytes:
    text = str(message["payload"])
    return base64.b64decode(text) if message["encoding"] == "base64" else text.encode()


def test_up_and_pub_and_record_show_names_escaped(gms: str, tmp_path: Any) -> None:
    """A cluster that gets the payload, a publisher and a recorder of a group with such a name."""
    pytest.importorskip("pyarrow")
    group = "h[/x]"
    with (
        running("up", "-n", "1", "--groups", group, "--gms", gms) as cluster,
        running("record", group, "--path", str(tmp_path), "--gms", gms) as recorder,
    ):
        assert cluster.stdout is not None
        assert recorder.stderr is not None
        seen = cluster.stdout.readline()
        while "is node" not in seen:
            seen = cluster.stdout.readline()
        assert f"recording {group} into" in recorder.stderr.readline()
        sent = run("pub", group, "--gms", gms, given="\x1b[2J[/b]\n")
        assert sent.returncode == 0, sent.stderr
        assert is_tame(sent.stderr)
        while "the last:" not in seen:
            seen = cluster.stdout.readline()
        assert is_tame(seen), seen
        assert r"\x1b[2J[/b]" in seen
        recorder.send_signal(signal.SIGTERM)
        out, err = recorder.communicate(timeout=20)
        assert recorder.returncode == 143
    assert is_tame(out + err)
    assert f"{group}: 1 message" in out


def test_doctor_names_the_extra() -> None:
    """Its table swallowed what stands in brackets."""
    from quicksilver.cli import doctor
    from quicksilver.net.diagnosis import Finding

    outcome = run("doctor", "--json")
    assert json.loads(outcome.stdout)["event"] == "diagnosis"
    found = doctor.render([Finding("spark", False, "no", "pip install 'a[spark]'")])
    assert [cell.plain for cell in found.columns[3].cells] == ["pip install 'a[spark]'"]  # type: ignore[union-attr]  # cells are texts
