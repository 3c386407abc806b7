"""Trees of domains, drawn from a seed: two to four levels, any protocol in each."""

from __future__ import annotations

from quicksilver.stdx.rand import Rng
from tests.scopes.reliability.world import Scope

PROTOCOLS = ("ring", "star", "tree:2", "gossip:2", "requests")


def draw_tree(rng: Rng, levels: int) -> Scope:
    """Return a tree whose scopes have two to four members each."""
    count = 0

    def draw(name: str, depth: int) -> Scope:
        nonlocal count
        members: list[Scope | str] = []
        for place in range(2 + rng.below(3)):
            # Branches may differ in depth, and a scope may have nodes beside scopes.
            if depth > 1 and (place == 0 or rng.chance(0.5)):
                members.append(draw(f"{name}/{place}", depth - 1))
            else:
                count += 1
                members.append(f"n{count}")
        return Scope(name, rng.choice(PROTOCOLS), members)

    return draw("top", levels)
