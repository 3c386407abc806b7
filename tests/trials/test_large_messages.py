"""Large messages whose pieces take longer than a view lasts."""

from __future__ import annotations

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.trials.cluster import Cluster
from quicksilver.wire.gms import ClusterSettings


@pytest.mark.slow
def test_a_view_is_kept_for_the_rest_of_a_large_message() -> None:
    """One region's frozen member holds up the pieces to all; the other region's view is
    over by then, and quiet for longer than old views are kept otherwise."""
    config = EngineConfig(packet_bytes=1400, window_bytes_initial=32 << 10)
    cluster = Cluster(seed=3, settings=ClusterSettings(failure_timeout_s=30.0), config=config)
    sender, quick, frozen, newcomer = cluster.start(4)
    for node in (quick, frozen):
        node.join("g")
    frozen.join("h")
    sender.open("g")
    assert cluster.settle()
    sender.send("g", b"first")
    cluster.run(1.0)
    frozen.freeze(8.0)
    sender.send("g", bytes(2_000_000))
    cluster.run(0.5)
    newcomer.join("g")
    cluster.run(20.0)
    group = cluster.group_id("g")
    assert frozen.delivered[group] == 2
    assert quick.delivered[group] == 2
    assert quick.exclusions == frozen.exclusions == 0
