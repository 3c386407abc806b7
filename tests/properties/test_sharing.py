"""Many instances in the rounds of the same domains."""

from __future__ import annotations

import pytest

from quicksilver.properties.run.encoding import encode_message
from quicksilver.properties.run.node import ProtocolNode
from quicksilver.properties.run.rounds import Content
from quicksilver.properties.values.intset import IntSet
from quicksilver.recovery.agent import Message
from tests.properties.plans import CLEANUP, CLEANUP_PLAN, PHASES_PLAN, STABLE
from tests.properties.world import Running, World


class Weighed(World):
    """Counts the bytes of all that agents say."""

    size = 0

    def _send(self, origin: Running, to: int, message: Message[Content]) -> None:
        self.size += len(encode_message(message))
        super()._send(origin, to, message)

    def check(self) -> None:
        """What is claimed is checked elsewhere."""


def weigh(instances: int, events: int, gap_s: float) -> int:
    """Return the bytes of control messages for some events, given to instances in turns."""
    world = Weighed([CLEANUP_PLAN] * instances, 9)
    world.run(2.0)
    world.size = 0
    for event in range(events):
        for slot in range(9):
            world.event(slot, 0, event // instances, number=event % instances)
        world.run(gap_s)
    world.run(2.0)
    for number in range(instances):
        assert world.values(CLEANUP, number) == world.values(STABLE, number)
    return world.size


@pytest.mark.slow
def test_a_hundred_instances_cost_little_more_than_one() -> None:
    """Those with nothing new are not in the messages (6.2.2): fifty events a second for all."""
    assert weigh(100, 100, 0.02) < 3 * weigh(1, 100, 0.02)


def test_instances_do_not_wait_for_each_other() -> None:
    """One that sleeps, and one that never does."""
    world = World([CLEANUP_PLAN, PHASES_PLAN], 4, size=2)
    world.run(1.0)
    for slot in range(4):
        world.event(slot, 0, 3, number=0)
    world.run(1.0)
    assert world.values(CLEANUP, 0) == [IntSet.of(3)] * 4
    before = min(world.values(1, 1))
    world.run(1.0)
    assert min(world.values(1, 1)) > before


def test_a_node_without_an_instance_holds_nobody_up() -> None:
    world = World([PHASES_PLAN, CLEANUP_PLAN], 4, size=2)
    node: ProtocolNode = world.running[1].node
    node.remove(1)
    world.plans = world.plans[:1]
    world.run(1.0)
    for slot in (0, 2, 3):
        world.event(slot, 0, 3, number=1)
    world.run(2.0)
    assert all(world.value(slot, CLEANUP, 1) for slot in (0, 2, 3))
