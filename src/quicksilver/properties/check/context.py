"""What the rules of the checker look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quicksilver.properties.check.symbols import Symbols
from quicksilver.properties.check.typing import Typing
from quicksilver.properties.syntax import tree

LEVELS = ("node", "inner", "root")
"""Where a rule can act: in nodes, in domains between, in the domain at the top."""


@dataclass(frozen=True, slots=True)
class Context:
    """A program, its names and its types."""

    program: tree.Program
    symbols: Symbols
    typing: Typing


@dataclass(frozen=True, slots=True)
class Write:
    """One way in which a property changes."""

    statement: tree.Rule | tree.Change
    name: str
    levels: tuple[str, ...]
    operator: str

    @property
    def value(self) -> tree.Expression:
        return self.statement.value


def levels_of(rule: tree.Rule) -> tuple[str, ...]:
    """Return where a rule acts (``plan.Place``)."""
    nodes = list(rule.walk())
    if rule.place == "local":
        return ("node",)
    if rule.place == "global":
        return ("root",)
    if any(isinstance(node, tree.Children) for node in nodes):
        return ("inner", "root")
    if reads_parent(rule) or rule.half is not None:
        return ("node", "inner")
    return LEVELS


def reads_parent(node: tree.Node) -> bool:
    """Return whether anything below a node reads a value of the parent."""
    return any(
        isinstance(each, tree.Split)
        or (isinstance(each, tree.Reference) and each.of is not None and each.of.text == "parent")
        for each in node.walk()
    )


def writes_of(context: Context) -> Iterator[Write]:
    """Yield every way in which properties change: rules first, then actions of bindings."""
    for rule in context.program.rules:
        yield Write(rule, rule.name.text, levels_of(rule), rule.operator)
    for binding in context.program.bindings:
        for node in binding.walk():
            if isinstance(node, tree.Change):
                yield Write(node, node.name.text, ("node",), node.operator)


def label_of(rule: tree.Rule, context: Context) -> str:
    """Return what messages call a rule."""
    if rule.label is not None:
        return rule.label.text
    return f"rule {context.program.rules.index(rule) + 1}"
