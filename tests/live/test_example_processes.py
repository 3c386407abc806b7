"""The examples on two real processes, with a real GMS: what one does, the other hears of."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from quicksilver.live.components.platform.encryption import create_key
from tests.integration.cluster import ROOT, Cluster
from tests.live.applications.test_examples import make_files
from tests.live.example_process import ALL_DEEDS

LONG_S = 60.0
ROUND_S = 3.0


class Process:
    """One of the two."""

    def __init__(self, gms: str, folder: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.live.example_process", gms, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        self._news: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._news.put(json.loads(line))
        self._news.put(None)

    def hear(self, timeout_s: float) -> dict[str, Any]:
        """Return what it says next; nothing if it says nothing in time."""
        try:
            news = self._news.get(timeout=timeout_s)
        except queue.Empty:
            return {}
        assert news is not None, "the process ended"
        assert "failure" not in news, news
        return news

    def act(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write("now\n")
        self.child.stdin.flush()

    def end(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            self.child.wait(LONG_S)
        finally:
            self.child.kill()
            self._reader.join()
            assert self.child.stdout is not None
            self.child.stdout.close()


@pytest.mark.integration
def test_what_one_process_does_the_other_hears(tmp_path: Path) -> None:
    create_key(tmp_path / "keys", "default")
    processes: list[Process] = []
    with Cluster() as cluster:
        try:
            for name in ("north", "south"):
                make_files(tmp_path / name)
                processes.append(Process(cluster.address, tmp_path / name))
            for one in processes:
                while not one.hear(LONG_S).get("ready"):
                    pass
            acts, listens = processes
            missing = {name: told for name, (*_, told) in ALL_DEEDS.items()}
            for _ in range(20):  # what is done before the other has joined is its initial state
                acts.act()
                # Streams never fall silent, so a round ends by the clock.
                until = time.monotonic() + ROUND_S
                while missing and (left := until - time.monotonic()) > 0:
                    news = listens.hear(left)
                    if missing.get(news.get("name", "")) == news.get("event", ""):
                        del missing[news["name"]]
                if not missing:
                    break
            assert missing == {}
        finally:
            for one in processes:
                one.end()
    assert [one.child.returncode for one in processes] == [0, 0]
