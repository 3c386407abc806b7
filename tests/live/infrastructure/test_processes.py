"""The checkpointed channel on real processes over loopback: kill -9, late joiners, disks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster import Cluster, Process
from tests.live.infrastructure.test_checkpointed import check_fifo

pytestmark = pytest.mark.integration


def start(cluster: Cluster, name: str, **settings: Any) -> Process:
    settings = {"gms": cluster.address, "name": name, **settings}
    process = Process(["-m", "tests.live.infrastructure.process", json.dumps(settings)])
    cluster.processes.append(process)
    process.read()
    return process


def wait(
    processes: list[Process], is_right: Callable[[list[str]], bool], timeout_s: float = 40.0
) -> list[str]:
    """Wait until all have the same list and it is right; return it."""
    deadline = time.monotonic() + timeout_s
    while True:
        reports = [process.ask(do="report") for process in processes]
        assert not any(report["failures"] for report in reports), reports
        lists = [report["items"] for report in reports]
        if lists[0] is not None and all(one == lists[0] for one in lists) and is_right(lists[0]):
            found: list[str] = lists[0]
            return found
        if time.monotonic() > deadline:
            lengths = [None if one is None else len(one) for one in lists]
            raise AssertionError(f"they have {lengths} updates, and not the same")
        time.sleep(0.1)


def test_three_processes_agree_while_one_is_killed_and_another_comes() -> None:
    """Concurrent updates, kill -9 of the leader, a late joiner: all end equal."""
    with Cluster() as cluster:
        processes = [start(cluster, name) for name in "abc"]
        wait(processes, lambda items: items == [])
        for _ in range(10):
            for process in processes:
                process.ask(do="send", count=50)
        items = wait(processes, lambda items: len(items) == 1500)
        check_fifo(items)
        oldest = processes[0].ask(do="report")["people"][0]
        leader = next(p for p in processes if p.ask(do="report")["me"] == oldest)
        for process in processes:
            process.ask(do="send", count=200)
        leader.kill()
        living = [process for process in processes if process is not leader]
        late = start(cluster, "d")
        for process in living:
            process.ask(do="send", count=100)
        names = [name for name, process in zip("abc", processes, strict=True) if process in living]
        items = wait([*living, late], lambda items: all(f"{n}/799" in items for n in names))
        check_fifo(items)
        assert all(process.ask(do="report")["starts"] == 1 for process in living)


def test_all_are_killed_and_the_state_comes_back_from_their_disks(tmp_path: Path) -> None:
    """Kill -9 of everybody: what was logged is read again, and all agree on it."""
    channel = {"store": "list", "snapshot_updates": 100, "founders": 2}
    with Cluster(tmp_path / "gms") as cluster:

        def life() -> list[Process]:
            return [
                start(cluster, name, directory=str(tmp_path / name), channel=channel)
                for name in "ab"
            ]

        processes = life()
        wait(processes, lambda items: items == [])
        for process in processes:
            process.ask(do="send", count=333)
        before = wait(processes, lambda items: len(items) == 666)
        for process in processes:
            process.kill()
        after = wait(life(), lambda items: len(items) == 666)
        assert after == before
