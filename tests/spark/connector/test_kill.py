"""Exactly once, end to end: driver and workers are killed with -9 at random moments.

``QUICKSILVER_KILLS`` sets how often (default: one worker and one driver; more
in ``make soak-spark``); ``QUICKSILVER_SEED`` sets when.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver import sync
from quicksilver.recorder.repeats import Repeats
from quicksilver.recorder.subscribing import exactly_once_sync
from tests.cli.processes import running_gms
from tests.spark.connector.cluster import recording, rows
from tests.spark.connector.test_source import log
from tests.spark.soaking import only_in_soak

pytestmark = [pytest.mark.spark, pytest.mark.integration]

KILLS = int(os.environ.get("QUICKSILVER_KILLS", "2"))
SEED = int(os.environ.get("QUICKSILVER_SEED", "1"))
ROWS_A_BATCH = 250
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def session_processes(session: int, words: str = "") -> list[int]:
    """The processes of a session, those whose command line has the words."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
        if int(fields[3]) == session and words in command:
            found.append(int(entry.name))
    return found


def kill(processes: list[int]) -> None:
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


class Driver:
    """The job in a session of its own, with its JVM and its workers."""

    def __init__(self, plan: dict[str, str]) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.connector.driver", json.dumps(plan)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        self.offsets = Path(plan["checkpoint"]) / "offsets"

    def wait_batches(self, count: int) -> bool:
        """Wait until the job has planned so many batches; False if it ended before."""
        while self.child.poll() is None:
            if self.offsets.is_dir() and len(list(self.offsets.glob("[0-9]*"))) >= count:
                return True
            time.sleep(0.02)
        return False

    def batches(self) -> int:
        return len(list(self.offsets.glob("[0-9]*"))) if self.offsets.is_dir() else 0

    def kill_worker(self, chance: random.Random) -> bool:
        workers = session_processes(self.child.pid, "pyspark.daemon")
        if workers:
            kill([chance.choice(workers)])
        return bool(workers)

    def kill_all(self) -> None:
        kill(session_processes(self.child.pid))
        self.child.wait()

    def close(self) -> str:
        """End what is left; return what the job said."""
        self.kill_all()
        assert self.child.stdout is not None
        with self.child.stdout:
            return self.child.stdout.read()


@only_in_soak
def test_killed_drivers_and_workers_lose_and_repeat_nothing(gms: str, tmp_path: Path) -> None:
    """The recorded result and what a live subscriber saw are the input, each row once."""
    chance = random.Random(SEED)
    batches = 3 + 2 * KILLS  # each kill waits for one or two of them
    total = batches * ROWS_A_BATCH
    log(tmp_path / "logs", "in", 0, total)
    repeats = Repeats()
    said = ""
    with (
        sync.connect(gms, interface="lo", tune_gc=False) as node,
        recording(gms, tmp_path / "out", "out") as recorder,
    ):
        heard = node.join("out", queue_bytes=256 << 20)
        plan = {
            "gms": gms,
            "recorder": recorder,
            "logs": str(tmp_path / "logs"),
            "checkpoint": str(tmp_path / "work"),
            "rows_a_batch": str(ROWS_A_BATCH),
        }
        driver = Driver(plan)
        try:
            for number in range(KILLS):
                assert driver.wait_batches(driver.batches() + 1 + chance.randrange(2)), "too early"
                time.sleep(chance.random() * 2.0)  # planning, sending, committing: any of them
                if number % 2 == 0:
                    driver.kill_worker(chance)
                else:
                    said += driver.close()
                    driver = Driver(plan)
            driver.child.wait(120)
        finally:
            said += driver.close()
        assert said.splitlines()[-1] == "done", said
        live = [row.value for row in exactly_once_sync(heard, 1, repeats)]
    expected = Counter(b"%d" % n for n in range(total))
    recorded = Counter(row["value"] for row in rows(tmp_path / "out", "out"))
    assert recorded == expected
    assert Counter(live) == expected
    print(f"{KILLS} kills, seed {SEED}: {repeats.dropped} repeats were dropped")
