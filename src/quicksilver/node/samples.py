"""Records of a node's totals and levels, and of its groups, every second, for its trace."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from quicksilver.multicast.samples import sample
from quicksilver.node.core import NodeCore
from quicksilver.node.ports import Core

SAMPLE_S = 1.0


def sample_on_core(core: NodeCore) -> None:
    """Give the node's tracer a sample; on the core thread."""
    engine = core.session.engine
    tracer = engine.tracer
    if tracer is None or not engine.node:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    sample(
        engine,
        core.thread.turn.scheduler,
        tracer,
        time.monotonic(),
        wall_s=time.time(),
        memory_bytes=resident_bytes(),
        cpu_s=used.ru_utime + used.ru_stime,
    )


def resident_bytes() -> int:
    """Return the resident memory of this process now; 0 where that cannot be told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


@contextmanager
def sampling(core: Core) -> Iterator[None]:
    """Take samples meanwhile, and a last one; nothing where there is no tracer, or no GMS."""
    if not isinstance(core, NodeCore) or core.session.engine.tracer is None:
        yield
        return
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(SAMPLE_S):
            core.call(lambda: sample_on_core(core))

    thread = threading.Thread(target=look, name="quicksilver-samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        done = threading.Event()

        def last() -> None:
            sample_on_core(core)
            done.set()

        core.call(last)
        done.wait(1.0)
