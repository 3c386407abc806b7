"""What ``mono`` promises: nothing older takes the place of something newer (3.2.15).

A rule that is mono must not read a value that goes back by itself: one that another rule assigns
from members or from the parent without ``mono``. That is an error. A rule over values that grow
and shrink keeps its promise, and yet what it computes goes up and down; that is pointed out where
members are gathered by an operator that is to make a decision last (``∩``, ``min``, ``∧``).
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import (
    Context,
    Write,
    label_of,
    levels_of,
    reads_parent,
    writes_of,
)
from quicksilver.properties.check.directions import (
    DOMAIN,
    NODE,
    directions_of_write,
    find_directions,
    nothing_known,
    sides,
)
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree

_LASTING = frozenset(("INTERSECTION", "MIN", "AND"))


def check(context: Context) -> Iterator[Diagnostic]:
    rules = [rule for rule in context.program.rules if is_mono(rule)]
    writes = list(writes_of(context))
    known = find_directions(context) if rules else {}
    for rule in rules:
        for node in rule.value.walk():
            for name, level in _read_by(node, rule):
                stale = next((w for w in writes if _goes_back(w, name, level)), None)
                if stale is not None:
                    yield _stale(rule, node, name, stale, context)
                elif (
                    isinstance(node, tree.Children)
                    and node.aggregator.name in _LASTING
                    and level == NODE
                    and not known.get((name, NODE), {NODE})
                ):
                    yield Diagnostic(
                        code="monotonicity",
                        span=node.span,
                        text=f"{label_of(rule, context)} is mono, and {name} grows and shrinks",
                        why=_blame(name, context),
                        suggestion=f"let {name} only grow (+=, ∪=, max=) if decisions rest on it",
                        severity="warning",
                    )


def is_mono(rule: tree.Rule) -> bool:
    return any(modifier.name == "mono" for modifier in rule.modifiers)


def _read_by(node: tree.Node, rule: tree.Rule) -> Iterator[tuple[str, str]]:
    """Yield the properties that one part of a rule reads, and at which level."""
    match node:
        case tree.Children(_, name):
            yield name.text, NODE
            yield name.text, DOMAIN
        case tree.Split(name):
            yield name.text, DOMAIN
        case tree.Reference(name, owner) if owner is not None:
            yield name.text, DOMAIN
        case tree.Reference(name, _) | tree.Half(name, _):
            for level in sides(levels_of(rule)):
                yield name.text, level
        case _:
            pass


def _goes_back(write: Write, name: str, level: str) -> bool:
    rule = write.statement
    return (
        write.name == name
        and write.operator == "BECOMES"
        and isinstance(rule, tree.Rule)
        and not is_mono(rule)
        and level in sides(write.levels)
        and (reads_parent(rule) or any(isinstance(each, tree.Children) for each in rule.walk()))
    )


def _stale(
    rule: tree.Rule, node: tree.Node, name: str, write: Write, context: Context
) -> Diagnostic:
    assert isinstance(write.statement, tree.Rule)
    other = label_of(write.statement, context)
    return Diagnostic(
        code="monotonicity",
        span=node.span,
        text=f"{label_of(rule, context)} is mono and reads {name}, which can go back",
        why=f"{other} assigns it without mono, so an older value can take a newer one's place",
        suggestion=f"make {other} mono, or let it merge (∪=, max=)",
    )


def _blame(name: str, context: Context) -> str:
    """Return which write moves a property of nodes in no certain way."""
    calm = nothing_known(context)
    for write in writes_of(context):
        if write.name != name or "node" not in write.levels:
            continue
        if not directions_of_write(write, NODE, calm, context):
            if isinstance(write.statement, tree.Rule):
                return f"{label_of(write.statement, context)} assigns it any value"
            return "a binding assigns it any value"
    return "its rules and bindings move it both ways"
