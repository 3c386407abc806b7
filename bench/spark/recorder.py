"""How fast a recorder's log takes messages: ``python -m bench.spark.recorder``.

Rows as a node hands them over, in batches of 50, are taken, made into segments and
written to memory-backed files, without waiting for a disk. CPU time is counted, so
that other work on the machine does not matter much; the best of several rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from quicksilver.node.messages import Batch
from quicksilver.recorder.envelope import Origin, pack_envelope
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.writer import LogConfig

ROWS_A_BATCH = 50


def make_batches(rows: int, size: int, *, is_job: bool) -> list[Batch]:
    """Return messages of one sender; those of a job are in envelopes."""
    value = b"x" * size
    query = b"q" * 16
    found = []
    for first in range(0, rows, ROWS_A_BATCH):
        numbers = range(first, first + ROWS_A_BATCH)
        payloads = [
            pack_envelope(Origin(query, 0, 0, row), value) if is_job else value for row in numbers
        ]
        found.append(Batch("g", 1, 3, payloads, first, cluster=7))
    return found


def measure(rows: int, size: int, *, is_job: bool) -> float:
    """Return rows a second of CPU time."""
    batches = make_batches(rows, size, is_job=is_job)
    memory = Path("/dev/shm")  # noqa: S108  # the folder made there has a name of its own
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    try:
        log = GroupLog(Path(folder), "g", LogConfig(does_sync=False))
        begun = time.process_time()
        for batch in batches:
            log.take(batch, 1_000_000)
            if log.writer.is_full:
                waiting = log.cut()
                assert waiting is not None
                log.write(waiting)
        log.close()
        return rows / (time.process_time() - begun)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Print a line for each kind of row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for is_job in (False, True):
        for size in (100, 1000):
            best = max(measure(given.rows, size, is_job=is_job) for _ in range(given.rounds))
            kind = "rows of a job" if is_job else "plain messages"
            if given.json:
                print(json.dumps({"kind": kind, "size": size, "rows_per_cpu_s": round(best)}))
            else:
                print(f"{kind}, {size} bytes: {best:,.0f} a second of CPU")


if __name__ == "__main__":
    main()
