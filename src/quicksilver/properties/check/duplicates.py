"""Every section stands once, and every name is declared once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quicksilver.properties.check.context import Context
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.spellings import CONTAINERS, SCALARS


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    yield from _repeated("section", ((one.name, one) for one in program.sections))
    declared = [one.name for one in program.parameters]
    declared += [one.name for one in program.properties]
    yield from _repeated("name", ((name.text, name) for name in declared))
    yield from _repeated("event", ((one.name.text, one.name) for one in program.events))
    for event in program.events:
        yield from _repeated("parameter", ((p.name.text, p.name) for p in event.parameters))
    for section in program.sections:
        labels = [node for each in section.statements if (node := _label_of(each)) is not None]
        yield from _repeated("label", ((label.text, label) for label in labels))
    for binding in program.bindings:
        if isinstance(binding, tree.OnEvent):
            yield from _repeated("variable", ((v.text, v) for v in binding.variables))
    for invariant in program.invariants:
        yield from _repeated("variable", ((v.text, v) for v in invariant.variables))
    for name in declared:
        if name.text in SCALARS or name.text in CONTAINERS:
            yield Diagnostic(
                code="duplicates",
                span=name.span,
                text=f"{name.text} is the name of a type",
                suggestion="choose another name",
            )


def _label_of(statement: tree.Statement) -> tree.Name | None:
    if isinstance(statement, tree.Event | tree.Property):
        return None
    return statement.label


def _repeated(what: str, named: Iterable[tuple[str, tree.Node]]) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for name, node in named:
        if name in seen:
            yield Diagnostic(
                code="duplicates",
                span=node.span,
                text=f"there is a {what} {name} already",
                suggestion="put both into one" if what == "section" else "choose another name",
            )
        seen.add(name)
