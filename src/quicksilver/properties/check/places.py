"""Each kind of statement reads only what is known where it is carried out.

Rules read their own domain, its parent and its members; conditions a member and its parent;
bindings the node alone; invariants name whose value they mean.
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.check.context import Context, label_of, reads_parent
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for rule in program.rules:
        yield from _check_rule(rule, context)
    for condition in program.conditions:
        for node in condition.walk():
            if isinstance(node, tree.Children | tree.Split) or _is_of(node, "global"):
                yield _say(
                    node,
                    "a condition reads a member (P) and its parent (parent.P) only",
                    "it says when one member counts",
                )
    for binding in program.bindings:
        for node in binding.walk():
            if isinstance(node, tree.Children | tree.Split | tree.Reference) and (
                not isinstance(node, tree.Reference) or node.of is not None
            ):
                yield _say(
                    node,
                    "a binding reads properties of its own node only",
                    "copy what it needs with a rule, such as P := parent.P",
                )
    for invariant in program.invariants:
        yield from _check_invariant(invariant, context)


def _check_rule(rule: tree.Rule, context: Context) -> Iterator[Diagnostic]:
    gathered = [node for node in rule.walk() if isinstance(node, tree.Children)]
    label = label_of(rule, context)
    for each in gathered[1:]:
        yield _say(each, f"{label} gathers twice", "a rule has one children(...) at most")
    if rule.place == "local":
        for each in gathered:
            yield _say(each, f"{label} is local, and a node has no children", "leave out local")
    if rule.place == "global" and reads_parent(rule):
        yield _say(rule.value, f"{label} is global, and the whole system has no parent")
    if gathered and reads_parent(rule):
        yield _say(
            rule.value,
            f"{label} reads children and parent",
            "members are gathered at the end of a round, and the parent heard at its beginning; "
            "make two rules of it",
        )
    for node in rule.walk():
        if _is_of(node, "global"):
            yield _say(node, "a rule cannot read global values", "hand them down: P := parent.P")


def _check_invariant(invariant: tree.Invariant, context: Context) -> Iterator[Diagnostic]:
    variables = {one.text for one in invariant.variables}
    for node in invariant.walk():
        if isinstance(node, tree.Children | tree.Split | tree.Self) or _is_of(node, "parent"):
            yield _say(
                node,
                f"an {invariant.kind} reads a.P of a node a, and global.P",
                "it looks on from outside",
            )
        if (
            isinstance(node, tree.Reference)
            and node.of is None
            and node.name.text not in variables
            and node.name.text in context.symbols.properties
        ):
            name = next(iter(sorted(variables)), "global")
            yield _say(
                node,
                f"it is not said whose {node.name.text} is meant",
                f"write {name}.{node.name.text}",
            )


def _is_of(node: tree.Node, owner: str) -> bool:
    return isinstance(node, tree.Reference) and node.of is not None and node.of.text == owner


def _say(node: tree.Node, text: str, suggestion: str = "") -> Diagnostic:
    return Diagnostic(code="places", span=node.span, text=text, suggestion=suggestion)
