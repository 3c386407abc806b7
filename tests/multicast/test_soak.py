"""Random histories of mixed faults, checked for everything that is promised.

A failure names its seed; ``pytest tests/multicast/test_soak.py -k seed17-``
replays it, event by event. ``SOAK_SEEDS=1000`` runs that many.
"""

from __future__ import annotations

import os

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.stdx.rand import Rng
from quicksilver.wire.gms import ClusterSettings
from tests.kit.checks import check_all, check_complete, payload
from tests.kit.cluster import World, lose_everything

SEEDS = int(os.environ.get("SOAK_SEEDS", "40"))
GROUPS = ("g", "h", "i")
SECONDS = 1.0
SETTINGS = ClusterSettings(heartbeat_interval_s=0.2, failure_timeout_s=1.0)
CONFIG = EngineConfig(packet_bytes=1400)


class History:
    """One seed's world and what happens in it."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = Rng(seed).derive("history")
        count = 3 + rng.below(6)
        planner = rng.choice(("exact", "exact", "auto"))
        self.world = World(count, seed=seed, planner=planner, settings=SETTINGS, config=CONFIG)
        self.members: dict[str, set[int]] = {group: set() for group in GROUPS}
        self.frozen: set[int] = set()
        self.crashes = 0
        for node in self.world.nodes:
            joined = [group for group in GROUPS if rng.chance(0.6)] or ["g"]
            for group in joined:
                self.members[group].add(node.index)
            node.join(*joined)
            node.open(*GROUPS)
        self.world.settle()
        self.world.run(0.2)
        world = self.world
        world.loss = lose_everything(rng.derive("loss"), 0.1 * rng.uniform())
        world.duplicate_rate = 0.1 * rng.uniform()
        world.jitter_s = 0.002 * rng.uniform()

    def run(self) -> None:
        world, rng = self.world, self.rng
        begun = world.now
        while world.now < begun + SECONDS:
            world.run(rng.exponential(0.02))
            self._do(rng.below(100))
        self._heal()

    def _do(self, what: int) -> None:
        world, rng = self.world, self.rng
        up = [node for node in world.nodes if node.is_up]
        node = rng.choice(up)
        if what < 80:
            group = rng.choice(GROUPS)
            if not node.may_send_to(group):
                return
            size = 20_000 if rng.chance(0.05) else rng.below(400)
            first = len(node.sent[group])
            node.send(
                group,
                *[
                    payload(group, node.index, first + i, size)
                    for i in range(1 if size > 1000 else 1 + rng.below(30))
                ],
            )
        elif what < 85:
            node.join(rng.choice(GROUPS))
        elif what < 89:
            node.leave(rng.choice(GROUPS))
        elif what < 92:
            if len(up) > 3 and self.crashes < 2:
                self.crashes += 1
                node.kill()
        elif what < 95:
            if len(up) > 3 and not self.frozen:
                self.frozen.add(node.index)
                node.freeze()
                world.at(world.now + rng.choice((0.2, 0.7, 2.0)), node.thaw)
        elif len(world.nodes) < 10:
            late = world.add_node()
            late.join(rng.choice(GROUPS), rng.choice(GROUPS))
            late.open(*GROUPS)

    def _heal(self) -> None:
        world = self.world
        world.run(1.5)
        world.loss = None
        world.duplicate_rate = world.jitter_s = 0.0
        world.run(12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, SEEDS + 1), ids=lambda seed: f"seed{seed}-")
def test_any_history_of_faults_keeps_the_promises(seed: int) -> None:
    """FIFO, once, no gaps, nothing unsent, complete, cleaned up, silent: for any seed."""
    history = History(seed)
    history.run()
    check_all(history.world)
    check_complete(history.world, members=history.members)
