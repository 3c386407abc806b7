"""A standalone Spark cluster: a master and workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from quicksilver.lab.processes import free_udp_port
from quicksilver.spark.java import find_java
from tests.spark.killing import kill, session_processes

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Standalone:
    """The address of a master, and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "master.log"
        port = free_udp_port()
        self.address = f"spark://127.0.0.1:{port}"
        self.master = self._start(
            self._log,
            *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", str(port), "--webui-port", "0"),
        )
        self.workers: list[subprocess.Popen[bytes]] = []
        self._seen: set[Path] = set()

    def _start(self, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            # Workers run the python3 that they find.
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "JAVA_HOME": find_java().home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with log.open("wb") as file:
            return subprocess.Popen(
                [str(SPARK_CLASS), *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def add_worker(self) -> None:
        """Start a worker with one core."""
        number = len(self.workers)
        self.workers.append(
            self._start(
                self._folder / f"worker{number}.log",
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
                *("--cores", "1", "--memory", "600m", "--webui-port", "0"),
                *("--work-dir", str(self._folder / f"worker{number}"), self.address),
            )
        )

    def wait_workers(self, timeout_s: float = 120.0) -> None:
        """Wait until the master knows all workers."""
        deadline = time.monotonic() + timeout_s
        while self._log.read_text().count("Registering worker") < len(self.workers):
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.2)

    def kill_worker(self, number: int) -> None:
        """Kill a worker, its executors and their Python processes."""
        kill(session_processes(self.workers[number].pid))
        self.workers[number].wait()

    def alive(self) -> int:
        """How many workers there are."""
        return sum(worker.poll() is None for worker in self.workers)

    def find_busy(self) -> int | None:
        """Return a worker whose executor has been given a task; None if there is none."""
        for number, worker in enumerate(self.workers):
            if worker.poll() is not None:
                continue
            for log in (self._folder / f"worker{number}").glob("app-*/*/stderr"):
                if log.parent not in self._seen and "Running task" in log.read_text():
                    self._seen.add(log.parent)
                    return number
        return None

    def close(self) -> None:
        """Leave nothing behind."""
        for process in (*self.workers, self.master):
            kill(session_processes(process.pid))
            process.wait()


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[Standalone]:
    """Have a cluster for the time of a test."""
    cluster = Standalone(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait_workers()
        yield cluster
    finally:
        cluster.close()
