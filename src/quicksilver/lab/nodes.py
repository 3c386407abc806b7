"""A node inside a process of the laboratory: what it is told, how it is opened and harmed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from quicksilver.multicast.config import EngineConfig
from quicksilver.net.faults import parse_faults
from quicksilver.node import sync
from quicksilver.node.core import NodeCore
from quicksilver.node.options import NodeOptions
from quicksilver.node.samples import sampling
from quicksilver.node.tuning import SWITCH_INTERVAL_S
from quicksilver.trace.folders import split_target
from quicksilver.trace.records import AnyRecord, Tracer


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, tag_field="role"):
    """What every process with a node is told; each role adds its own."""

    gms: str = ""
    name: str = ""
    interface: str | None = None
    packet_bytes: int | None = None
    """Largest datagram; None: what the interface carries."""
    faults: str = ""
    """Harm to do to this node's datagrams."""
    connect_timeout_s: float = 10.0
    is_gc_tuned: bool = True
    engine: dict[str, Any] = {}
    """Fields of ``EngineConfig`` that differ from their defaults."""
    trace: str | None = None
    """Folder of the run to which its trace records belong."""
    trace_records_max: int | None = None


@contextmanager
def open_node(spec: NodeSpec, tracer: Tracer | None = None) -> Iterator[sync.Node]:
    """Have a connected node meanwhile; its records go to the tracer and to its trace."""
    with ExitStack() as stack:
        trace: Tracer | None = None
        if spec.trace is not None:
            from quicksilver.trace.parquet import RECORDS_MAX, ParquetTrace

            folder, run = split_target(Path(spec.trace), "run")
            room = RECORDS_MAX if spec.trace_records_max is None else spec.trace_records_max
            trace = stack.enter_context(ParquetTrace(folder, run, spec.name, records_max=room))
        options = NodeOptions(
            name=spec.name,
            interface=spec.interface,
            packet_bytes=spec.packet_bytes,
            faults=parse_faults(spec.faults) if spec.faults else None,
            connect_timeout_s=spec.connect_timeout_s,
            tracer=_both(tracer, trace),
            # A process of ours, with nothing else in it.
            tune_gc=spec.is_gc_tuned,
            switch_interval_s=SWITCH_INTERVAL_S,
            # Loads come and go: what is sent to nobody counts as delivered.
            empty="drop",
            engine=EngineConfig(**spec.engine),
        )
        node = stack.enter_context(sync.Node(spec.gms, options))
        stack.enter_context(sampling(node.core))
        yield node


class Harm(msgspec.Struct, frozen=True, tag="harm", tag_field="order"):
    """Harm this node's datagrams from now on; empty: no more."""

    faults: str

    def perform(self, node: sync.Node) -> None:
        """Apply the faults to the sockets of a node."""
        plan = parse_faults(self.faults) if self.faults else None
        core = node.core
        assert isinstance(core, NodeCore)
        core.call(lambda: core.sockets.set_faults(plan))


DEAF = Harm("loss=100%,direction=both")
"""Every datagram is lost, both ways."""
WHOLE = Harm("")


def _both(one: Tracer | None, other: Tracer | None) -> Tracer | None:
    if one is None or other is None:
        return one or other

    def trace(record: AnyRecord) -> None:
        one(record)
        other(record)

    return trace
