"""All worlds that a program can come to, the nearest ones first.

So the first one that breaks a claim is reached by as few actions as any. What claims say is
checked in every world. From every world it is also tried what becomes of it when faults stop and
every application gives its events: then all that is to hold ``eventually`` has to hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
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
    is_settled: bool = False
    """True: begin where all nodes have started and count already."""
    growth_max: int = 2
    """Worlds in which a number is greater by more than this than any was at the beginning are
    not followed further."""
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
        self._came: dict[object, tuple[object, tuple[Action, ...]] | None] = {}
        """From which world, and by what, each one was come to first."""
        self._number_max = 0
        self._good: set[object] = set()
        """Worlds that come to what is to hold at last."""

    def run(self) -> Result:
        """Look at all worlds, or as far as the first that breaks a claim."""
        model = self._model
        begin = model.begin(self._limits.faults)
        if self._limits.is_settled:
            begin = model.settle(begin)
        self._number_max = self._limits.growth_max + max(
            (_greatest(slot.value) for post in begin.posts if post for slot in post.node.slots),
            default=0,
        )
        key = self._canonical.key(begin)
        self._came = {key: None}
        queue: deque[tuple[object, World, int]] = deque([(key, begin, 0)])
        depth, is_complete = 0, True
        while queue:
            key, world, depth = queue.popleft()
            for actions, after in self._next(world):
                broken = self._check(after)
                if broken is not None:
                    return self._found(begin, key, actions, broken, depth, is_eventual=False)
                if after.due is not None:
                    continue
                new = self._canonical.key(after)
                if new in self._came:
                    continue
                self._came[new] = (key, actions)
                broken = self._comes_to(after) if self._has_eventualities else None
                if broken is not None:
                    return self._found(begin, key, actions, broken, depth, is_eventual=True)
                if len(self._came) >= self._limits.worlds_max:
                    is_complete = False
                elif not model.is_over(after) and not self._is_large(after):
                    queue.append((new, after, depth + 1))
        return Result(len(self._came), depth, is_complete, None)

    def _next(self, world: World) -> Iterator[tuple[tuple[Action, ...], World]]:
        """Yield what can be next. What lies between events and the round that they come before
        is yielded, and looked at, but not followed by anything else."""
        for action in self._model.actions(world):
            after = self._model.apply(world, action)
            yield (action,), after
            if after.due is not None:
                for actions, later in self._next(after):
                    yield (action, *actions), later

    def _found(
        self,
        begin: World,
        key: object,
        actions: tuple[Action, ...],
        broken: Broken,
        depth: int,
        *,
        is_eventual: bool,
    ) -> Result:
        step = self._came[key]
        while step is not None:
            actions = (*step[1], *actions)
            step = self._came[step[0]]
        found = Counterexample(self._model, begin, actions, broken, is_eventual)
        return Result(len(self._came), depth + 1, False, found)

    def _check(self, world: World) -> Broken | None:
        if self._model.is_over(world):
            return None
        return self._invariants.check(*self._model.observe(world))

    def _is_large(self, world: World) -> bool:
        return any(
            _greatest(slot.value) > self._number_max
            for post in world.posts
            if post is not None
            for slot in post.node.slots
        )

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
            if broken is None and self._is_large(world):
                break  # it goes on for ever, and holds
        if broken is None:
            self._good.update(passed)
        return broken


def _greatest(value: Value | None) -> int:
    """Return the greatest number that a value consists of, but for items of sets and maps."""
    if isinstance(value, tuple):
        return max(_greatest(each) for each in value)
    return abs(value) if isinstance(value, int) else 0
