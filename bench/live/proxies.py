"""How much memory a proxy takes: many in a process of their own.

``python -m bench.live.proxies KIND COUNT`` prints one JSON line.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from pathlib import Path

from bench.live.events import Sink
from bench.live.measured import Measured, resident_mb
from quicksilver.live.components.library import equip
from quicksilver.live.references.builder import primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.proxies import Proxy
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import Groups
from quicksilver.live.services.local import LocalGroups, LocalNetwork

COUNT = 10_000
ROOT = Path(__file__).parents[2]


def reference_of(kind: str, number: int) -> Reference:
    """Return what to open: a component alone, or a counter with a channel and a group."""
    if kind == "plain":
        return primitive("bench.sink")
    channel = primitive("quicksilver.checkpointed-channel", group=f"bench/{number}")
    return primitive("quicksilver.counter", channel=channel)


def open_many(kind: str, count: int) -> dict[str, float]:
    """Open proxies and hold them; return what they cost."""
    executor = ThreadExecutor()
    runtime = Runtime(executor)
    runtime.provide(Groups, LocalGroups(LocalNetwork(), executor))
    equip(runtime)
    runtime.add_components((Sink,))
    first = executor.call(lambda: runtime.open(reference_of(kind, 0)))
    gc.collect()
    before, start = resident_mb(), time.perf_counter()
    held: list[Proxy] = [
        executor.call(lambda number=number: runtime.open(reference_of(kind, number)))  # type: ignore[misc]
        for number in range(1, count + 1)
    ]
    _wait_idle(executor)
    seconds = time.perf_counter() - start
    gc.collect()
    result = {
        "mb": resident_mb() - before,
        "seconds": seconds,
        "proxies": len(held),
        "components": len(runtime.cells),
    }
    del first
    executor.call(runtime.close)
    executor.close()
    return result


def _wait_idle(executor: ThreadExecutor) -> None:
    """Let posted steps, and what they post, run."""
    for _ in range(50):
        executor.call(lambda: None)


def measure_proxies(count: int = COUNT) -> list[Measured]:
    """Measure both kinds, each in a process of its own."""
    results: list[Measured] = []
    for kind, title, target in (
        ("plain", "proxies of one component", 100.0),
        ("counter", "shared counters, each with a channel and a group of its own", None),
    ):
        line = subprocess.run(
            [sys.executable, "-m", "bench.live.proxies", kind, str(count)],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        found = json.loads(line)
        results += [
            Measured(f"{count:,} {title}", found["mb"], "MB", target),
            Measured("… each", found["mb"] * 1e3 / count, "KB"),
            Measured("… time to open each", found["seconds"] * 1e6 / count, "us"),
        ]
    return results


if __name__ == "__main__":
    print(json.dumps(open_many(sys.argv[1], int(sys.argv[2]))))
