"""Which way values can change: up, down, or both ways.

A set goes up when it only gains items, a number when it only grows, a bool when it only becomes
true. A direction of a property is what all its writes share, in nodes and in domains above them
apart. The greatest solution is found by beginning with both directions for all and taking away what
some write contradicts.

What members say goes one way only if members that come and go do not turn it back: with ``mono``,
gathering by ∩, min or ∧ can go up (a member that leaves takes nothing away; one that comes is
kept out by a condition), and by ∪, max or ∨ it can go down.
"""

from __future__ import annotations

from quicksilver.properties.check.context import Context, Write, writes_of
from quicksilver.properties.syntax import tree
from quicksilver.properties.values.kinds import INT

UP, DOWN = "up", "down"
BOTH = frozenset((UP, DOWN))
NEITHER: frozenset[str] = frozenset()
Directions = frozenset[str]
Known = dict[tuple[str, str], Directions]
"""Directions by property and level, which is NODE or DOMAIN."""
NODE, DOMAIN = "node", "domain"

_MERGES: dict[str, Directions] = {
    "UNION_BECOMES": frozenset((UP,)),
    "MAX_BECOMES": frozenset((UP,)),
    "OR_BECOMES": frozenset((UP,)),
    "INTERSECTION_BECOMES": frozenset((DOWN,)),
    "MIN_BECOMES": frozenset((DOWN,)),
    "AND_BECOMES": frozenset((DOWN,)),
    "PLUS_BECOMES": frozenset((UP,)),
    "MINUS_BECOMES": frozenset((DOWN,)),
}
_GATHERED: dict[str, Directions] = {
    "INTERSECTION": frozenset((UP,)),
    "MIN": frozenset((UP,)),
    "AND": frozenset((UP,)),
    "UNION": frozenset((DOWN,)),
    "MAX": frozenset((DOWN,)),
    "OR": frozenset((DOWN,)),
}
_SAME = frozenset(("UNION", "INTERSECTION", "PLUS", "AND", "OR"))
_GROWS_LEFT = frozenset(("DIFFERENCE", "MINUS", "GREATER", "GREATER_EQUAL"))
_GROWS_RIGHT = frozenset(("SUBSET", "LESS", "LESS_EQUAL", "IN", "IMPLIES"))


def nothing_known(context: Context) -> Known:
    """Return what is assumed before any write is looked at."""
    return {(name, level): BOTH for name in context.symbols.properties for level in (NODE, DOMAIN)}


def find_directions(context: Context) -> Known:
    """Return the directions of each property in nodes and in domains."""
    found = nothing_known(context)
    writes = list(writes_of(context))
    is_changing = True
    while is_changing:
        is_changing = False
        for write in writes:
            for level in sides(write.levels):
                at = (write.name, level)
                ways = found[at] & directions_of_write(write, level, found, context)
                if ways != found[at]:
                    found[at] = ways
                    is_changing = True
    return found


def sides(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of NODE and DOMAIN a write is about."""
    if levels == ("node",):
        return (NODE,)
    return (NODE, DOMAIN) if "node" in levels else (DOMAIN,)


def directions_of_write(write: Write, level: str, known: Known, context: Context) -> Directions:
    """Return the ways in which one write can move its property at a level."""
    statement = write.statement
    if write.operator != "BECOMES":
        is_number = context.typing.entry_of(statement) == INT
        if is_number and write.operator in {"PLUS_BECOMES", "MINUS_BECOMES"}:
            value = write.value
            return _MERGES[write.operator] if isinstance(value, tree.Number) else NEITHER
        return _MERGES[write.operator]
    if statement.key is not None:
        return NEITHER
    is_mono = isinstance(statement, tree.Rule) and any(
        modifier.name == "mono" for modifier in statement.modifiers
    )
    return directions_of(write.value, level, known, context, is_mono=is_mono)


def directions_of(
    node: tree.Expression, level: str, known: Known, context: Context, *, is_mono: bool
) -> Directions:
    """Return the ways in which the value of an expression can move at a level."""

    def of(part: tree.Expression) -> Directions:
        return directions_of(part, level, known, context, is_mono=is_mono)

    match node:
        case tree.Number() | tree.Truth() | tree.Self():
            return BOTH
        case tree.Reference(name, owner):
            if name.text in context.symbols.parameters:
                return BOTH
            if owner is None:
                return known.get((name.text, level), NEITHER)
            # A leader that starts again may say an old value.
            return known.get((name.text, DOMAIN), NEITHER) if is_mono else NEITHER
        case tree.Children(aggregator, name):
            if not is_mono:
                return NEITHER
            members = known.get((name.text, NODE), NEITHER) & known.get(
                (name.text, DOMAIN), NEITHER
            )
            return members & _GATHERED.get(aggregator.name, NEITHER)
        case tree.Unary("NOT" | "MINUS", operand):
            return _turned(of(operand))
        case tree.Unary("SIZE" | "MAX", operand):
            return of(operand)
        case tree.Unary("MIN", operand):
            return _turned(of(operand))
        case tree.Binary(operator, left, right):
            if operator in _SAME:
                return of(left) & of(right)
            if operator in _GROWS_LEFT:
                return of(left) & _turned(of(right))
            if operator in _GROWS_RIGHT:
                return _turned(of(left)) & of(right)
            if operator == "TIMES" and isinstance(right, tree.Number):
                return of(left)
            return BOTH if of(left) == of(right) == BOTH else NEITHER
        case tree.Pair(first, second):
            return of(first) & of(second)
        case tree.Part(operand, _):
            return of(operand)
        case tree.SetOf(items):
            plain = [item for item in items if not isinstance(item, tree.Range)]
            is_fixed = len(plain) == len(items) and all(of(item) == BOTH for item in plain)
            return BOTH if is_fixed else NEITHER
        case _:
            return NEITHER


def _turned(ways: Directions) -> Directions:
    return frozenset({UP: DOWN, DOWN: UP}[way] for way in ways)
