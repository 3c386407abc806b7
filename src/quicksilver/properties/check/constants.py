"""What is fixed before the protocol runs is made of numbers and parameters alone."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for parameter in program.parameters:
        if parameter.default is not None:
            yield from _check(parameter.default, "the default of a parameter", set())
    known = set(context.symbols.parameters)
    for one in program.properties:
        if one.initial is not None:
            yield from _check(one.initial, "an initial value", known)
    for rule in program.rules:
        for node in rule.walk():
            if isinstance(node, tree.Aggregator) and node.count is not None:
                yield from _check(node.count, "the number of top(...)", known)


def _check(value: tree.Expression, what: str, known: set[str]) -> Iterator[Diagnostic]:
    for node in value.walk():
        is_known = isinstance(node, tree.Reference) and node.of is None and node.name.text in known
        reads = (tree.Reference, tree.Half, tree.Split, tree.Children, tree.Self)
        if isinstance(node, reads) and not is_known:
            hint = " and parameters" if known else ""
            yield Diagnostic(
                code="constants",
                span=node.span,
                text=f"{what} is made of constants{hint} only",
            )
