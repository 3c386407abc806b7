"""From expressions of the tree to those of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from quicksilver.properties import plan
from quicksilver.properties.check.context import Context
from quicksilver.properties.check.typing import HALVES
from quicksilver.properties.syntax import tree
from quicksilver.properties.values.kinds import (
    IntSetKind,
    Kind,
    MapKind,
    Value,
    default_of,
    is_collection,
)

UNARIES = {
    "NOT": plan.Unary.NOT,
    "MINUS": plan.Unary.NEGATE,
    "SIZE": plan.Unary.SIZE,
    "MIN": plan.Unary.LEAST,
    "MAX": plan.Unary.GREATEST,
}
BINARIES = {
    "PLUS": plan.Binary.ADD,
    "MINUS": plan.Binary.SUBTRACT,
    "TIMES": plan.Binary.MULTIPLY,
    "DIVIDE": plan.Binary.DIVIDE,
    "EQUAL": plan.Binary.EQUAL,
    "UNEQUAL": plan.Binary.UNEQUAL,
    "LESS": plan.Binary.LESS,
    "LESS_EQUAL": plan.Binary.LESS_EQUAL,
    "GREATER": plan.Binary.GREATER,
    "GREATER_EQUAL": plan.Binary.GREATER_EQUAL,
    "AND": plan.Binary.AND,
    "OR": plan.Binary.OR,
    "UNION": plan.Binary.UNION,
    "INTERSECTION": plan.Binary.INTERSECTION,
    "DIFFERENCE": plan.Binary.DIFFERENCE,
    "IN": plan.Binary.IN,
    "SUBSET": plan.Binary.SUBSET,
}
AGGREGATES = {
    "UNION": plan.Aggregate.UNION,
    "INTERSECTION": plan.Aggregate.INTERSECTION,
    "MIN": plan.Aggregate.MINIMUM,
    "MAX": plan.Aggregate.MAXIMUM,
    "PLUS": plan.Aggregate.SUM,
    "AND": plan.Aggregate.AND,
    "OR": plan.Aggregate.OR,
    "top": plan.Aggregate.TOP,
}


class Expressions:
    """Compiles the expressions of one checked program."""

    def __init__(self, context: Context, constants: Mapping[str, Value]) -> None:
        self._context = context
        self._constants = constants
        self._variables: tuple[str, ...] = ()

    def compile(self, node: tree.Expression, variables: tuple[str, ...] = ()) -> plan.Expression:
        """Return an expression of the plan; ``variables`` are those that are bound around it."""
        self._variables = variables
        return self._compile(node)

    def position(self, name: str) -> int:
        """Return the position of a property."""
        return self._context.symbols.positions[name]

    def _compile(self, node: tree.Expression) -> plan.Expression:
        match node:
            case tree.Number(value) | tree.Truth(value):
                return plan.Literal(value)
            case tree.Self():
                return plan.Self()
            case tree.Reference():
                return self._compile_reference(node)
            case tree.Half(name, half):
                where = plan.Where.OTHER if half.text == "y" else plan.Where.HERE
                return plan.Read(self.position(name.text), where)
            case tree.Split(name):
                return plan.Read(self.position(name.text), plan.Where.PARENT, is_share=True)
            case tree.Children(aggregator, name):
                count = 0
                if aggregator.count is not None:
                    count = self._number(aggregator.count)
                return plan.Children(AGGREGATES[aggregator.name], self.position(name.text), count)
            case tree.Unary("MINUS", tree.Number(value)):
                return plan.Literal(-value)
            case tree.Unary(operator, operand):
                return plan.UnaryOperation(UNARIES[operator], self._compile(operand))
            case tree.Binary("IMPLIES", left, right):
                negated = plan.UnaryOperation(plan.Unary.NOT, self._compile(left))
                return plan.BinaryOperation(plan.Binary.OR, negated, self._compile(right))
            case tree.Binary(operator, left, right):
                return plan.BinaryOperation(
                    BINARIES[operator], self._compile(left), self._compile(right)
                )
            case tree.Conditional(condition, then, otherwise):
                return plan.Choice(
                    self._compile(condition), self._compile(then), self._compile(otherwise)
                )
            case tree.SetOf():
                return self._compile_set(node)
            case tree.Pair(first, second):
                return plan.MakePair(self._compile(first), self._compile(second))
            case tree.Part(operand, part):
                which = plan.Unary.FIRST if part == "first" else plan.Unary.SECOND
                return plan.UnaryOperation(which, self._compile(operand))
            case tree.LookUp(operand, key):
                kind = self._kind(operand)
                assert isinstance(kind, MapKind)
                missing = default_of(kind.value) if is_collection(kind.value) else None
                return plan.Lookup(self._compile(operand), self._compile(key), missing)
            case _:
                assert_never(node)

    def _compile_reference(self, node: tree.Reference) -> plan.Expression:
        name = node.name.text
        if node.of is not None:
            at = self.position(name)
            if node.of.text == "parent":
                return plan.Read(at, plan.Where.PARENT)
            if node.of.text == "global":
                return plan.Read(at, plan.Where.GLOBAL)
            return plan.ReadAt(node.of.text, at)
        if name in self._variables:
            return plan.Variable(name)
        if name in self._constants:
            return plan.Literal(self._constants[name])
        if name in HALVES and name not in self._context.symbols.positions:
            return plan.Other() if name == "y" else plan.Self()
        return plan.Read(self.position(name))

    def _compile_set(self, node: tree.SetOf) -> plan.Expression:
        kind = self._kind(node)
        if not node.items:
            return plan.Literal(default_of(kind))
        if isinstance(kind, IntSetKind):
            parts: list[tuple[plan.Expression, plan.Expression]] = []
            for item in node.items:
                if isinstance(item, tree.Range):
                    parts.append((self._compile(item.first), self._compile(item.last)))
                else:
                    number = self._compile(item)
                    parts.append((number, number))
            return plan.NumberSet(tuple(parts))
        items = [item for item in node.items if not isinstance(item, tree.Range)]
        if isinstance(kind, MapKind):
            pairs = [self.entry(item) for item in items]
            return plan.MakeMap(tuple(pairs))
        return plan.ItemSet(tuple(self._compile(item) for item in items))

    def entry(self, node: tree.Expression) -> tuple[plan.Expression, plan.Expression]:
        """Return the key and the value of an entry of a map that is written as a pair."""
        if isinstance(node, tree.Pair):
            return self._compile(node.first), self._compile(node.second)
        whole = self._compile(node)
        return (
            plan.UnaryOperation(plan.Unary.FIRST, whole),
            plan.UnaryOperation(plan.Unary.SECOND, whole),
        )

    def _kind(self, node: tree.Node) -> Kind:
        return self._context.typing.of(node)

    def _number(self, node: tree.Expression) -> int:
        value = self.constant(node)
        return value if isinstance(value, int) else 0

    def constant(self, node: tree.Expression) -> Value | None:
        """Return the value of an expression that reads nothing; None if it has none."""
        from quicksilver.properties.run import expressions

        found: Value | None = expressions.evaluator(self.compile(node))(expressions.Context())
        return found
