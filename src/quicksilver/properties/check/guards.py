"""A decision that stands on what all members say needs a condition for those who join.

Where ``P := [mono, ...] children(∩).P`` is the ground of a ``global`` decision, a node that joins
without P would take the decision back. A condition such as ``parent.P ⊆ P`` keeps it out until it
has caught up (dissertation 3.2.15, "guarded join").
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, label_of
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree

_GUARDS = {
    "INTERSECTION": "parent.{} ⊆ {}",
    "MIN": "parent.{} ≤ {}",
    "AND": "parent.{} ⇒ {}",
}


def check(context: Context) -> Iterator[Diagnostic]:
    decided = {
        node.name.text
        for rule in context.program.rules
        if rule.place == "global"
        for node in rule.walk()
        if isinstance(node, tree.Reference)
    }
    guarded = {
        node.name.text
        for condition in context.program.conditions
        for node in condition.walk()
        if isinstance(node, tree.Reference) and node.of is not None
    }
    for rule in context.program.rules:
        name = rule.name.text
        if name not in decided or name in guarded:
            continue
        if not any(modifier.name == "mono" for modifier in rule.modifiers):
            continue
        for node in rule.walk():
            if isinstance(node, tree.Children) and node.aggregator.name in _GUARDS:
                guard = _GUARDS[node.aggregator.name].format(name, name)
                yield Diagnostic(
                    code="guards",
                    span=rule.span,
                    text=f"decisions rest on {label_of(rule, context)}, and no condition guards "
                    f"{name}",
                    why="a node that joins without it would take them back",
                    suggestion=f"add the condition {guard};",
                    severity="warning",
                )
