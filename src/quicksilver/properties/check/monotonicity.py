"""``mono`` promises that nothing goes back, so such a rule reads nothing that can."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, label_of, writes_of
from quicksilver.properties.check.directions import (
    BOTH,
    directions_of_write,
    find_directions,
)
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    rules = [
        rule
        for rule in context.program.rules
        if any(modifier.name == "mono" for modifier in rule.modifiers)
    ]
    if not rules:
        return
    known = find_directions(context)
    for rule in rules:
        for node in rule.value.walk():
            if isinstance(node, tree.Reference | tree.Children | tree.Half | tree.Split):
                name = node.name.text
                if name in known and not known[name]:
                    yield Diagnostic(
                        code="monotonicity",
                        span=node.span,
                        text=f"{label_of(rule, context)} is mono and reads {name}, "
                        "which can go back",
                        why=_blame(name, context),
                        suggestion=f"let {name} only grow (∪=, max=), or leave out mono",
                    )


def _blame(name: str, context: Context) -> str:
    """Return which write moves a property both ways, or in no certain way."""
    calm = dict.fromkeys(context.symbols.properties, BOTH)
    for write in writes_of(context):
        if write.name == name and not directions_of_write(write, calm, context):
            if isinstance(write.statement, tree.Rule):
                return f"{label_of(write.statement, context)} assigns it any value"
            return "a binding assigns it any value"
    return "its rules and bindings move it both ways"
