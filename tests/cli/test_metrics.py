"""A node's statistics as Prometheus reads them."""

from __future__ import annotations

import urllib.request

import pytest

from quicksilver.node import sync
from quicksilver.node.metrics import MetricsError, start_metrics
from tests.cli.processes import running_gms

pytestmark = pytest.mark.integration


def test_counters_are_served_and_grow() -> None:
    """One scrape, one reading of the statistics."""
    pytest.importorskip("prometheus_client")
    with running_gms() as gms, sync.connect(gms) as node, sync.connect(gms) as other:
        other.join("a")
        group = node.open("a")
        with start_metrics(node, 0) as server:
            group.send(b"x")
            node.flush(10)
            with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=5) as answer:
                text = answer.read().decode()
            with pytest.raises(MetricsError, match="choose another port"):
                start_metrics(node, int(server.address.rpartition(":")[2]))
    assert "quicksilver_sent_messages_total 1.0" in text
    assert "quicksilver_pending_bytes 0.0" in text
    assert "quicksilver_connected 1.0" in text
