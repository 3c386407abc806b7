"""References in the dissertation's own notation, for people (Code 2.2 to 2.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from quicksilver.live.references.model import (
    ArgumentContent,
    Composite,
    External,
    Parameter,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
)
from quicksilver.live.references.typenames import TypeLiteral, TypeName, TypeTerm
from quicksilver.live.references.values import Text, from_value
from quicksilver.live.types.notation import render_type

_INDENT = "  "


def render_reference(reference: Reference) -> str:
    """Return a reference as the dissertation writes it, one part a line."""
    return "\n".join(_lines(reference))


def _lines(reference: Reference) -> Iterator[str]:
    declared = f" as {show_type(reference.declared)}" if reference.declared is not None else ""
    match reference:
        case Composite():
            yield f"composite object{declared}"
            yield "{"
            yield from _indent(_composite_lines(reference))
            yield "}"
        case External():
            yield f"external object “{reference.name}”{declared}"
            for parameter in reference.parameters:
                yield f"{_INDENT}parameter {_declare(parameter)}"
            yield from _indent(_after("from ", _lines(reference.source)))
        case Parameterized():
            yield f"parameterized object{declared}"
            yield from _indent(_after("using template ", _lines(reference.template)))
            yield "{"
            for argument in reference.arguments:
                yield from _indent(_argument_lines(argument.name, argument.content))
            yield "}"
        case Primitive():
            yield f"primitive object {reference.identifier}{declared}"
        case Template():
            yield f"template ({', '.join(map(_declare, reference.parameters))}){declared}"
            yield from _indent(_lines(reference.body))
        case Use():
            yield f"parameter “{reference.parameter}”{declared}"
        case _:
            assert_never(reference)


def _composite_lines(reference: Composite) -> Iterator[str]:
    for component in reference.components:
        yield f"component “{component.name}” :"
        yield from _indent(_lines(component.reference))
    for connection in reference.connections:
        yield "connection"
        for end in (connection.one, connection.other):
            yield f"{_INDENT}endpoint “{end.name}” of “{end.component}”"
    for export in reference.exports:
        end = export.endpoint
        outer = f" as “{export.name}”" if export.name != end.name else ""
        yield "export"
        yield f"{_INDENT}endpoint “{end.name}” of “{end.component}”{outer}"


def _argument_lines(name: str, content: ArgumentContent) -> Iterator[str]:
    match content:
        case TypeArgument(term):
            yield f"parameter “{name}” : {show_type(term)}"
        case ValueArgument(Text(text)):
            yield f"parameter “{name}” : “{text}”"
        case ValueArgument(value):
            yield f"parameter “{name}” : {from_value(value)!r}"
        case ReferenceArgument(reference):
            yield f"parameter “{name}” :"
            yield from _indent(_lines(reference))
        case _:
            assert_never(content)


def _declare(parameter: Parameter) -> str:
    bound = f" {show_type(parameter.bound)}" if parameter.bound is not None else ""
    return f"“{parameter.name}” : {parameter.kind}{bound}"


def _indent(lines: Iterator[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _after(word: str, lines: Iterator[str]) -> Iterator[str]:
    yield word + next(lines)
    yield from lines


def show_type(term: TypeTerm | None) -> str:
    """Return a type as a reference says it, on one line."""
    match term:
        case TypeName():
            return str(term)
        case TypeLiteral(type_):
            return getattr(type_, "title", "") or render_type(type_)
        case None:
            return ""
