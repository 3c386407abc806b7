"""When two worlds are the same to a protocol.

Numbers of views and rounds only matter by their order, and names of nodes not at all unless the
program speaks of addresses: what matters is who has been there longer. So worlds that differ in
nothing else share a key, and rounds that change nothing lead nowhere new.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from quicksilver.properties.plan import Expression, Other, Plan, Read, Self, Where, walk
from quicksilver.properties.run.state import Domain, Slot, Version
from quicksilver.properties.values.kinds import AddressKind, Kind, MapKind, PairKind, SetKind
from quicksilver.properties.verify.world import Late, Model, Post, World
from quicksilver.recovery.domains import Name

Pair = tuple[int, int]


def speaks_of_addresses(plan: Plan) -> bool:
    """Whether it makes a difference to a program what nodes are called."""
    kinds = [each.kind for each in plan.properties]
    kinds += [kind for event in plan.callbacks for _, kind in event.parameters]
    expressions: list[Expression] = [rule.value for rule in plan.rules]
    expressions += [rule.key for rule in plan.rules if rule.key is not None]
    expressions += [condition.value for condition in plan.conditions]
    expressions += [claim.body for claim in (*plan.invariants, *plan.eventualities)]
    return any(_has_address(kind) for kind in kinds) or any(
        isinstance(part, Self | Other) for each in expressions for part in walk(each)
    )


def _has_address(kind: Kind) -> bool:
    match kind:
        case AddressKind():
            return True
        case SetKind(item):
            return _has_address(item)
        case PairKind(first, second):
            return _has_address(first) or _has_address(second)
        case MapKind(key, value):
            return _has_address(key) or _has_address(value)
        case _:
            return False


def ordered_by_age(plan: Plan) -> frozenset[int]:
    """Return the properties of which it matters which value is fresher: those that ``mono`` rules
    copy. Of what ``mono`` rules gather the newest round decides."""
    found: set[int] = set()
    for rule in plan.rules:
        if rule.is_mono and rule.aggregation is None:
            found.add(rule.target)
            found.update(
                each.property
                for each in walk(rule.value)
                if isinstance(each, Read) and each.where is Where.PARENT
            )
    return frozenset(found)


def judged_by_view(plan: Plan) -> frozenset[int]:
    """Return the properties of which it matters whether a domain computed them in this view."""
    return frozenset(
        rule.aggregation.property
        for rule in plan.rules
        if rule.is_strict and rule.aggregation is not None
    )


class Canonical:
    """Makes keys of worlds."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.is_named = speaks_of_addresses(model.plan)
        self.ordered = ordered_by_age(model.plan)
        self.judged = judged_by_view(model.plan)
        announced = model.plan.announced
        self.ordered_words = frozenset(at for at, p in enumerate(announced) if p in self.ordered)

    def key(self, world: World) -> object:
        """Return something that is equal for worlds that are the same to the protocol."""
        return _Key(self._model, world, self).make()


class _Key:
    def __init__(self, model: Model, world: World, rules: Canonical) -> None:
        self._model = model
        self._world = world
        self._rules = rules
        self._is_named = rules.is_named
        self._views = {view.name: view.number for view in world.views}
        self._pairs: dict[Name, set[Pair]] = defaultdict(set)
        self._ranks: dict[Name, dict[Pair, int]] = {}
        self._late: dict[Name, list[Pair]] = defaultdict(list)
        """Numbers of rounds that are late, by their domain."""

    def make(self) -> object:
        world = self._world
        living = sorted(
            (post.number, slot, post) for slot, post in enumerate(world.posts) if post is not None
        )
        for late in world.late:
            self._late[late.name].append((late.word.view, late.word.round))
            self._note(late.word.slots, self._slot(late), self._rules.ordered_words)
        for each in self._late.values():
            each.sort()
        if self._rules.ordered:
            for _, slot, post in living:
                for domain in (post.node, *(domain for _, domain in post.led)):
                    self._note(domain.slots, slot, self._rules.ordered)
            for name, pairs in self._pairs.items():
                self._ranks[name] = {pair: at for at, pair in enumerate(sorted(pairs))}
        order = {number: at for at, (number, _, _) in enumerate(living)}
        rounds = {name: domain for _, _, post in living for name, domain in post.led}
        return (
            world.faults,
            world.has_begun,
            self._shape(),
            tuple(self._post(slot, post) for _, slot, post in living),
            tuple(sorted((self._of_late(each, order, rounds) for each in world.late), key=repr)),
        )

    def _slot(self, late: Late) -> int:
        return self._model.members(self._world, late.name)[0]

    def _shape(self) -> object:
        """Return who is where: for slots in order, how senior the node is, or that there is none.

        Slots of a domain, and domains of a domain, are in the order of their seniority.
        """
        numbers = [None if post is None else post.number for post in self._world.posts]
        if self._is_named:
            living = sorted(number for number in numbers if number is not None)
            return tuple(-1 if n is None else living.index(n) for n in numbers)
        living = sorted(number for number in numbers if number is not None)
        groups: list[Any] = [len(living) if n is None else living.index(n) for n in numbers]
        while len(groups) > 1:
            size = self._model.size
            groups = [
                tuple(sorted(groups[at : at + size], key=_first))
                for at in range(0, len(groups), size)
            ]
        return groups[0]

    # Which values are older

    def _around(self, height: int, slot: int) -> Name:
        """Return the domain of a height that a slot is in; ``height``: 1 for the lowest."""
        return height - 1, slot // self._model.size**height

    def _note(self, slots: tuple[Slot, ...], slot: int, ordered: frozenset[int]) -> None:
        for at in ordered:
            height, view, number = slots[at].version
            if height:
                self._pairs[self._around(height, slot)].add((view, number))

    def _age(self, version: Version, slot: int) -> object:
        height, view, number = version
        if not height:
            return 0
        return height, self._ranks[self._around(height, slot)][view, number]

    # Parts of the key

    def _post(self, slot: int, post: Post) -> object:
        return (
            self._domain(post.node, slot),
            tuple(self._domain(domain, slot) for _, domain in post.led),
            post.given,
        )

    def _domain(self, domain: Domain, slot: int) -> object:
        height = domain.height
        seen = 0
        if height < self._model.height and self._late:
            late = self._late.get(self._around(height + 1, slot), ())
            seen = sum(number > domain.seen for number in late)
        slots = domain.slots
        return (
            tuple(each.value for each in slots),
            tuple(self._age(slots[at].version, slot) for at in self._rules.ordered),
            tuple(
                slots[at].version.height == height and slots[at].version.view == domain.view
                for at in self._rules.judged
            )
            if height
            else (),
            domain.standing,
            domain.above,
            seen,
            domain.is_settled,
            domain.is_beginning,
            domain.compared,
        )

    def _of_late(self, late: Late, order: dict[int, int], rounds: dict[Name, Domain]) -> object:
        slot = self._slot(late)
        word = late.word
        members = self._model.layout(self._world)[late.name].members
        report = late.report._replace(latest=0, is_changed=False)
        return (
            late.name[0],
            order[members[0]],
            self._late[late.name].index((word.view, word.round)),
            word.round == rounds[late.name].round,
            word.is_beginning,
            word.standings,
            tuple(each.value for each in word.slots),
            tuple(self._age(word.slots[at].version, slot) for at in self._rules.ordered_words),
            word.compared,
            None if late.is_over else report,
            tuple(order[number] for number in late.waiting if number in order),
        )


def _first(group: Any) -> Any:
    """Return the most senior of a group."""
    return _first(group[0]) if isinstance(group, tuple) else group
