"""Values of members are put together by operators that do not care about order or grouping.

Rounds visit members in any order and domains form any tree, so an operator has to be associative
and commutative. Pairs and maps are put together item by item, so it has to fit their items.
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context
from quicksilver.properties.check.typing import sign
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.spellings import BY_TOKEN
from quicksilver.properties.values.kinds import (
    AddressKind,
    BoolKind,
    IntKind,
    IntSetKind,
    Kind,
    MapKind,
    PairKind,
    SetKind,
)

FITTING: dict[str, tuple[type, ...]] = {
    "INTERSECTION": (IntSetKind, SetKind),
    "UNION": (IntSetKind, SetKind),
    "MIN": (IntKind, AddressKind),
    "MAX": (IntKind, AddressKind),
    "PLUS": (IntKind,),
    "AND": (BoolKind,),
    "OR": (BoolKind,),
    "top": (IntSetKind, SetKind),
}
"""Operators of aggregations, and the kinds of items that each is for."""
_CHOICE = "use ∩, ∪, min, max, +, ∧, ∨ or top(n)"


def check(context: Context) -> Iterator[Diagnostic]:
    for rule in context.program.rules:
        for node in rule.walk():
            if isinstance(node, tree.Children):
                yield from _check(node, context)


def _check(node: tree.Children, context: Context) -> Iterator[Diagnostic]:
    aggregator = node.aggregator
    name = aggregator.name
    if name not in FITTING:
        shown = sign(name) if name in BY_TOKEN else name
        why = ""
        if name in {"MINUS", "DIVIDE", "DIFFERENCE"}:
            why = "the result would depend on the order of members"
        yield Diagnostic(
            code="aggregation",
            span=aggregator.span,
            text=f"{shown} does not put values of members together",
            why=why,
            suggestion=_CHOICE,
        )
        return
    if isinstance(aggregator.count, tree.Number) and aggregator.count.value < 1:
        yield Diagnostic(
            code="aggregation", span=aggregator.count.span, text="top(...) keeps at least one item"
        )
    kind = context.symbols.kinds.get(node.name.text)
    if kind is None:
        return
    items = [kind] if name == "top" else list(_items(kind))
    for item in items:
        if not isinstance(item, FITTING[name]):
            shown = name if name == "top" else sign(name)
            within = "" if item == kind else f" in a {kind}"
            yield Diagnostic(
                code="aggregation",
                span=node.span,
                text=f"{shown} does not fit {node.name.text}: it is not for {item}{within}",
                suggestion=_CHOICE,
            )
            return


def _items(kind: Kind) -> Iterator[Kind]:
    """Yield the kinds that an operator meets, item by item."""
    if isinstance(kind, PairKind):
        yield from _items(kind.first)
        yield from _items(kind.second)
    elif isinstance(kind, MapKind):
        yield from _items(kind.value)
    else:
        yield kind
