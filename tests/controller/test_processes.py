"""Real processes: a controller, three applications, a publisher; frozen, killed, restarted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import read_event, running, running_gms
from tests.node.service import connect_sync

pytestmark = [pytest.mark.integration, pytest.mark.slow]

GROUP = "prices"
ROOT = Path(__file__).parents[2]


class App:
    """An application in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def report(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("report\n")
        self.process.stdin.flush()
        return read_event(self.process)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def wait_for(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        until = time.monotonic() + 20
        while not is_so(found := self.report()):
            assert time.monotonic() < until, found
            time.sleep(0.02)
        return found


@contextmanager
def application(path: str, overflow: str = "block") -> Iterator[App]:
    spec = json.dumps({"path": path, "group": GROUP, "overflow": overflow})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.controller.program", spec],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert read_event(process)["event"] == "ready"
        yield App(process)
    finally:
        process.kill()
        process.communicate()


class Cluster:
    """A GMS, a controller, applications behind it, and a publisher on another node."""

    def __init__(self, stack: ExitStack, path: str, overflows: list[str]) -> None:
        self.gms = stack.enter_context(running_gms())
        self.controller = stack.enter_context(self.serve(path))
        self.apps = [stack.enter_context(application(path, each)) for each in overflows]
        self.node = stack.enter_context(connect_sync(self.gms))
        self.publisher = self.node.open(GROUP)
        self.publisher.wait_members(1)
        self.sent = 0

    @contextmanager
    def serve(self, path: str) -> Iterator[subprocess.Popen[str]]:
        arguments = ("--path", path, "--gms", self.gms, "--interface", "lo", "--json")
        limits = ("--ring-bytes", "64KiB", "--failure-timeout", "1")
        with running("controller", *arguments, *limits) as process:
            assert read_event(process)["event"] == "ready"
            yield process

    def publish(self, count: int) -> None:
        for number in range(self.sent, self.sent + count):
            self.publisher.send(number.to_bytes(8, "little") * 125)
        self.sent += count


@contextmanager
def cluster(tmp_path: Path, *overflows: str) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack, str(tmp_path / "controller"), list(overflows or ("block",) * 3))


def has(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found["count"] == count and found["is_in_order"]


def test_three_applications_get_everything(tmp_path: Path) -> None:
    """In processes of their own, through memory that none of them shares with a thread."""
    with cluster(tmp_path) as all_:
        all_.publish(20_000)
        for app in all_.apps:
            assert app.wait_for(has(20_000))["dropped"] == 0


def test_an_application_that_is_killed_blocks_nobody(tmp_path: Path) -> None:
    """Its socket closes with it, whatever it had not read."""
    with cluster(tmp_path) as all_:
        all_.publish(2_000)
        all_.apps[0].signal(signal.SIGSTOP)  # so that it has messages left to read
        all_.publish(500)
        all_.apps[0].signal(signal.SIGKILL)
        all_.publish(2_000)
        for app in all_.apps[1:]:
            app.wait_for(has(all_.sent))
        all_.node.flush(10)


def test_a_frozen_application_that_is_waited_for_is_cut_off(tmp_path: Path) -> None:
    """It holds the machine up until it has not answered for the failure timeout, and is told."""
    with cluster(tmp_path) as all_:
        all_.publish(100)
        all_.apps[0].wait_for(has(100))
        all_.apps[0].signal(signal.SIGSTOP)
        all_.publish(3_000)
        for app in all_.apps[1:]:
            app.wait_for(has(all_.sent))
        all_.apps[0].signal(signal.SIGCONT)
        found = all_.apps[0].wait_for(lambda found: bool(found["error"]))
        assert "held others up" in found["error"]
        assert found["is_in_order"]
        assert found["count"] < all_.sent
        assert found["dropped"] == 0, "it was given messages after a gap"


def test_a_frozen_application_that_drops_is_overtaken(tmp_path: Path) -> None:
    """Nobody waits for it. When it goes on it knows exactly how much it has missed."""
    with cluster(tmp_path, "drop_oldest", "block", "block") as all_:
        all_.publish(100)
        all_.apps[0].wait_for(has(100))
        all_.apps[0].signal(signal.SIGSTOP)
        all_.publish(3_000)
        for app in all_.apps[1:]:
            app.wait_for(has(all_.sent))
        all_.apps[0].signal(signal.SIGCONT)
        all_.publish(10)
        found = all_.apps[0].wait_for(lambda found: found["count"] + found["dropped"] == all_.sent)
        assert found["is_in_order"]
        assert found["dropped"] > 2_000
        assert not found["error"]


def test_applications_notice_a_killed_controller_and_connect_again(tmp_path: Path) -> None:
    """What it had written is still theirs; then they are told, and a new one serves them."""
    with cluster(tmp_path) as all_:
        all_.publish(1_000)
        all_.node.flush(10)
        all_.controller.send_signal(signal.SIGKILL)
        for app in all_.apps:
            found = app.wait_for(lambda found: bool(found["error"]))
            assert found["error"].startswith("ControllerLostError")
            assert found["is_in_order"]
        path = str(tmp_path / "controller")
        with all_.serve(path), application(path) as app:
            # The first controller's node counts as a member until the GMS excludes it.
            all_.publish(500)
            app.wait_for(has(500))
