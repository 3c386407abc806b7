"""Records of a node's totals and levels, and of its groups, every second, for its trace."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quicksilver.trace.records import NodeSampled

if TYPE_CHECKING:
    from quicksilver.node.core import NodeCore

SAMPLE_S = 1.0


def sample_on_core(core: NodeCore) -> None:
    """Give the node's tracer a sample; on the core thread."""
    engine = core.session.engine
    tracer = engine.tracer
    if tracer is None or not engine.node:
        return
    counters = engine.counters
    levels = engine.stats()
    scheduler = core.thread.turn.scheduler
    used = resource.getrusage(resource.RUSAGE_SELF)
    now = time.monotonic()
    tracer(
        NodeSampled(
            now,
            engine.node,
            wall_s=time.time(),
            sent_messages=counters.sent_messages,
            sent_bytes=counters.sent_bytes,
            delivered_messages=counters.delivered_messages,
            delivered_bytes=counters.delivered_bytes,
            missing=counters.missing,
            repairs_received=counters.repairs_received,
            repairs_sent=counters.repairs_sent,
            resent=counters.resent,
            duplicates=counters.duplicates,
            kernel_drops=engine.environment.kernel_drops(),
            pending_bytes=int(levels["pending_bytes"]),
            queued_bytes=int(levels["queued_bytes"]),
            memory_bytes=resident_bytes(),
            cpu_s=used.ru_utime + used.ru_stime,
            alarm_delay_s=scheduler.alarm_delay_s_max,
            inversion_s=scheduler.inversion_s_max,
        )
    )
    scheduler.alarm_delay_s_max = scheduler.inversion_s_max = 0.0
    for record in engine.take_groups(now):
        tracer(record)


def resident_bytes() -> int:
    """Return the resident memory of this process now; 0 where that cannot be told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


@contextmanager
def sampling(core: NodeCore) -> Iterator[None]:
    """Take samples meanwhile, and a last one; nothing where there is no tracer."""
    if core.session.engine.tracer is None:
        yield
        return
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(SAMPLE_S):
            core.call(lambda: sample_on_core(core))

    thread = threading.Thread(target=sample, name="quicksilver-samples", daemon=True)
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
