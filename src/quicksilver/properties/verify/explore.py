"""All worlds that a program can come to, the nearest ones first.

So the first one that breaks a claim is reached by as few actions as any. What claims say is
checked in every world. From every world it is also tried what becomes of it when faults stop and
every application gives its events: then all that is to hold ``eventually`` has to hold.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from quicksilver.properties.plan import Plan
from quicksilver.properties.run.claims import Broken, Claims
from quicksilver.properties.values.kinds import Value
from quicksilver.properties.verify.canonical import Canonical
from quicksilver.properties.verify.world import Action, Faults, Given, Model, Round, Started, World

FAIR_ROUNDS_MAX = 24
"""After so many rounds of all domains without any fault, what is to hold at last holds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far to go."""

    slots: int = 3
    size: int = 2
    """Slots of a domain."""
    faults: Faults = field(default_factory=Faults)
    numbers: int = 1
    """How many different numbers events carry."""
    number_max: int = 3
    """Worlds in which a property is greater than this are not followed further."""
    worlds_max: int = 500_000


@dataclass(frozen=True, slots=True)
class Counterexample:
    """How a claim is broken."""

    model: Model
    begin: World
    actions: tuple[Action, ...]
    broken: Broken
    is_eventual: bool
    """True: the claim was to hold at last, and after these actions it never does."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found."""

    worlds: int
    """How many different ones."""
    depth: int
    """Actions from the beginning to the farthest of them."""
    is_complete: bool
    """False: there were more than the limit allows, and those farther away were not looked at."""
    counterexample: Counterexample | None


class Explorer:
    """A search through the worlds of a program."""

    def __init__(self, plan: Plan, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        limits = self._limits
        self._model = Model(plan, slots=limits.slots, size=limits.size, numbers=limits.numbers)
        self._canonical = Canonical(self._model)
        self._invariants = Claims(plan.invariants)
        self._eventualities = Claims(plan.eventualities)
        self._has_eventualities = bool(plan.eventualities)
        self._good: set[object] = set()
        """Worlds that come to what is to hold at last."""

    def run(self) -> Result:
        """Look at all worlds, or as far as the first that breaks a claim."""
        model = self._model
        begin = model.begin(self._limits.faults)
        key = self._canonical.key(begin)
        came: dict[object, tuple[object, Action] | None] = {key: None}
        depths = {key: 0}
        queue: deque[tuple[object, World]] = deque([(key, begin)])
        depth, is_complete = 0, True
        while queue:
            key, world = queue.popleft()
            depth = depths.pop(key)
            for action in model.actions(world):
                after = model.apply(world, action)
                new = self._canonical.key(after)
                if new in came:
                    continue
                came[new] = (key, action)
                broken = self._check(after)
                is_eventual = False
                if broken is None and self._has_eventualities:
                    broken = self._comes_to(after)
                    is_eventual = broken is not None
                if broken is not None:
                    actions = _way(came, new)
                    found = Counterexample(model, begin, actions, broken, is_eventual)
                    return Result(len(came), depth + 1, False, found)
                if len(came) >= self._limits.worlds_max:
                    is_complete = False
                elif not model.is_over(after) and not self._is_large(after):
                    queue.append((new, after))
                    depths[new] = depth + 1
        return Result(len(came), depth, is_complete, None)

    def _check(self, world: World) -> Broken | None:
        if self._model.is_over(world):
            return None
        return self._invariants.check(*self._model.observe(world))

    def _is_large(self, world: World) -> bool:
        limit = self._limits.number_max
        for post in world.posts:
            if post is not None:
                for slot in post.node.slots:
                    if _exceeds(slot.value, limit):
                        return True
        return False

    def _comes_to(self, world: World) -> Broken | None:
        """Try what becomes of a world without faults; return what does not hold then."""
        model = self._model
        passed: list[object] = []
        if model.is_over(world):
            return None
        for slot, post in enumerate(world.posts):
            if post is None:
                world = model.apply(
                    world._replace(faults=world.faults._replace(joins=1)), Started(slot)
                )
        for slot, post in enumerate(world.posts):
            assert post is not None
            for event in range(len(model.events)):
                if event not in post.given:
                    world = model.apply(world, Given(slot, event))
        world = world._replace(faults=Faults(0, 0, 0, 0), late=())
        broken: Broken | None = None
        for _ in range(FAIR_ROUNDS_MAX):
            key = self._canonical.key(world)
            if key in self._good:
                broken = None
                break
            if key in passed:
                break  # it does not change any more
            passed.append(key)
            for name in sorted(model.layout(world)):
                world = model.apply(world, Round(name, (), ()))
            broken = self._eventualities.check(*model.observe(world))
        if broken is None:
            self._good.update(passed)
        return broken


def _way(came: dict[object, tuple[object, Action] | None], key: object) -> tuple[Action, ...]:
    actions: list[Action] = []
    step = came[key]
    while step is not None:
        actions.append(step[1])
        step = came[step[0]]
    return tuple(reversed(actions))


def _exceeds(value: Value | None, limit: int) -> bool:
    if isinstance(value, tuple):
        return any(_exceeds(each, limit) for each in value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) > limit
