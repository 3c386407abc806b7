"""When two worlds are the same to a protocol.

Numbers of views and rounds only matter by their order, and names of nodes not at all unless the
program speaks of addresses: what matters is who has been there longer. So worlds that differ in
nothing else share a key, and rounds that change nothing lead nowhere new.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from quicksilver.properties.plan import Expression, Other, Plan, Self, walk
from quicksilver.properties.run.state import Domain, Report, Slot, Version
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


class Canonical:
    """Makes keys of worlds."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._is_named = speaks_of_addresses(model.plan)

    def key(self, world: World) -> object:
        """Return something that is equal for worlds that are the same to the protocol."""
        return _Key(self._model, world, is_named=self._is_named).make()


class _Key:
    def __init__(self, model: Model, world: World, *, is_named: bool) -> None:
        self._model = model
        self._world = world
        self._is_named = is_named
        self._views = {view.name: view.number for view in world.views}
        self._pairs: dict[Name, set[Pair]] = defaultdict(set)
        self._ranks: dict[Name, dict[Pair, int]] = {}

    def make(self) -> object:
        world = self._world
        living = sorted(
            (post.number, slot, post) for slot, post in enumerate(world.posts) if post is not None
        )
        for _, slot, post in living:
            self._note(post.node, slot)
            for _, domain in post.led:
                self._note(domain, slot)
        for late in world.late:
            slot = self._slot(late)
            self._pairs[late.name].add((late.word.view, late.word.round))
            self._pairs[late.name].add((late.word.view, late.report.latest))
            self._note_slots(late.word.slots, slot)
        for name, pairs in self._pairs.items():
            self._ranks[name] = {pair: at for at, pair in enumerate(sorted(pairs))}
        order = {number: at for at, (number, _, _) in enumerate(living)}
        return (
            world.faults,
            world.has_begun,
            self._shape(),
            tuple(self._post(slot, post) for _, slot, post in living),
            tuple(sorted((self._late(late, order) for late in world.late), key=repr)),
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

    # Which numbers of views and rounds there are

    def _around(self, height: int, slot: int) -> Name:
        """Return the domain of a height that a slot is in; ``height``: 1 for the lowest."""
        return height - 1, slot // self._model.size**height

    def _note(self, domain: Domain, slot: int) -> None:
        self._note_slots(domain.slots, slot)
        if domain.height:
            self._pairs[self._around(domain.height, slot)].add((domain.view, domain.round))
        if domain.height < self._model.height:
            self._pairs[self._around(domain.height + 1, slot)].add(domain.seen)

    def _note_slots(self, slots: tuple[Slot, ...], slot: int) -> None:
        for each in slots:
            height, view, number = each.version
            if height:
                self._pairs[self._around(height, slot)].add((view, number))

    # Parts of the key

    def _post(self, slot: int, post: Post) -> object:
        return (
            self._domain(post.node, slot),
            tuple((domain.height, self._domain(domain, slot)) for _, domain in post.led),
            post.given,
        )

    def _domain(self, domain: Domain, slot: int) -> object:
        seen: object = ()
        if domain.height < self._model.height:
            around = self._around(domain.height + 1, slot)
            seen = (self._ranks[around][domain.seen], domain.seen[0] == self._views[around])
        mine: object = ()
        if domain.height:
            name = self._around(domain.height, slot)
            mine = (
                self._ranks[name][domain.view, domain.round],
                domain.is_settled,
                domain.is_beginning,
                domain.compared,
            )
        slots = self._slots(domain.slots, slot)
        return slots, domain.standing, domain.above, seen, mine

    def _slots(self, slots: tuple[Slot, ...], slot: int) -> object:
        return tuple((each.value, self._version(each.version, slot)) for each in slots)

    def _version(self, version: Version, slot: int) -> object:
        height, view, number = version
        if not height:
            return 0
        around = self._around(height, slot)
        return height, self._ranks[around][view, number], view == self._views[around]

    def _late(self, late: Late, order: dict[int, int]) -> object:
        slot = self._slot(late)
        word, ranks = late.word, self._ranks[late.name]
        members = self._model.layout(self._world)[late.name].members
        return (
            late.name[0],
            order[members[0]],
            ranks[word.view, word.round],
            word.is_beginning,
            word.standings,
            self._slots(word.slots, slot),
            word.compared,
            () if late.is_over else self._report(late.report, ranks[word.view, late.report.latest]),
            tuple(order[number] for number in late.waiting if number in order),
            late.is_over,
        )

    def _report(self, report: Report, latest: int) -> object:
        return report._replace(latest=latest, is_changed=False)


def _first(group: Any) -> Any:
    """Return the most senior of a group."""
    return _first(group[0]) if isinstance(group, tuple) else group
