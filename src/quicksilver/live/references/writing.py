"""From a reference to elements: one way to write each reference."""

from __future__ import annotations

import base64
from typing import assert_never

from quicksilver.live.references.model import (
    ArgumentContent,
    Composite,
    External,
    Node,
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
from quicksilver.live.references.output import Out
from quicksilver.live.references.typenames import TypeLiteral, TypeName, TypeTerm
from quicksilver.live.references.values import (
    Binary,
    Flag,
    Integer,
    Mapped,
    Nothing,
    Real,
    Sequence,
    Text,
    Value,
)
from quicksilver.live.references.wellknown import find_library, is_registry
from quicksilver.live.references.writing_types import write_type


def write_reference(reference: Reference, *, with_hints: bool) -> Out:
    """Return the element of a reference; hints are what people read and nothing depends on."""
    library = find_library(reference)
    if library is not None:
        out = Out("library", url=library.url, sha256=library.sha256)
        return _begin(out, reference, with_hints)
    match reference:
        case Composite():
            return _write_composite(reference, with_hints)
        case External():
            out = _begin(Out("external", name=reference.name), reference, with_hints)
            out.add(*_write_parameters(reference.parameters, with_hints))
            return out.add(
                Out("from").add(write_reference(reference.source, with_hints=with_hints))
            )
        case Parameterized():
            out = _begin(Out("parameterized"), reference, with_hints)
            template = write_reference(reference.template, with_hints=with_hints)
            out.add(Out("using").add(template))
            for argument in reference.arguments:
                element = Out("argument", name=argument.name)
                out.add(_put_content(element, argument.content, with_hints))
            return out
        case Primitive():
            if is_registry(reference):
                return _begin(Out("registry"), reference, with_hints)
            return _begin(Out("primitive", id=reference.identifier), reference, with_hints)
        case Template():
            out = _begin(Out("template"), reference, with_hints)
            out.add(*_write_parameters(reference.parameters, with_hints))
            body = write_reference(reference.body, with_hints=with_hints)
            return out.add(Out("body").add(body))
        case Use():
            return _begin(Out("use", parameter=reference.parameter), reference, with_hints)
        case _:
            assert_never(reference)


def _begin(out: Out, node: Node, with_hints: bool) -> Out:
    """Say what every reference may carry: title, documentation, type."""
    if with_hints and node.title:
        out.attributes.append(("title", node.title))
    if with_hints and node.doc:
        out.add(Out("doc").say(node.doc))
    return _put_type(out, "as", node.declared, with_hints)


def _put_type(out: Out, name: str, term: TypeTerm | None, with_hints: bool) -> Out:
    match term:
        case None:
            return out
        case TypeName():
            out.attributes.append((name, str(term)))
            return out
        case TypeLiteral(type_):
            return out.add(Out(name).add(write_type(type_, with_hints=with_hints)))


def _write_composite(reference: Composite, with_hints: bool) -> Out:
    out = _begin(Out("composite"), reference, with_hints)
    for component in reference.components:
        inner = write_reference(component.reference, with_hints=with_hints)
        out.add(Out("component", name=component.name).add(inner))
    for connection in reference.connections:
        ends = {"between": str(connection.one), "and": str(connection.other)}
        out.add(Out("connection", **ends))
    for export in reference.exports:
        out.add(Out("export", name=export.name, endpoint=str(export.endpoint)))
    return out


def _write_parameters(parameters: tuple[Parameter, ...], with_hints: bool) -> list[Out]:
    elements: list[Out] = []
    for parameter in parameters:
        out = Out("parameter", name=parameter.name, kind=parameter.kind)
        if with_hints and parameter.doc:
            out.add(Out("doc").say(parameter.doc))
        _put_type(out, "bound", parameter.bound, with_hints)
        if parameter.default is not None:
            out.add(_put_content(Out("default"), parameter.default, with_hints))
        elements.append(out)
    return elements


def _put_content(out: Out, content: ArgumentContent, with_hints: bool) -> Out:
    match content:
        case TypeArgument(term):
            return _put_type(out, "type", term, with_hints)
        case ValueArgument(value):
            return out.add(write_value(value))
        case ReferenceArgument(reference):
            return out.add(write_reference(reference, with_hints=with_hints))
        case _:
            assert_never(content)


def write_value(value: Value) -> Out:
    """Return the element of a value."""
    match value:
        case Text(text):
            return Out("text").say(text)
        case Integer(number):
            return Out("integer").say(str(number))
        case Real(number):
            return Out("real").say(repr(number))
        case Flag(flag):
            return Out("flag").say("true" if flag else "false")
        case Binary(data):
            return Out("binary").say(base64.b64encode(data).decode())
        case Nothing():
            return Out("nothing")
        case Sequence(items):
            return Out("sequence").add(*map(write_value, items))
        case Mapped(entries):
            return Out("mapping").add(
                *(Out("entry", key=entry.key).add(write_value(entry.value)) for entry in entries)
            )
        case _:
            assert_never(value)
