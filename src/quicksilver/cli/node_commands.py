"""What ``pub``, ``sub`` and ``record`` share: a node's options, its warnings, its metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quicksilver.cli.output import remark
from quicksilver.net.faults import parse_faults
from quicksilver.node.options import NodeOptions

if TYPE_CHECKING:
    from quicksilver.node import aio, sync
    from quicksilver.trace.records import Tracer


def node_options(
    interface: str | None, faults: str | None, name: str, tracer: Tracer | None = None
) -> NodeOptions:
    """Return a node's options; raises FaultError."""
    return NodeOptions(
        name=name,
        interface=interface,
        faults=parse_faults(faults) if faults else None,
        tracer=tracer,
    )


@contextmanager
def serving_metrics(node: sync.Node | aio.Node, port: int | None) -> Iterator[None]:
    """Serve a node's metrics meanwhile, if a port is given."""
    if port is None:
        yield
        return
    from quicksilver.node.metrics import start_metrics

    with start_metrics(node, port) as server:
        remark(f"metrics at http://{server.address}/metrics")
        yield
