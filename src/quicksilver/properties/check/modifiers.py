"""``all`` and ``strict`` are about what members say; no modifier stands twice."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, label_of
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    for rule in context.program.rules:
        gathers = any(isinstance(node, tree.Children) for node in rule.walk())
        seen: set[str] = set()
        for modifier in rule.modifiers:
            if modifier.name in seen:
                yield Diagnostic(
                    code="modifiers", span=modifier.span, text=f"{modifier.name} stands there twice"
                )
            elif modifier.name != "mono" and not gathers:
                yield Diagnostic(
                    code="modifiers",
                    span=modifier.span,
                    text=f"{modifier.name} says which members count, "
                    f"and {label_of(rule, context)} asks no members",
                    suggestion=f"leave out {modifier.name}, or read children(...)",
                )
            seen.add(modifier.name)
