"""An endpoint of another process: used, and lost when that process is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.live.references.builder import primitive
from quicksilver.live.runtime.remote.joining import join
from tests.live.runtime.test_remote import Listener
from tests.live.runtime.worlds import World, log, world

__all__ = ["log", "world"]

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["tcp", "unix"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    place = "live+tcp://127.0.0.1:0" if request.param == "tcp" else f"live+unix:{tmp_path}/s"
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.live.runtime.remote_process", place],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with started:
        yield started
        started.kill()


def test_two_processes(world: World, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    world.runtime.add_components((Listener,))
    proxy = world.open(primitive("test.listener"))
    listener: Listener = proxy.cells[0].instance
    connection = world.call(lambda: join(world.runtime, proxy.endpoint("numbers"), address))
    world.call(lambda: [listener.numbers.value(number) for number in range(100, 1100)])
    while len(listener.heard) < 1000:
        world.settle()
    assert listener.heard == list(range(100, 1100))
    process.kill()
    while connection.is_open:
        world.settle()
    assert listener.states == ["connected", "disconnected"]
    assert "the connection was lost" in connection.reason
