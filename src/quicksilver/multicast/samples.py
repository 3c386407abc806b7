"""A record of what an engine has done and holds, for its host's trace.

What only the host knows comes as arguments: the clock on the wall, memory, processor time.
"""

from __future__ import annotations

from quicksilver.core.scheduler import Scheduler
from quicksilver.multicast.engine import Engine
from quicksilver.trace.records import NodeSampled, Tracer


def sample(
    engine: Engine,
    scheduler: Scheduler,
    tracer: Tracer,
    now: float,
    *,
    wall_s: float,
    memory_bytes: int,
    cpu_s: float,
) -> None:
    """Give the tracer a record of the node, and one of each of its groups."""
    counters = engine.counters
    levels = engine.stats()
    tracer(
        NodeSampled(
            now,
            engine.node,
            wall_s=wall_s,
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
            memory_bytes=memory_bytes,
            cpu_s=cpu_s,
            alarm_delay_s=scheduler.alarm_delay_s_max,
            inversion_s=scheduler.inversion_s_max,
        )
    )
    scheduler.alarm_delay_s_max = scheduler.inversion_s_max = 0.0
    for record in engine.take_groups(now):
        tracer(record)
