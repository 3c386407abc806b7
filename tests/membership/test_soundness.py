"""State files that are intact and wrong are refused, in one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import SqliteStore, StoreError
from quicksilver.wire import gms
from tests.membership.cluster import Cluster

WRONG = {
    "next node": ("UPDATE meta SET value = 2 WHERE key = 'node'", "node 2 exists and would be"),
    "next group": ("UPDATE meta SET value = 1 WHERE key = 'group'", "group 1 exists and would be"),
    "next region": ("UPDATE meta SET value = 1 WHERE key = 'region'", "region 1 exists and would"),
    "old batch": ("UPDATE meta SET value = 0 WHERE key = 'batch'", "batch 1 exists and would be"),
    "negative counter": ("UPDATE meta SET value = -5 WHERE key = 'node'", "counter 'node' is -5"),
    "counter of text": ("UPDATE meta SET value = 'x' WHERE key = 'batch'", "counter 'batch' is"),
    "cluster": ("UPDATE meta SET value = 0 WHERE key = 'cluster'", "number of the cluster is 0"),
    "planner": ("UPDATE meta SET value = 'magic' WHERE key = 'planner'", "no planner is called"),
    "same name": ("UPDATE groups SET name = 'a'", "have the same name"),
    "no name": ("UPDATE groups SET name = '' WHERE id = 1", "group 1 has a name that no group"),
    "view": ("UPDATE groups SET view = -1 WHERE id = 1", "group 1 has view -1"),
    "region view": ("UPDATE regions SET view = 0", "has view 0"),
    "region address": ("UPDATE regions SET address = '10.0.0.1'", "which is not multicast"),
    "region members": ("UPDATE regions SET members = x'9163'", "has members that do not exist"),
    "members twice": ("UPDATE regions SET members = x'920101'", "or not in order"),
    "port": ("UPDATE nodes SET port = 70000 WHERE id = 1", "node 1 has port 70000"),
    "host": ("UPDATE nodes SET host = 'moon' WHERE id = 1", "node 1 has the address 'moon'"),
    "buffer": ("UPDATE nodes SET receive_buffer_bytes = -1 WHERE id = 1", "a buffer of -1 bytes"),
    "secret": ("UPDATE nodes SET secret = x'00' WHERE id = 1", "node 1 has no secret"),
    "groups of a node": ("UPDATE nodes SET joined = x'9163' WHERE id = 1", "is in groups that do"),
    "placement": ("UPDATE placements SET regions = x'9163' WHERE id = 1", "is in regions that do"),
    "lost groups": ("DELETE FROM groups", "do not exist"),
    "lost regions": ("DELETE FROM regions", "is in regions that do not exist"),
    "lost nodes": ("DELETE FROM nodes", "has members that do not exist"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_state_that_no_gms_stored_is_refused(case: str, tmp_path: Path) -> None:
    """Started from it, a GMS would give numbers out twice, or stumble later."""
    statement, problem = WRONG[case]
    path = tmp_path / "gms.db"
    store = SqliteStore(path)
    cluster = Cluster(store=store)
    for name in ("a", "b"):
        peer = cluster.add()
        peer.subscribe(join=["a", name])
    cluster.run(1.0)
    store.close()
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError) as caught:
        MembershipService(
            store=store,
            planner=make_planner("exact", PlanLimits()),
            settings=gms.ClusterSettings(),
            pool=AddressPool("239.192.0.0/16"),
            seed=1,
            make_secret=lambda: b"s" * gms.SECRET_BYTES,
        )
    store.close()
    text = str(caught.value)
    assert problem in text
    assert str(path) in text
    assert "restore a copy or start anew" in text
    assert "\n" not in text
