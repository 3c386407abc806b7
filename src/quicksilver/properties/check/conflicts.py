"""Two rules that both assign one property in one place undo each other's work."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, Write, label_of, writes_of
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree

_WHERE = {"node": "in nodes", "inner": "in domains", "root": "in the domain at the top"}


def check(context: Context) -> Iterator[Diagnostic]:
    seen: list[Write] = []
    for write in writes_of(context):
        statement = write.statement
        if write.operator == "BECOMES" and statement.key is None:
            for before in seen:
                shared = [level for level in before.levels if level in write.levels]
                if before.name == write.name and shared and before.statement.key is None:
                    yield from _compare(before, write, shared[0], context)
        seen.append(write)


def _compare(before: Write, write: Write, level: str, context: Context) -> Iterator[Diagnostic]:
    rule, other = write.statement, before.statement
    if not isinstance(other, tree.Rule):
        return  # Two bindings wait for different events.
    label = label_of(other, context)
    where = _WHERE[level]
    if isinstance(rule, tree.Rule) and before.operator == "BECOMES":
        yield Diagnostic(
            code="conflicts",
            span=rule.span,
            text=f"{write.name} is assigned here and by {label}, both {where}",
            why="the later one always wins",
            suggestion="merge with ∪=, max= or the like, or say global or local",
        )
    elif isinstance(rule, tree.Rule):
        yield Diagnostic(
            code="conflicts",
            span=rule.span,
            text=f"this replaces what {label} has merged into {write.name} {where}",
            suggestion=f"put it before {label}",
            severity="warning",
        )
    elif before.operator == "BECOMES":
        yield Diagnostic(
            code="conflicts",
            span=rule.span,
            text=f"{label} replaces in every round what this binding assigns to {write.name}",
            suggestion="give the binding a property of its own",
            severity="warning",
        )
