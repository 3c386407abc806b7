"""Recorders as processes: killed at full rate, on a disk that is too small, together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quicksilver import sync
from quicksilver.recorder.reader import LogReader
from tests.cli.processes import read_event, running, running_gms

pytestmark = pytest.mark.integration

MESSAGES = 40_000


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def record(gms: str, path: Path, *more: str) -> list[str]:
    """The arguments of a recorder of one group."""
    return ["record", "ticks", "--path", str(path), "--gms", gms, "--interface", "lo", *more]


def recorded(path: Path) -> Counter[bytes]:
    """What is in a log, and how often."""
    log = LogReader(path, "ticks")
    return Counter(
        value for part in log.read(*log.bounds()) for value in part.column("value").to_pylist()
    )


def wait_rows(path: Path, count: int, timeout_s: float = 60.0) -> None:
    log = LogReader(path, "ticks")
    deadline = time.monotonic() + timeout_s
    while log.bounds()[1] < count:
        assert time.monotonic() < deadline, f"{log.bounds()[1]} of {count} rows"
        time.sleep(0.05)


def test_a_recorder_killed_at_full_rate_gets_the_rest_from_another(
    gms: str, tmp_path: Path
) -> None:
    """What was sent while it was dead, and what it had not made safe: all of it, once."""
    one, other = tmp_path / "one", tmp_path / "other"
    listening = ("--listen", "127.0.0.1:0", "--json")
    sent = [b"%06d" % number + b"." * 94 for number in range(MESSAGES)]
    with running(*record(gms, other, *listening)) as keeper:
        read_event(keeper)
        with (
            running(*record(gms, one, *listening)) as victim,
            sync.connect(gms, interface="lo", tune_gc=False) as node,
        ):
            read_event(victim)
            group = node.open("ticks")
            group.wait_members(2, 20)
            for number, message in enumerate(sent):
                group.send(message)
                if number == MESSAGES // 2:
                    wait_rows(one, 1)
                    victim.send_signal(signal.SIGKILL)
            node.flush(60)
        before = sum(recorded(one).values())
        assert 0 < before < MESSAGES
        wait_rows(other, MESSAGES)
        with running(*record(gms, one, *listening)) as again:
            read_event(again)
            wait_rows(one, MESSAGES)
    assert recorded(one) == recorded(other) == Counter(sent)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    """Have a file system of a few megabytes."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system can be mounted by root only")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_ends_a_recorder_with_one_line(gms: str, tmp_path: Path) -> None:
    """What it had made safe stays, and with room again it goes on after it."""
    disk = tmp_path / "disk"
    with (
        small_disk(disk, "3m"),
        sync.connect(gms, interface="lo", tune_gc=False) as node,
    ):
        with running(*record(gms, disk, "--json")) as process:
            read_event(process)
            group = node.open("ticks")
            group.wait_members(1, 20)
            for number in range(8):
                for _ in range(1000):
                    group.send(b"%d" % number + b"." * 999)
            _, problems = process.communicate(timeout=60)
            assert process.returncode == 1
        assert json.loads(problems.splitlines()[-1])["event"] == "error"
        assert "No space left on device" in problems.splitlines()[-1]
        kept = sum(recorded(disk).values())
        subprocess.run(["mount", "-o", "remount,size=30m", str(disk)], check=True)
        with running(*record(gms, disk, "--json")) as process:
            read_event(process)
            group.wait_members(1, 20)
            group.send(b"after")
            node.flush(30)
            wait_rows(disk, kept + 1)
            assert recorded(disk)[b"after"] == 1
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)
