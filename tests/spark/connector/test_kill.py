"""Exactly once, end to end: driver and workers are killed with -9.

Every second time at a random moment, and every second time exactly when rows of
a batch are in the recorder's log and the batch is not committed: then it is run
again, and its rows come twice. ``QUICKSILVER_KILLS`` sets how often
(``make soak-spark``: 20); ``QUICKSILVER_SEED`` sets when.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver import sync
from quicksilver.recorder.exactly_once import exactly_once_sync
from quicksilver.recorder.repeats import Repeats
from tests.cli.processes import running_gms
from tests.spark.connector.cluster import recording, rows
from tests.spark.connector.jobs import Job
from tests.spark.connector.test_source import log
from tests.spark.soaking import only_in_soak

pytestmark = [pytest.mark.spark, pytest.mark.integration, only_in_soak]

KILLS = int(os.environ.get("QUICKSILVER_KILLS", "8"))
SEED = int(os.environ.get("QUICKSILVER_SEED", "1"))
ROWS_A_BATCH = 1000


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def test_killed_drivers_and_workers_lose_and_repeat_nothing(gms: str, tmp_path: Path) -> None:
    """The recorded result and what a live subscriber saw are the input, each row once."""
    chance = random.Random(SEED)
    total = (10 + 6 * KILLS) * ROWS_A_BATCH  # there must be something to do at every kill
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
            "recorder": recorder.address,
            "logs": str(tmp_path / "logs"),
            "checkpoint": str(tmp_path / "work"),
            "rows_a_batch": str(ROWS_A_BATCH),
        }
        job = Job(plan, tmp_path / "out")
        try:
            for number in range(KILLS):
                begun = job.planned()
                assert job.wait(lambda: job.planned() > begun), (number, job.close())  # noqa: B023
                if number % 2 == 0:
                    assert job.wait(job.has_rows_too_many), (number, job.close())
                else:
                    time.sleep(chance.random())  # planning, sending, committing: any of them
                if number % 4 < 2:
                    said += job.close()
                    job = Job(plan, tmp_path / "out")
                else:
                    job.kill_workers()
            job.child.wait(240)
        finally:
            said += job.close()
        assert said.splitlines()[-1] == "done", said
        live = [row.value for row in exactly_once_sync(heard, 1, repeats)]
    expected = Counter(b"%d" % n for n in range(total))
    recorded = Counter(row["value"] for row in rows(tmp_path / "out", "out"))
    assert recorded == expected
    assert Counter(live) == expected
    dropped = int(recorder.ended[0]["repeats"])
    print(
        f"\n{KILLS} kills, seed {SEED}, {total:,} rows: sets are equal; "
        f"the recorder dropped {dropped:,} repeats, the subscriber {repeats.dropped:,}"
    )
    # Killed so exactly, some batch must have been sent twice: otherwise nothing was proven.
    assert dropped > 0
    assert repeats.dropped > 0
