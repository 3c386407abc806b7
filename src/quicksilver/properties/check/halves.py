"""``x`` and ``y`` stand for two halves of a scope, so a rule has both or none (Table 2)."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, label_of
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    for rule in context.program.rules:
        if rule.half is None:
            continue
        nodes = list(rule.walk())
        if not any(_is_y(node) for node in nodes):
            yield Diagnostic(
                code="halves",
                span=rule.half.span,
                text=f"{label_of(rule, context)} assigns to one half and does not read the other",
                suggestion=f"read P(y), or assign to {rule.name.text}",
            )
        if rule.place is not None:
            yield Diagnostic(
                code="halves",
                span=rule.name.span,
                text=f"{label_of(rule, context)} is {rule.place}, and compares two members",
                suggestion=f"leave out {rule.place}",
            )
        for node in nodes:
            if isinstance(node, tree.Children | tree.Split) or (
                isinstance(node, tree.Reference) and node.of is not None
            ):
                yield Diagnostic(
                    code="halves",
                    span=node.span,
                    text="a rule about halves reads the two halves only",
                    suggestion="take the other value with a rule of its own",
                )


def _is_y(node: tree.Node) -> bool:
    if isinstance(node, tree.Half):
        return node.half.text == "y"
    return isinstance(node, tree.Reference) and node.of is None and node.name.text == "y"
