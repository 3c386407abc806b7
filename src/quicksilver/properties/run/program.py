"""A plan made ready to be carried out: its rules as functions, sorted by where they act."""

from __future__ import annotations

from dataclasses import dataclass

from quicksilver.properties.plan import (
    Aggregate,
    Children,
    Expression,
    Place,
    Plan,
    Read,
    Rule,
    Where,
    walk,
)
from quicksilver.properties.run.actions import Bindings
from quicksilver.properties.run.expressions import Function, evaluator
from quicksilver.properties.values.kinds import MapKind, Value, default_of
from quicksilver.properties.values.operators import Operator, aggregate, top


@dataclass(frozen=True, slots=True)
class Gathering:
    """One thing that members report: several rules may use it."""

    children: Children
    is_strict: bool
    combine: Operator

    def own(self, value: Value) -> Value:
        """Return what one member's value counts as."""
        children = self.children
        if children.operator is Aggregate.TOP:
            result: Value = top(value, children.count)
            return result
        return value


@dataclass(frozen=True, slots=True)
class Prepared:
    """A rule as functions."""

    rule: Rule
    value: Function
    key: Function | None
    empty: Value
    """What the target, or its entry, begins with where an item is put into it."""
    gathering: int | None
    """Position among the program's gatherings."""
    from_parent: tuple[int, ...]
    """Properties of the parent that it reads: the result is as fresh as the oldest of them."""


class Program:
    """A plan made ready."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.bindings = Bindings(plan)
        self.conditions = tuple(evaluator(condition.value) for condition in plan.conditions)
        self.initial = {
            at: each.initial for at, each in enumerate(plan.properties) if each.initial is not None
        }
        """What stands for the parent's values where a system begins."""
        self.beginning = tuple(
            evaluator(condition.value)
            for condition in plan.conditions
            if _parents(condition.value) <= set(self.initial)
        )
        """Conditions that count there: the others ask for what nobody has said yet."""
        gatherings: dict[tuple[Children, bool], Gathering] = {}
        for rule in plan.rules:
            children = rule.aggregation
            if children is not None:
                combine = aggregate(children.operator, children.count)
                found = Gathering(children, rule.is_strict, combine)
                gatherings.setdefault((children, rule.is_strict), found)
        self.gatherings = tuple(gatherings.values())
        positions = {each: at for at, each in enumerate(gatherings)}
        prepared = [self._prepare(rule, positions) for rule in plan.rules]
        self.aggregating = tuple(each for each in prepared if each.gathering is not None)
        """Carried out by leaders, at the end of a round."""
        others = [each for each in prepared if each.gathering is None]
        inner = [each for each in others if each.rule.place is Place.EVERYWHERE]
        self.at_nodes = tuple(
            each for each in others if each.rule.place in {Place.EVERYWHERE, Place.LOCAL}
        )
        """Carried out by nodes that take a word."""
        self.at_members = tuple(inner)
        """Carried out by domains above nodes that take a word."""
        self.at_leaders = tuple(
            each for each in inner if not each.rule.reads_parent and not each.rule.is_between_halves
        )
        """Carried out by leaders after what they gathered."""
        globals_ = [
            each for each in others if each in self.at_leaders or each.rule.place is Place.GLOBAL
        ]
        self.at_top = tuple(globals_)
        """The same in the domain at the top."""

    def _prepare(self, rule: Rule, positions: dict[tuple[Children, bool], int]) -> Prepared:
        kind = self.plan.properties[rule.target].kind
        if rule.key is not None and isinstance(kind, MapKind):
            kind = kind.value
        children = rule.aggregation
        parents = _parents(rule.value)
        if rule.key is not None:
            parents |= _parents(rule.key)
        return Prepared(
            rule,
            evaluator(rule.value),
            None if rule.key is None else evaluator(rule.key),
            default_of(kind),
            None if children is None else positions[children, rule.is_strict],
            tuple(sorted(parents)),
        )


def _parents(expression: Expression) -> set[int]:
    """Return the properties of the parent that an expression reads."""
    return {
        each.property
        for each in walk(expression)
        if isinstance(each, Read) and each.where is Where.PARENT
    }
