"""The same seed gives the same run, byte for byte, whatever the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.sim.model import HostModel, LinkModel
from quicksilver.trials.cluster import Cluster

PROGRAM = "from tests.sim.test_determinism import run; print(run(3))"


def run(seed: int, *, cores: int = 0) -> str:
    """Run a small cluster in bad weather; return its digest."""
    cluster = Cluster(
        seed=seed,
        config=EngineConfig(packet_bytes=1400),
        model=HostModel(),
        link=LinkModel(jitter_s=2e-4),
        digests=True,
        cores=cores,
    )
    sender, *receivers = cluster.start(7)
    for node in receivers:
        node.join("a", "b")
        node.host.weather.drop_rate = 0.02
    sender.open("a", "b")
    cluster.settle()
    for _ in range(20):
        sender.send("a", *[bytes(200)] * 5)
        sender.send("b", bytes(3000))
        cluster.run(0.01)
    receivers[0].freeze(0.1)
    receivers[1].crash()
    cluster.run(1.0)
    return cluster.digest()


def test_the_same_seed_gives_the_same_digest() -> None:
    assert run(3) == run(3)
    assert run(3, cores=2) == run(3, cores=2)


def test_another_seed_gives_another_digest() -> None:
    assert run(3) != run(4)


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_hash_order_has_no_influence(hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == run(3)
