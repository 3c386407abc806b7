"""From elements to a reference, with a place for every part of it."""

from __future__ import annotations

from typing import Any, Final

from quicksilver.live.references.elements import Element
from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Component,
    Composite,
    Connection,
    Endpoint,
    Export,
    External,
    Parameter,
    Parameterized,
    ParameterKind,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
)
from quicksilver.live.references.names import REGISTRY, show_name
from quicksilver.live.references.reader import Reader
from quicksilver.live.references.reading_types import TYPE_TAGS, read_type
from quicksilver.live.references.reading_values import VALUE_TAGS, read_value
from quicksilver.live.references.typenames import TypeLiteral, TypeTerm, parse_type_name
from quicksilver.live.references.wellknown import find_library, make_library

REFERENCE_TAGS: Final = (
    "composite",
    "external",
    "parameterized",
    "primitive",
    "registry",
    "library",
    "template",
    "use",
)
_COMMON: Final = ("title", "as")
_CONTENT_TAGS: Final = ("type", *VALUE_TAGS, *REFERENCE_TAGS)
_KINDS: Final[tuple[ParameterKind, ...]] = ("type", "value", "reference")


def read_reference(reader: Reader, element: Element, path: str) -> Reference:
    """Return the reference that an element says; raises MalformedReferenceError."""
    step = element.tag
    if step == "primitive" and any(child.tag == "argument" for child in element.children):
        step = "parameterized"
    elif step == "primitive" and element.attributes.get("id", "").lower() in _REGISTRY_IDS:
        step = "registry"
    path = reader.enter(element, f"{path}/{step}" if path else step)
    match step:
        case "composite":
            return _read_composite(reader, element, path)
        case "external":
            return _read_external(reader, element, path)
        case "parameterized":
            return _read_parameterized(reader, element, path)
        case "primitive":
            given = reader.take(element, path, ("id",), _COMMON)
            reader.children(element, path, ("doc", "as"))
            common = _read_common(reader, element, path)
            return reader.make(element, path, Primitive, identifier=given["id"], **common)
        case "registry":
            reader.take(element, path, (), (*_COMMON, "id"))
            reader.children(element, path, ("doc", "as"))
            common = _read_common(reader, element, path)
            return reader.make(element, path, Primitive, identifier=REGISTRY, **common)
        case "library":
            return _read_library(reader, element, path)
        case "template":
            return _read_template(reader, element, path)
        case _:
            assert step == "use", step
            given = reader.take(element, path, ("parameter",), _COMMON)
            reader.children(element, path, ("doc", "as"))
            common = _read_common(reader, element, path)
            return reader.make(element, path, Use, parameter=given["parameter"], **common)


_REGISTRY_IDS = frozenset("0x" + "0" * zeros + "2" for zeros in range(32))


def _read_common(reader: Reader, element: Element, path: str) -> dict[str, Any]:
    docs = [child for child in element.children if child.tag == "doc"]
    if len(docs) > 1:
        raise reader.fail(docs[1], path, f"<{element.tag}> has a second <doc>")
    return {
        "title": element.attributes.get("title", ""),
        "doc": reader.text(docs[0], path) if docs else "",
        "declared": _read_term(reader, element, path, "as"),
    }


def _read_term(reader: Reader, element: Element, path: str, name: str) -> TypeTerm | None:
    """Return the type that an attribute names or a child of the same name says in full."""
    text = element.attributes.get(name)
    said = [child for child in element.children if child.tag == name]
    if len(said) + (text is not None) > 1:
        raise reader.fail(element, path, f"<{element.tag}> says its {name!r} twice")
    if text is not None:
        return reader.make(element, path, parse_type_name, text)
    if not said:
        return None
    reader.take(said[0], path, ())
    inner = reader.only(said[0], path, TYPE_TAGS, "type")
    return TypeLiteral(read_type(reader, inner, f"{path}/{name}"))


def _read_inner(reader: Reader, element: Element, path: str) -> Reference:
    """Return the one reference that an element wraps."""
    return read_reference(reader, reader.only(element, path, REFERENCE_TAGS, "reference"), path)


def _read_composite(reader: Reader, element: Element, path: str) -> Composite:
    reader.take(element, path, (), _COMMON)
    allowed = ("doc", "as", "component", "connection", "export")
    components: list[Component] = []
    connections: list[Connection] = []
    exports: list[Export] = []
    for child in reader.children(element, path, allowed):
        if child.tag == "component":
            name = reader.take(child, path, ("name",))["name"]
            inner = reader.enter(child, f"{path}/component[{show_name(name)}]")
            reference = _read_inner(reader, child, inner)
            components.append(reader.make(child, inner, Component, name, reference))
        elif child.tag == "connection":
            connections.append(_read_connection(reader, child, path))
        elif child.tag == "export":
            given = reader.take(child, path, ("endpoint",), ("name",))
            endpoint = reader.make(child, path, parse_endpoint, given["endpoint"])
            name = given.get("name", endpoint.name)
            inner = reader.enter(child, f"{path}/export[{show_name(name)}]")
            reader.children(child, inner)
            exports.append(reader.make(child, inner, Export, name, endpoint))
    common = _read_common(reader, element, path)
    return reader.make(
        element,
        path,
        Composite,
        components=tuple(components),
        connections=tuple(connections),
        exports=tuple(exports),
        **common,
    )


