"""A node that hears of its own join late, with all views at once."""

from __future__ import annotations

import pytest

from quicksilver.membership.config import ServiceConfig
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.workload import send_numbered

GMS = -1


@pytest.mark.parametrize("planner", ["merged", "exact", "regular"])
def test_messages_arrive_of_senders_that_heard_of_nothing_since(planner: str) -> None:
    """What is sent to a view belongs to all who are in it.

    1. The GMS puts b into the group, and tells a. b's connection breaks before it is told.
    2. Others join something else, of which a need not hear: a names the older batch, for ever.
    3. b comes back and is told everything at once. It is in the group since 1, not since 3.
    """
    patient = ServiceConfig(disconnect_grace_s=3.0)
    cluster = Cluster(seed=5, planner=planner, gms_config=patient)
    cluster.watch(*ALL)
    a, b, c, d, e = cluster.start(5)
    a.join("g")
    d.join("g")
    b.join("h")
    c.join("h")
    e.join("x")
    assert cluster.settle()
    cluster.run(1.0)
    b.join("g")
    batch = cluster.gms.service._tables.batch
    assert cluster.run(1.0, lambda: cluster.gms.service._tables.batch == batch + 1)
    cluster.network.cut(GMS, b.index)
    number = b._connection
    assert number is not None
    cluster.gms.disconnect(number)
    b.handle_closed(number, "reset")
    cluster.run(0.1)
    e.join("k")
    cluster.run(0.3)
    cluster.network.mend(GMS, b.index)
    assert cluster.run(10.0, lambda: "g" in b.ready)
    assert b.session.directory.batch > a.session.directory.batch, "the scene is as it should be"
    for _ in range(5):
        send_numbered(a, "g", 3)
        cluster.run(0.5)
    done: list[bool] = []
    a.flush(lambda: done.append(True))
    cluster.run(40.0)
    cluster.watching.on_settled()
    assert done
    assert b.delivered[cluster.group_id("g")] == 15
    assert [str(v) for v in cluster.violations() if v.check in ("vouched", "complete")] == []
    assert b.exclusions == 0
