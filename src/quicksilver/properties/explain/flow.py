"""The data flow of a plan: which rule carries values from where to where.

Properties have an instance at three levels: nodes, domains above them, and the whole system at the
top. A rule is a set of arrows between such instances; bindings lead from and to the application.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from quicksilver.properties import plan
from quicksilver.properties.explain.notation import AGGREGATES, MERGES, Notation


class Level(enum.IntEnum):
    """Where an instance is, from below."""

    APPLICATION = 0
    NODE = 1
    DOMAIN = 2
    TOP = 3


@dataclass(frozen=True, slots=True, order=True)
class Box:
    """An instance of a property at a level, or an event of the application."""

    level: Level
    name: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A value that goes from one box to another."""

    origin: Box
    target: Box
    label: str
    """That of the rule or binding."""
    how: str
    """What becomes of it on the way: an operator, modifiers; empty for a plain copy."""


@dataclass(frozen=True, slots=True)
class Flow:
    """All boxes and arrows of a plan."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


ABOVE = (Level.DOMAIN, Level.TOP)


def levels_of(rule: plan.Rule) -> tuple[Level, ...]:
    """Return where a rule is carried out."""
    match rule.place:
        case plan.Place.LOCAL:
            return (Level.NODE,)
        case plan.Place.GLOBAL:
            return (Level.TOP,)
        case plan.Place.EVERYWHERE if rule.aggregation is not None:
            return ABOVE
        case plan.Place.EVERYWHERE if rule.reads_parent or rule.is_between_halves:
            return (Level.NODE, Level.DOMAIN)
        case plan.Place.EVERYWHERE:
            return (Level.NODE, *ABOVE)


def find_flow(of: plan.Plan) -> Flow:
    """Return the data flow of a plan."""
    arrows = [arrow for rule in of.rules for arrow in _arrows_of_rule(of, rule)]
    for binding in of.bindings:
        arrows += _arrows_of_binding(of, binding)
    # An arrow that two reads of one rule make is drawn once.
    arrows = list(dict.fromkeys(arrows))
    used = {box for arrow in arrows for box in (arrow.origin, arrow.target)}
    order = {each.name: at for at, each in enumerate(of.properties)}
    boxes = sorted(used, key=lambda box: (box.level, order.get(box.name, len(order)), box.name))
    return Flow(tuple(boxes), tuple(arrows))


def _arrows_of_rule(of: plan.Plan, rule: plan.Rule) -> Iterator[Arrow]:
    modifiers = [
        name
        for name, is_set in (
            ("mono", rule.is_mono),
            ("all", rule.is_all),
            ("strict", rule.is_strict),
        )
        if is_set
    ]
    merge = "" if rule.merge is plan.Merge.ASSIGN else MERGES[rule.merge]
    target = of.properties[rule.target].name
    for level in levels_of(rule):
        for node in (*plan.walk(rule.value), *(plan.walk(rule.key) if rule.key else ())):
            origin = _origin_of(of, node, level)
            if origin is None:
                continue
            gathered = ""
            if isinstance(node, plan.Children):
                gathered = AGGREGATES[node.operator] + (f"({node.count})" if node.count else "")
            if isinstance(node, plan.Read) and node.is_share:
                gathered = "select"
            how = " ".join(filter(None, (gathered, merge, ", ".join(modifiers))))
            yield Arrow(origin, Box(level, target), rule.label, how)


def _origin_of(of: plan.Plan, node: plan.Expression, level: Level) -> Box | None:
    if isinstance(node, plan.Children):
        return Box(Level(level - 1), of.properties[node.property].name)
    if isinstance(node, plan.Read):
        above = node.where is plan.Where.PARENT
        return Box(Level(level + above), of.properties[node.property].name)
    return None


def _arrows_of_binding(of: plan.Plan, binding: plan.Binding) -> Iterator[Arrow]:
    if isinstance(binding, plan.OnEvent):
        origin = Box(Level.APPLICATION, of.callbacks[binding.event].name)
    else:
        origin = Box(Level.NODE, of.properties[binding.property].name)
    for action in _walk(binding.body):
        if isinstance(action, plan.Store):
            target = Box(Level.NODE, of.properties[action.property].name)
            yield Arrow(origin, target, binding.label, MERGES[action.merge].replace(":=", ""))
        elif isinstance(action, plan.Request):
            target = Box(Level.APPLICATION, of.requests[action.event].name)
            aspect = binding.aspect.value if isinstance(binding, plan.OnUpdate) else ""
            yield Arrow(origin, target, binding.label, aspect)


def _walk(action: plan.Action) -> Iterator[plan.Action]:
    yield action
    match action:
        case plan.ForEach(_, _, body):
            yield from _walk(body)
        case plan.When(_, then, otherwise):
            yield from _walk(then)
            if otherwise is not None:
                yield from _walk(otherwise)
        case plan.Sequence(actions):
            for each in actions:
                yield from _walk(each)
        case _:
            pass


_WHERE = {
    (Level.NODE,): "in nodes",
    (Level.TOP,): "for the whole system",
    ABOVE: "in every domain",
    (Level.NODE, Level.DOMAIN): "in nodes and domains",
    (Level.NODE, *ABOVE): "everywhere",
}


def describe(of: plan.Plan) -> list[tuple[str, str]]:
    """Return the label and a sentence for each rule, condition and claim, in order."""
    notation = Notation(of)
    lines: list[tuple[str, str]] = []
    for rule in of.rules:
        name = notation.name(rule.target)
        key = "" if rule.key is None else f"[{notation.render(rule.key)}]"
        half = "(x)" if rule.is_between_halves else ""
        value = notation.render(rule.value)
        text = f"{_WHERE[levels_of(rule)]}: {name}{half}{key} {MERGES[rule.merge]} {value}"
        if rule.is_all:
            text += "; only if all regular members have said something"
        if rule.is_strict:
            text += "; only what they have computed in their present view"
        if rule.is_mono:
            text += "; never from anything older than before"
        lines.append((rule.label, text))
    for condition in of.conditions:
        text = f"a member counts once {notation.render(condition.value)}"
        lines.append((condition.label, text))
    for claims, when in ((of.invariants, "always"), (of.eventualities, "at last")):
        for claim in claims:
            who = ", ".join(each.variable for each in claim.quantified)
            of_whom = f", for all {who}" if who else ""
            lines.append((claim.label, f"{when}{of_whom}: {notation.render(claim.body)}"))
    return lines
