"""The copying job of ``driver.py`` as a process that can be watched and killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from quicksilver.recorder.errors import NoLogError
from quicksilver.recorder.reader import LogReader
from tests.spark.killing import kill, session_processes

ROOT = Path(__file__).parents[3]


def numbered(folder: Path) -> int:
    """How many batches a folder of a checkpoint has."""
    return len(list(folder.glob("[0-9]*"))) if folder.is_dir() else 0


class Job:
    """The job in a session of its own, with its JVM and its workers."""

    def __init__(self, plan: dict[str, str], out: Path) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.connector.driver", json.dumps(plan)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        self._checkpoint = Path(plan["checkpoint"])
        self._rows_a_batch = int(plan["rows_a_batch"])
        self._out = out

    def planned(self) -> int:
        """How many batches it has planned."""
        return numbered(self._checkpoint / "offsets")

    def committed(self) -> int:
        """How many batches it has finished."""
        return numbered(self._checkpoint / "commits")

    def has_rows_too_many(self) -> bool:
        """Whether rows are recorded of a batch that is not committed: the moment to kill.

        The commits are counted first: one that comes in between makes this say
        yes too early, never too late.
        """
        rows = self.committed() * self._rows_a_batch
        try:
            return LogReader(self._out, "out").bounds()[1] > rows
        except NoLogError:
            return False

    def wait(self, is_so: Callable[[], bool], every_s: float = 0.002) -> bool:
        """Wait for something; False if the job ended before."""
        while self.child.poll() is None:
            if is_so():
                return True
            time.sleep(every_s)
        return False

    def kill_workers(self) -> None:
        """Kill the Python processes that do its tasks."""
        kill(session_processes(self.child.pid, "pyspark.daemon"))

    def kill_all(self) -> None:
        """Kill the driver, its JVM and its workers."""
        kill(session_processes(self.child.pid))
        self.child.wait()

    def close(self) -> str:
        """End what is left; return what the job said."""
        self.kill_all()
        assert self.child.stdout is not None
        if self.child.stdout.closed:
            return ""
        with self.child.stdout:
            return self.child.stdout.read()
