"""How an engine is broken on purpose, and what brings it to light."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from quicksilver.trials.draw import Membership, Plan
from quicksilver.trials.faults import AnyFault, Loss

Scene = Callable[[int], Plan]
"""Draws a trial from a seed that gives a mistake the chance to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One mistake, as somebody might make it."""

    name: str
    what: str
    """What is broken, in a sentence."""
    install: Callable[[], AbstractContextManager[None]]
    """Breaks the engine for as long as the context lasts."""
    scene: Scene
    caught_by: tuple[str, ...]
    """Checks that must find it: each of them, within ``seeds`` trials."""
    seeds: int = 1
    """Trials, with seeds from 1 on, within which it is found."""


@contextmanager
def patched(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace an attribute of a class or module, and put it back whatever happens."""
    original = vars(owner)[name]
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def all_of(*patches: AbstractContextManager[None]) -> Iterator[None]:
    """Several at once."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def returning(value: Any) -> Callable[..., Any]:
    """Return a function that does nothing but return a value."""

    def replacement(*_: object) -> Any:
        return value

    return replacement


# Scenes


def scene(*faults: AnyFault, nodes: int = 4, **changes: Any) -> Scene:
    """Return trials with one group of everybody and the faults named."""
    everybody = tuple(range(nodes))
    values: dict[str, Any] = {
        "nodes": nodes,
        "memberships": (Membership(group="g0", members=everybody),),
        "faults": faults,
        "seconds": 2.0,
        "interval_s": 0.05,
        "burst": 6,
        "sizes": (300,),
        "is_modelled": False,
        **changes,
    }

    def draw(seed: int) -> Plan:
        return Plan(seed=seed, **values)

    return draw


FROM_OUTSIDE: dict[str, Any] = {
    "memberships": (Membership(group="g0", members=(1, 2), openers=(0,)),)
}
"""For three nodes: one sends, the others are the group."""


def losses(*nodes: int, rate: float = 0.2, at: float = 0.3, for_s: float = 1.7) -> list[AnyFault]:
    """Datagrams to these nodes are lost."""
    return [Loss(at=at, for_s=for_s, node=node, rate=rate) for node in nodes]
