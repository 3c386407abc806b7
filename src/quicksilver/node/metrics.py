"""A node's statistics for Prometheus; needs the extra ``metrics``.

::

    with quicksilver.sync.connect("127.0.0.1:7401") as node, start_metrics(node, 9401):
        ...

Nothing is copied while nobody asks: each scrape reads ``NodeStats`` once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from quicksilver.node.errors import QuicksilverError
from quicksilver.stdx.install import install_line

if TYPE_CHECKING:
    from quicksilver.node import aio, sync
    from quicksilver.node.messages import NodeStats
    from quicksilver.node.ports import Core

PREFIX = "quicksilver"

LEVELS = {
    "pending_bytes": "Bytes sent and not yet acknowledged.",
    "queued_bytes": "Bytes accepted by send and not yet packed.",
    "regions": "Regions that the node is in.",
    "cache_bytes": "Bytes of packets kept for the repair of others.",
    "ahead_bytes": "Bytes of packets that wait for an earlier one.",
    "memory_assembly": "Bytes of large messages that are not whole yet.",
    "memory_awaiting": "Bytes of messages of a join that is not known yet.",
    "memory_control": "Bytes of control packets that wait.",
    "memory_peers": "Bytes of what other nodes want to hear, and are to say.",
    "memory_repairs": "Bytes of the bookkeeping of repairs.",
    "memory_reports": "Bytes of what members said of streams.",
    "memory_streams": "Bytes of the bookkeeping of streams.",
    "memory_tokens": "Bytes of tokens that wait to be passed on.",
    "memory_unknown": "Bytes of packets of views that are not known yet.",
}
"""Statistics that go up and down; the others only grow."""


class MetricsError(QuicksilverError):
    """Metrics cannot be served."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.problem}; {self.fix}"


class NodeCollector:
    """Turns a node's statistics into metrics when a registry asks for them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterator[Any]:
        """Yield one metric for each statistic."""
        _check_installed()
        try:
            stats = self._core.stats()
        except (QuicksilverError, TimeoutError):
            return  # the node is closing: an empty answer is the true one
        yield from _metrics_of(stats, self._core.session.name)

    def describe(self) -> list[Any]:
        """Return nothing: names are known only once there is a node."""
        return []


def _metrics_of(stats: NodeStats, name: str) -> Iterator[Any]:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        InfoMetricFamily,
    )

    yield InfoMetricFamily(
        f"{PREFIX}_node",
        "Which node this is.",
        value={"name": name, "node": str(stats.node), "cluster": str(stats.cluster)},
    )
    yield GaugeMetricFamily(
        f"{PREFIX}_connected", "1 while the GMS is reachable.", value=float(stats.connected)
    )
    for key, value in sorted(stats.counters.items()):
        if key == "token_ms":
            yield GaugeMetricFamily(
                f"{PREFIX}_token_seconds",
                "Time that a token took round its ring, as last acknowledged.",
                value=float(value) / 1e3,
            )
        elif key == "waits_for":
            yield GaugeMetricFamily(
                f"{PREFIX}_waits_for_node", "Node that holds this sender up.", value=float(value)
            )
        elif isinstance(value, str):
            continue
        elif key in LEVELS:
            yield GaugeMetricFamily(f"{PREFIX}_{key}", LEVELS[key], value=float(value))
        else:
            yield CounterMetricFamily(
                f"{PREFIX}_{key}", f"Count of {key.replace('_', ' ')}.", value=float(value)
            )
    for key, count in sorted(stats.datagrams.items()):
        if key != "last_error":
            yield CounterMetricFamily(
                f"{PREFIX}_datagrams_{key}",
                f"Datagrams, at the sockets: {key.replace('_', ' ')}.",
                value=float(count),
            )


class MetricsServer:
    """Serves ``/metrics`` until it is closed; a context manager."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        host, port = server.server_address[:2]
        self.address = f"{host}:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def start_metrics(
    node: sync.Node | aio.Node, port: int, address: str = "127.0.0.1"
) -> MetricsServer:
    """Serve a node's metrics over HTTP; port 0 takes a free one.

    Raises:
        MetricsError: prometheus-client is missing, or the port is taken.
    """
    _check_installed()
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(NodeCollector(node.core))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise MetricsError(
            f"metrics cannot be served on {address}:{port} ({error.strerror})",
            "choose another port, or 0 for a free one",
        ) from None
    return MetricsServer(server, thread)


def _check_installed() -> None:
    try:
        import prometheus_client  # noqa: F401  # only to see whether it is there
    except ModuleNotFoundError:
        raise MetricsError("metrics need prometheus-client", install_line("metrics")) from None