def _read_connection(reader: Reader, element: Element, path: str) -> Connection:
    given = reader.take(element, path, ("between", "and"))
    one = reader.make(element, path, parse_endpoint, given["between"])
    other = reader.make(element, path, parse_endpoint, given["and"])
    connection = Connection(one, other)
    inner = f"{path}/connection[{connection.one},{connection.other}]"
    reader.children(element, reader.enter(element, inner))
    return connection


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that ``component.endpoint`` names; raises UnfitReferenceError."""
    component, dot, name = text.partition(".")
    if not dot:
        raise UnfitReferenceError(f"the endpoint {text[:60]!a}", "is not component.endpoint")
    return Endpoint(component, name)


def _read_external(reader: Reader, element: Element, path: str) -> External:
    given = reader.take(element, path, ("name",), _COMMON)
    parameters: list[Parameter] = []
    sources: list[Reference] = []
    for child in reader.children(element, path, ("doc", "as", "parameter", "from")):
        if child.tag == "parameter":
            parameters.append(_read_parameter(reader, child, path))
        elif child.tag == "from":
            reader.take(child, path, ())
            sources.append(_read_inner(reader, child, f"{path}/from"))
    if len(sources) != 1:
        raise reader.fail(element, path, f"<external> needs one <from>, not {len(sources)}")
    common = _read_common(reader, element, path)
    return reader.make(
        element,
        path,
        External,
        name=given["name"],
        source=sources[0],
        parameters=tuple(parameters),
        **common,
    )


def _read_parameterized(reader: Reader, element: Element, path: str) -> Parameterized:
    """Read a template with arguments; a primitive with arguments is short for one."""
    arguments: list[Argument] = []
    templates: list[Reference] = []
    if element.tag == "primitive":
        given = reader.take(element, path, ("id",), _COMMON)
        inner = reader.enter(element, f"{path}/using/primitive")
        templates.append(reader.make(element, inner, Primitive, identifier=given["id"]))
        allowed: tuple[str, ...] = ("doc", "as", "argument")
    else:
        reader.take(element, path, (), _COMMON)
        allowed = ("doc", "as", "using", "argument")
    for child in reader.children(element, path, allowed):
        if child.tag == "using":
            reader.take(child, path, ())
            templates.append(_read_inner(reader, child, f"{path}/using"))
        elif child.tag == "argument":
            name = reader.take(child, path, ("name",), ("type",))["name"]
            inner = reader.enter(child, f"{path}/argument[{show_name(name)}]")
            content = _read_content(reader, child, inner)
            arguments.append(reader.make(child, inner, Argument, name, content))
    if len(templates) != 1:
        raise reader.fail(element, path, f"<parameterized> needs one <using>, not {len(templates)}")
    common = _read_common(reader, element, path)
    made = reader.make(
        element,
        path,
        Parameterized,
        template=templates[0],
        arguments=tuple(arguments),
        **common,
    )
    if find_library(made) is not None:
        # The long way to write a library: what is said about it later says "library".
        reader.enter(element, path.rpartition("parameterized")[0] + "library")
    return made


def _read_library(reader: Reader, element: Element, path: str) -> Parameterized:
    given = reader.take(element, path, ("url",), ("sha256", *_COMMON))
    reader.children(element, path, ("doc", "as"))
    common = _read_common(reader, element, path)
    plain = reader.make(element, path, make_library, given["url"], given.get("sha256"))
    return reader.make(
        element,
        path,
        Parameterized,
        template=plain.template,
        arguments=plain.arguments,
        **common,
    )


def _read_template(reader: Reader, element: Element, path: str) -> Template:
    reader.take(element, path, (), _COMMON)
    parameters: list[Parameter] = []
    bodies: list[Reference] = []
    for child in reader.children(element, path, ("doc", "as", "parameter", "body")):
        if child.tag == "parameter":
            parameters.append(_read_parameter(reader, child, path))
        elif child.tag == "body":
            reader.take(child, path, ())
            bodies.append(_read_inner(reader, child, f"{path}/body"))
    if len(bodies) != 1:
        raise reader.fail(element, path, f"<template> needs one <body>, not {len(bodies)}")
    common = _read_common(reader, element, path)
    return reader.make(
        element, path, Template, parameters=tuple(parameters), body=bodies[0], **common
    )


def _read_parameter(reader: Reader, element: Element, path: str) -> Parameter:
    given = reader.take(element, path, ("name", "kind"), ("bound",))
    path = reader.enter(element, f"{path}/parameter[{show_name(given['name'])}]")
    kinds = [kind for kind in _KINDS if kind == given["kind"]]
    if not kinds:
        problem = f"a parameter is of kind {', '.join(_KINDS)}, not {given['kind'][:40]!a}"
        raise reader.fail(element, path, problem)
    doc = ""
    defaults: list[ArgumentContent] = []
    for child in reader.children(element, path, ("doc", "bound", "default")):
        if child.tag == "doc":
            doc = reader.text(child, path)
        elif child.tag == "default":
            reader.take(child, path, (), ("type",))
            defaults.append(_read_content(reader, child, f"{path}/default"))
    if len(defaults) > 1:
        raise reader.fail(element, path, "<parameter> has a second <default>")
    bound = _read_term(reader, element, path, "bound")
    default = defaults[0] if defaults else None
    return reader.make(element, path, Parameter, given["name"], kinds[0], bound, default, doc)


def _read_content(reader: Reader, element: Element, path: str) -> ArgumentContent:
    """Return what an argument holds: a type, a value or a reference."""
    children = reader.children(element, path, _CONTENT_TAGS)
    if len(children) + ("type" in element.attributes) != 1:
        problem = f"<{element.tag}> needs one type, value or reference"
        raise reader.fail(element, path, problem)
    term = _read_term(reader, element, path, "type")
    if term is not None:
        return TypeArgument(term)
    child = children[0]
    if child.tag in VALUE_TAGS:
        return ValueArgument(read_value(reader, child, path))
    return ReferenceArgument(read_reference(reader, child, path))
