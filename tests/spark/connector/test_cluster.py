"""The same job on a real standalone cluster, with one of its two workers killed.

Five Java processes are too much for everybody's tests: ``make soak-spark`` runs it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import running_gms
from tests.spark.connector.cluster import recording, rows
from tests.spark.connector.jobs import Job
from tests.spark.connector.test_source import log

pytestmark = [
    pytest.mark.spark,
    pytest.mark.integration,
    pytest.mark.skipif(
        "QUICKSILVER_SOAK" not in os.environ, reason="set QUICKSILVER_SOAK=1, or make soak-spark"
    ),
]

ROWS_A_BATCH = 250
BATCHES = 10


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def test_a_killed_worker_costs_nothing(gms: str, tmp_path: Path) -> None:
    """Its tasks are run again by the other; the result is the input, each row once."""
    from tests.spark.standalone import standalone

    total = ROWS_A_BATCH * BATCHES
    log(tmp_path / "logs", "in", 0, total)
    (tmp_path / "cluster").mkdir()
    with (
        recording(gms, tmp_path / "out", "out") as recorder,
        standalone(tmp_path / "cluster", workers=2) as cluster,
    ):
        job = Job(
            {
                "gms": gms,
                "recorder": recorder.address,
                "master": cluster.address,
                "logs": str(tmp_path / "logs"),
                "checkpoint": str(tmp_path / "work"),
                "rows_a_batch": str(ROWS_A_BATCH),
            },
            tmp_path / "out",
        )
        try:
            assert job.wait(lambda: job.planned() >= 3)
            cluster.kill_worker(0)
            job.child.wait(150)
        finally:
            said = job.close()
        assert said.splitlines()[-1] == "done", said
    recorded = Counter(row["value"] for row in rows(tmp_path / "out", "out"))
    assert recorded == Counter(b"%d" % n for n in range(total))
