"""P(X) of dissertation 3.2.9, for mixtures of protocols, losses, crashes and new views."""

from __future__ import annotations

from itertools import product

import pytest

from quicksilver.stdx.rand import Rng
from tests.scopes.reliability.draws import PROTOCOLS, draw_tree
from tests.scopes.reliability.world import Scope, World


def settle(world: World, seconds: float = 5.0) -> None:
    """Let faults end, and recovery too."""
    world.loss = 0.0
    world.run(seconds)
    world.check_everybody_has_all()
    world.check_all_is_stable()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_one_node_has_all_get_and_then_all_is_quiet(protocol: str) -> None:
    """Quiescence: with nothing new, there are no rounds."""
    world = World(Scope("top", protocol, list("abcde")))
    world.run(0.2)
    for _ in range(5):
        world.publish("a", 10, reach=0.5)
        world.run(0.05)
    settle(world, 3.0)
    before = world.messages
    world.run(5.0)
    assert world.messages == before


@pytest.mark.slow
@pytest.mark.parametrize(("upper", "lower"), [*product(PROTOCOLS, PROTOCOLS)])
def test_protocols_nest_in_any_mixture(upper: str, lower: str) -> None:
    """Nobody outside of a scope gets anything from its sender, and all have it in the end."""
    tree = Scope(
        "top",
        upper,
        [Scope("top/x", lower, list("abc")), Scope("top/y", "ring", list("de")), "f"],
    )
    world = World(tree, loss=0.05)
    world.run(0.2)
    for _ in range(3):
        world.publish("b", 5, reach=0.0)
        world.publish("e", 5, reach=0.3)
        world.run(0.1)
    settle(world, 4.0)
    before = world.messages
    world.run(2.0)
    assert world.messages == before


def trouble(seed: int) -> None:
    """Draw a tree and faults from a seed, and check that all survivors agree in the end."""
    rng = Rng(seed)
    tree = draw_tree(rng, 2 + rng.below(3))
    world = World(tree, seed=seed, loss=rng.choice((0.0, 0.05, 0.3)))
    world.run(0.3)
    for step in range(12):
        alive = world.members()
        for _ in range(1 + rng.below(3)):
            world.publish(rng.choice(alive).name, 1 + rng.below(20), reach=rng.uniform())
        world.run(0.2 * rng.uniform())
        fault = rng.below(8)
        if fault == 0 and len(alive) > 3:
            world.crash(rng.choice(alive).name)
        elif fault == 1:
            world.join(rng.choice(sorted(world.scopes)), f"late{step}")
        elif fault == 2:
            rng.choice(alive).frozen_until = world.now + 0.5 * rng.uniform()
        elif fault == 3 and len(alive) > 3:
            # The host of the agents of the whole tree.
            world.crash(world.way(tree)[-1], detect_s=0.1)
    settle(world, 12.0)


LARGE = (0, 5, 9, 17)
"""Seeds of trees that take as long as all others; ``make sim`` runs many such as a whole."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in range(20) if seed not in LARGE])
def test_survivors_of_any_trouble_agree(seed: int) -> None:
    """Replay one: ``trouble(seed)``."""
    trouble(seed)
