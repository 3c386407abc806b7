"""Formulas of past-time temporal logic as data.

Everything that can be written is expressed by few operators: ``or`` and
``implies`` by ``not`` and ``and``, ``historically`` by ``once``, ``everywhere`` by
``somewhere``. A formula holds or does not at an instance of an endpoint after
each of the instance's events; ``once``, ``since`` and ``previous`` look back over
the events of that instance, ``somewhere`` looks at the latest state of every
instance that has had an event.

Variables stand for all values at once: a formula with variables must hold
whatever values they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias, assert_never

import msgspec

from quicksilver.live.formalisms.structure import Place

Operator: TypeAlias = Literal["==", "<", "<="]


class Variable(msgspec.Struct, frozen=True):
    """A name for a value, the same wherever the name occurs in a formula."""

    name: str


class Constant(msgspec.Struct, frozen=True):
    """A value written in the formula; the kind tells 1 from true."""

    kind: Literal["none", "bool", "number", "str"]
    value: bool | int | float | str | None


Operand: TypeAlias = Variable | Constant


class Truth(msgspec.Struct, frozen=True):
    """True or false, always."""

    value: bool


class Occurs(msgspec.Struct, frozen=True):
    """The event is of this kind."""

    place: Place


class Matches(msgspec.Struct, frozen=True):
    """The event is of this kind, and a part of its value is the operand; path "" is all of it."""

    place: Place
    path: str
    operand: Operand


class Compares(msgspec.Struct, frozen=True):
    """A relation between values, the same at all times."""

    operator: Operator
    left: Operand
    right: Operand


class Not(msgspec.Struct, frozen=True):
    """The body does not hold."""

    body: Formula


class And(msgspec.Struct, frozen=True):
    """All parts hold."""

    parts: tuple[Formula, ...]


class Once(msgspec.Struct, frozen=True):
    """The body holds now or held at an earlier event of this instance."""

    body: Formula


class Previous(msgspec.Struct, frozen=True):
    """There is an earlier event of this instance, and the body held at the last of them."""

    body: Formula


class Since(msgspec.Struct, frozen=True):
    """``start`` holds now, or held at some event after which ``hold`` has held ever since."""

    hold: Formula
    start: Formula


class Somewhere(msgspec.Struct, frozen=True):
    """The body holds at the latest event of some instance. Quantifiers do not nest."""

    body: Formula


Formula: TypeAlias = (
    Truth | Occurs | Matches | Compares | Not | And | Once | Previous | Since | Somewhere
)


def either(*parts: Formula) -> Formula:
    """Return the formula that says that some part holds."""
    return parts[0] if len(parts) == 1 else Not(And(tuple(map(negate, parts))))


def negate(body: Formula) -> Formula:
    """Return the opposite, without two negations in a row."""
    return body.body if isinstance(body, Not) else Not(body)


def implication(given: Formula, then: Formula) -> Formula:
    """Return the formula that says: if ``given`` holds, so does ``then``."""
    return Not(And((given, negate(then))))


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """Return the formulas directly inside one."""
    match formula:
        case Truth() | Occurs() | Matches() | Compares():
            return ()
        case Not() | Once() | Previous() | Somewhere():
            return (formula.body,)
        case And():
            return formula.parts
        case Since():
            return (formula.hold, formula.start)
    assert_never(formula)


def walk(formula: Formula) -> Iterator[Formula]:
    """Yield a formula and everything inside it."""
    pending = [formula]
    while pending:
        one = pending.pop()
        yield one
        pending.extend(parts_of(one))


def rewrite(formula: Formula, change: Callable[[Formula], Formula]) -> Formula:
    """Return the formula with every part changed, from the inside out."""

    def inner(one: Formula) -> Formula:
        return rewrite(one, change)

    match formula:
        case Truth() | Occurs() | Matches() | Compares():
            return change(formula)
        case Not():
            return change(negate(inner(formula.body)))
        case Once():
            return change(Once(inner(formula.body)))
        case Previous():
            return change(Previous(inner(formula.body)))
        case Somewhere():
            return change(Somewhere(inner(formula.body)))
        case And():
            return change(And(tuple(map(inner, formula.parts))))
        case Since():
            return change(Since(inner(formula.hold), inner(formula.start)))
    assert_never(formula)


def variables_of(formula: Formula) -> list[Variable]:
    """Return the variables of a formula, sorted by name."""
    found: set[Variable] = set()
    for one in walk(formula):
        if isinstance(one, Matches):
            operands: tuple[Operand, ...] = (one.operand,)
        elif isinstance(one, Compares):
            operands = (one.left, one.right)
        else:
            continue
        found.update(operand for operand in operands if isinstance(operand, Variable))
    return sorted(found, key=lambda variable: variable.name)


def compare(operator: str, left: Operand, right: Operand) -> Formula:
    """Return a comparison in its one form: ``==``, ``<`` or ``<=``, or the opposite of one."""
    if operator == "!=":
        return Not(compare("==", left, right))
    if operator in {">", ">="}:
        return compare("<" if operator == ">" else "<=", right, left)
    if operator in {"==", "="}:
        if left == right:
            return Truth(True)
        first, second = sorted((left, right), key=repr)
        return Compares("==", first, second)
    if operator == "<":
        return Truth(False) if left == right else Compares("<", left, right)
    assert operator == "<="
    return Compares("<=", left, right)


def is_late(formula: Formula) -> bool:
    """Say whether it is a comparison that can only be judged once its values are known.

    That two unknown values are equal or not can be assumed beforehand; how one
    compares to a constant, or which is greater, cannot.
    """
    if not isinstance(formula, Compares):
        return False
    both = isinstance(formula.left, Variable) and isinstance(formula.right, Variable)
    return formula.operator != "==" or not both
