"""Expressions of a plan as programs write them."""

from __future__ import annotations

from typing import assert_never

from quicksilver.properties import plan
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import Map, Value
from quicksilver.properties.values.operators import items_of

AGGREGATES = {
    plan.Aggregate.UNION: "∪",
    plan.Aggregate.INTERSECTION: "∩",
    plan.Aggregate.MINIMUM: "min",
    plan.Aggregate.MAXIMUM: "max",
    plan.Aggregate.SUM: "+",
    plan.Aggregate.AND: "∧",
    plan.Aggregate.OR: "∨",
    plan.Aggregate.TOP: "top",
}
MERGES = {
    plan.Merge.ASSIGN: ":=",
    plan.Merge.UNION: "∪=",
    plan.Merge.INTERSECTION: "∩=",
    plan.Merge.DIFFERENCE: "-=",
    plan.Merge.INSERT: "+=",
    plan.Merge.REMOVE: "-=",
    plan.Merge.ADD: "+=",
    plan.Merge.SUBTRACT: "-=",
    plan.Merge.MAXIMUM: "max=",
    plan.Merge.MINIMUM: "min=",
    plan.Merge.OR: "|=",
    plan.Merge.AND: "&=",
}
_BINARIES = {
    plan.Binary.EQUAL: "=",
    plan.Binary.UNEQUAL: "≠",
    plan.Binary.LESS_EQUAL: "≤",
    plan.Binary.GREATER_EQUAL: "≥",
    plan.Binary.AND: "∧",
    plan.Binary.OR: "∨",
    plan.Binary.UNION: "∪",
    plan.Binary.INTERSECTION: "∩",
    plan.Binary.DIFFERENCE: "\\",
    plan.Binary.IN: "∈",
    plan.Binary.SUBSET: "⊆",
}
_OWNERS = {
    plan.Where.HERE: "{}",
    plan.Where.PARENT: "parent.{}",
    plan.Where.GLOBAL: "global.{}",
    plan.Where.OTHER: "{}(y)",
}


def render_value(value: Value) -> str:
    """Return a constant as programs write it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"<{render_value(value[0])}, {render_value(value[1])}>"
        case Map():
            items = (f"<{render_value(k)}, {render_value(v)}>" for k, v in value.items())
            return "{" + ", ".join(items) + "}"
        case IntSet():
            return str(value)
        case frozenset():
            return "{" + ", ".join(render_value(item) for item in items_of(value)) + "}"
        case _:
            return str(value)


class Notation:
    """Writes expressions of one plan."""

    def __init__(self, of: plan.Plan) -> None:
        self._plan = of

    def name(self, at: int) -> str:
        return self._plan.properties[at].name

    def render(self, node: plan.Expression) -> str:
        """Return an expression; what consists of parts is in parentheses where that matters."""
        match node:
            case plan.Literal(value):
                return render_value(value)
            case plan.Read(at, where, is_share):
                if is_share:
                    return f"parent(select).{self.name(at)}"
                return _OWNERS[where].format(self.name(at))
            case plan.ReadAt(variable, at):
                return f"{variable}.{self.name(at)}"
            case plan.Children(operator, at, count):
                shown = AGGREGATES[operator] + (f"({count})" if count else "")
                return f"children({shown}).{self.name(at)}"
            case plan.Variable(name):
                return name
            case plan.Self():
                return "self"
            case plan.Other():
                return "y"
            case plan.UnaryOperation():
                return self._unary(node)
            case plan.BinaryOperation(operator, left, right):
                sign = _BINARIES.get(operator, operator.value)
                return f"{self._inner(left)} {sign} {self._inner(right)}"
            case plan.NumberSet(parts):
                return "{" + ", ".join(self._range(first, last) for first, last in parts) + "}"
            case plan.ItemSet(items):
                return "{" + ", ".join(self.render(item) for item in items) + "}"
            case plan.MakePair(first, second):
                return f"<{self._inner(first)}, {self._inner(second)}>"
            case plan.MakeMap(entries):
                pairs = (f"<{self._inner(k)}, {self._inner(v)}>" for k, v in entries)
                return "{" + ", ".join(pairs) + "}"
            case plan.Lookup(held, key, _):
                return f"{self._inner(held)}[{self.render(key)}]"
            case plan.Choice(condition, then, otherwise):
                chosen = f"{self.render(then)} else {self.render(otherwise)}"
                return f"if {self.render(condition)} then {chosen}"
            case _:
                assert_never(node)

    def _unary(self, node: plan.UnaryOperation) -> str:
        operand = self.render(node.operand)
        match node.operator:
            case plan.Unary.SIZE:
                return f"|{operand}|"
            case plan.Unary.LEAST:
                return f"min({operand})"
            case plan.Unary.GREATEST:
                return f"max({operand})"
            case plan.Unary.KEYS:
                return f"keys({operand})"
            case plan.Unary.FIRST | plan.Unary.SECOND:
                return f"{self._inner(node.operand)}.{node.operator.value}"
            case plan.Unary.NOT:
                return f"¬{self._inner(node.operand)}"
            case plan.Unary.NEGATE:
                return f"-{self._inner(node.operand)}"
            case _:
                assert_never(node.operator)

    def _inner(self, node: plan.Expression) -> str:
        text = self.render(node)
        return f"({text})" if isinstance(node, plan.BinaryOperation | plan.Choice) else text

    def _range(self, first: plan.Expression, last: plan.Expression) -> str:
        if first == last:
            return self.render(first)
        return f"{self._inner(first)}..{self._inner(last)}"
