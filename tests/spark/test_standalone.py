"""The same jobs on a real standalone cluster, with one of its two workers killed during each.

Commands are run as a user runs them, with ``--master spark://…``. Five Java
processes are too much for everybody's tests: ``make soak-spark`` runs these.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from quicksilver.experiments.sweep import Seeds, Sweep, run_task
from quicksilver.trace.folders import find_runs
from tests.cli.processes import COMMAND, run, running_gms
from tests.spark.connector.cluster import recording, rows
from tests.spark.connector.jobs import Job
from tests.spark.connector.test_source import log
from tests.spark.soaking import only_in_soak
from tests.spark.standalone import Standalone, standalone

pytestmark = [pytest.mark.spark, pytest.mark.integration, only_in_soak]

CONF = {
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
}
SECONDS_MAX = 240.0


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=1) as made:
        yield made


@pytest.fixture
def cluster(machines: Standalone) -> Standalone:
    """A master and two workers; one that was killed before is replaced."""
    while machines.alive() < 2:
        machines.add_worker()
    machines.wait_workers()
    return machines


def settings() -> list[str]:
    return [word for name, value in CONF.items() for word in ("--conf", f"{name}={value}")]


def run_with_a_kill(cluster: Standalone, *arguments: str) -> str:
    """Run a command on the cluster, kill a worker that works for it; return what it printed."""
    with subprocess.Popen(
        [*COMMAND, *arguments, "--master", cluster.address, *settings()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while (busy := cluster.find_busy()) is None:
                assert child.poll() is None, f"it ended before it was disturbed: {child.stderr}"
                assert time.monotonic() < deadline, "no worker got anything to do"
                time.sleep(0.05)
            cluster.kill_worker(busy)
            said, problems = child.communicate(timeout=SECONDS_MAX)
        finally:
            child.kill()
    assert child.returncode == 0, problems[-3000:]
    return said


def run_here(*arguments: str) -> str:
    """Run a command without a cluster."""
    outcome = run(*arguments, "--master", "local[2]", *settings(), timeout_s=SECONDS_MAX)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome.stdout


def test_a_stream_is_copied_once(cluster: Standalone, tmp_path: Path) -> None:
    """Tasks of the killed worker are run again by the other; each row is there once."""
    total, rows_a_batch = 2500, 250
    log(tmp_path / "logs", "in", 0, total)
    with running_gms() as gms, recording(gms, tmp_path / "out", "out") as recorder:
        job = Job(
            {
                "gms": gms,
                "recorder": recorder.address,
                "master": cluster.address,
                "logs": str(tmp_path / "logs"),
                "checkpoint": str(tmp_path / "work"),
                "rows_a_batch": str(rows_a_batch),
            },
            tmp_path / "out",
        )
        try:
            assert job.wait(lambda: job.planned() >= 3), job.close()
            cluster.kill_worker(cluster.find_busy() or 0)
            job.child.wait(SECONDS_MAX)
        finally:
            said = job.close()
        assert said.splitlines()[-1] == "done", said
    recorded = Counter(row["value"] for row in rows(tmp_path / "out", "out"))
    assert recorded == Counter(b"%d" % n for n in range(total))


def test_a_plan_is_the_same(cluster: Standalone, tmp_path: Path) -> None:
    """What ``overlap plan`` prints is what it prints without a cluster."""
    pairs = tmp_path / "pairs"
    run_here("overlap", "generate", "--nodes", "300", "--groups", "400", "--out", str(pairs))

    def planned(text: str) -> dict[str, Any]:
        told = json.loads(text.splitlines()[-1])
        names = ("regions", "hierarchies", "regions_per_node_mean", "unwanted_traffic_share")
        return {name: told[name] for name in names}

    plan = ("overlap", "plan", "--pairs", str(pairs), "--no-figure", "--json", "--out")
    here = planned(run_here(*plan, str(tmp_path / "here")))
    there = planned(run_with_a_kill(cluster, *plan, str(tmp_path / "there")))
    assert there == pytest.approx(here)


def test_gold_tables_are_the_same(cluster: Standalone, tmp_path: Path) -> None:
    """What ``sql`` prints of seconds and regions."""
    for seed in (1, 3):
        assert run("sim", "--seed", str(seed), "--trace", str(tmp_path)).returncode == 0
    query = (
        "select s.run, count(*) seconds, round(sum(s.delivered_per_s), 3) delivered, "
        "max(r.records) records from node_seconds s join runs r on s.run = r.run "
        "group by s.run order by s.run"
    )
    sql = ("sql", query, "--trace", str(tmp_path), "--json")
    assert run_with_a_kill(cluster, *sql) == run_here(*sql)


def test_a_sweep_is_whole(cluster: Standalone, tmp_path: Path) -> None:
    """Every simulation is there once, with its trace, and is what it is anywhere."""
    file = tmp_path / "sweep.toml"
    file.write_text('name = "seeds"\nkind = "seeds"\nseeds = { first = 1, count = 12 }\n')
    out = tmp_path / "out"
    said = run_with_a_kill(cluster, "sweep", str(file), "--out", str(out), "--json")
    told = json.loads(said.splitlines()[-1])
    assert (told["simulations"], told["failed"]) == (12, 0)
    found = {row["seed"]: row for row in pq.read_table(out / "results.parquet").to_pylist()}
    assert sorted(found) == list(range(1, 13))
    assert find_runs(out / "traces") == sorted(f"seed-{seed}" for seed in found)
    sweep = Sweep(name="seeds", kind="seeds", seeds=Seeds(3, 1), traces="none")
    (task,) = sweep.tasks()
    here, there = json.loads(run_task(sweep, task).metrics), json.loads(found[3]["metrics"])
    # Samples for the trace are events, too; nothing else may differ.
    assert here.pop("events") <= there.pop("events")
    assert here == there
