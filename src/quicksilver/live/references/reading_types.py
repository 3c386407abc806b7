"""Types said in full, read from XML; ``writing_types`` has the notation."""

from __future__ import annotations

from typing import Final

from quicksilver.live.references.elements import Element
from quicksilver.live.references.names import normalise_lines, show_name
from quicksilver.live.references.reader import Reader, parse_flag, parse_integer
from quicksilver.live.references.typenames import parse_type_name, to_value_type
from quicksilver.live.types import model as types
from quicksilver.live.types.encoding import check_closed

VALUE_TAGS: Final = (
    "value",
    "struct",
    "literal",
    "list",
    "set",
    "dict",
    "tuple",
    "union",
    "recursive",
    "recur",
    "variable",
    "objectref",
)
TYPE_TAGS: Final = ("object", "endpointtype", *VALUE_TAGS)
_LITERAL_TAGS = ("text", "integer", "flag")


def read_type(reader: Reader, element: Element, path: str) -> types.AnyType:
    """Return the type that an element says in full; raises MalformedReferenceError."""
    type_ = _read_any(reader, element, f"{path}/{element.tag}")
    reader.make(element, path, check_closed, type_)
    return type_


def _read_any(reader: Reader, element: Element, path: str) -> types.AnyType:
    match element.tag:
        case "object":
            return _read_object(reader, element, path)
        case "endpointtype":
            reader.take(element, path, (), ("title",))
            return _read_endpoint(reader, element, path)
        case _:
            return _read_value(reader, element, path)


def _read_object(reader: Reader, element: Element, path: str) -> types.ObjectType:
    given = reader.take(element, path, (), ("title",))
    allowed = ("doc", "endpoint", "provides", "requires")
    endpoints: list[types.Endpoint] = []
    for child in reader.children(element, path, allowed):
        if child.tag == "endpoint":
            name = reader.take(child, path, ("name",), ("title", "parameter"))["name"]
            inner = f"{path}/endpoint[{show_name(name)}]"
            type_: types.EndpointType | types.Parameter
            if "parameter" in child.attributes:
                reader.children(child, inner)
                type_ = reader.make(child, inner, types.Parameter, child.attributes["parameter"])
            else:
                type_ = _read_endpoint(reader, child, inner)
            endpoints.append(reader.make(child, inner, types.Endpoint, name, type_))
    named = (child for child in element.children if child.tag == "endpoint")
    reader.distinct(named, path, "endpoint")
    provides, requires, doc = _read_rest(reader, element, path)
    return reader.make(
        element,
        path,
        types.ObjectType,
        tuple(endpoints),
        provides,
        requires,
        title=given.get("title", ""),
        doc=doc,
    )


def _read_endpoint(reader: Reader, element: Element, path: str) -> types.EndpointType:
    allowed = ("doc", "input", "output", "provides", "requires")
    inputs: list[types.EventType] = []
    outputs: list[types.EventType] = []
    for child in reader.children(element, path, allowed):
        if child.tag in {"input", "output"}:
            event = _read_event(reader, child, path)
            (inputs if child.tag == "input" else outputs).append(event)
    for tag, what in (("input", "incoming event"), ("output", "outgoing event")):
        named = (child for child in element.children if child.tag == tag)
        reader.distinct(named, path, what)
    provides, requires, doc = _read_rest(reader, element, path)
    title = element.attributes.get("title", "")
    return reader.make(
        element,
        path,
        types.EndpointType,
        tuple(inputs),
        tuple(outputs),
        provides,
        requires,
        title=title,
        doc=doc,
    )


def _read_event(reader: Reader, element: Element, path: str) -> types.EventType:
    given = reader.take(element, path, ("name",), ("type", "arguments"))
    path = f"{path}/{element.tag}[{show_name(given['name'])}]"
    docs = [child for child in element.children if child.tag == "doc"]
    doc = normalise_lines("documentation", reader.text(docs[0], path)) if docs else ""
    value = _read_put(reader, element, path, extra=("doc",))
    arguments = tuple(given.get("arguments", "").split())
    return reader.make(element, path, types.EventType, given["name"], value, arguments, doc)


def _read_rest(
    reader: Reader, element: Element, path: str
) -> tuple[tuple[types.Constraint, ...], tuple[types.Constraint, ...], str]:
    """Return what is provided, what is required, and the documentation."""
    found: dict[str, list[types.Constraint]] = {"provides": [], "requires": []}
    doc = ""
    for child in element.children:
        if child.tag in found:
            name = reader.take(child, path, ("formalism",))["formalism"]
            text = reader.text(child, path)
            found[child.tag].append(reader.make(child, path, types.Constraint, name, text))
        elif child.tag == "doc":
            doc = normalise_lines("documentation", reader.text(child, path))
    return tuple(found["provides"]), tuple(found["requires"]), doc


def _read_put(
    reader: Reader, element: Element, path: str, extra: tuple[str, ...] = ()
) -> types.ValueType:
    """Return the one value type of an element: its attribute or its child."""
    children = reader.children(element, path, (*extra, *VALUE_TAGS))
    inner = [child for child in children if child.tag not in extra]
    text = element.attributes.get("type")
    if (text is None) == (not inner) or len(inner) > 1:
        problem = f"<{element.tag}> needs one type: the attribute 'type' or one element"
        raise reader.fail(element, path, problem)
    if text is not None:
        return reader.make(element, path, _parse_value_name, text)
    return _read_value(reader, inner[0], f"{path}/{inner[0].tag}")


def _parse_value_name(text: str) -> types.ValueType:
    return to_value_type(parse_type_name(text))


def _parse_recur(text: str) -> types.Recur:
    return types.Recur(parse_integer(text))


def _read_value(reader: Reader, element: Element, path: str) -> types.ValueType:
    match element.tag:
        case "value":
            reader.take(element, path, ("type",))
            return _read_put(reader, element, path)
        case "list" | "set":
            reader.take(element, path, (), ("type",))
            item = _read_put(reader, element, path)
            return types.ListOf(item) if element.tag == "list" else types.SetOf(item)
        case "dict":
            return _read_dict(reader, element, path)
        case "tuple" | "union":
            reader.take(element, path, ())
            members = tuple(
                _read_value(reader, child, f"{path}/{child.tag}")
                for child in reader.children(element, path, VALUE_TAGS)
            )
            is_tuple = element.tag == "tuple"
            return types.TupleOf(members) if is_tuple else types.UnionOf(members)
        case "struct":
            return _read_struct(reader, element, path)
        case "literal":
            return _read_literal(reader, element, path)
        case "recursive":
            title = reader.take(element, path, (), ("type", "title")).get("title", "")
            body = _read_put(reader, element, path)
            return reader.make(element, path, types.Recursive, body, title)
        case "recur":
            text = reader.take(element, path, ("index",))["index"]
            reader.children(element, path)
            return reader.make(element, path, _parse_recur, text)
        case "variable":
            name = reader.take(element, path, ("name",))["name"]
            reader.children(element, path)
            return reader.make(element, path, types.Parameter, name)
        case _:
            assert element.tag == "objectref", element.tag
            return _read_objectref(reader, element, path)


def _read_dict(reader: Reader, element: Element, path: str) -> types.DictOf:
    reader.take(element, path, ())
    children = reader.children(element, path, ("key", "item"))
    if [child.tag for child in children] != ["key", "item"]:
        raise reader.fail(element, path, "<dict> needs one <key>, then one <item>")
    for child in children:
        reader.take(child, path, (), ("type",))
    return types.DictOf(*(_read_put(reader, child, f"{path}/{child.tag}") for child in children))


def _read_struct(reader: Reader, element: Element, path: str) -> types.StructOf:
    given = reader.take(element, path, (), ("closed", "title"))
    closed = reader.make(element, path, parse_flag, given.get("closed", "false"))
    doc = ""
    fields: list[types.Field] = []
    for child in reader.children(element, path, ("doc", "field")):
        if child.tag == "doc":
            doc = normalise_lines("documentation", reader.text(child, path))
            continue
        named = reader.take(child, path, ("name",), ("type", "optional"))
        inner = f"{path}/field[{show_name(named['name'])}]"
        optional = reader.make(child, inner, parse_flag, named.get("optional", "false"))
        value = _read_put(reader, child, inner)
        fields.append(reader.make(child, inner, types.Field, named["name"], value, not optional))
    reader.distinct((child for child in element.children if child.tag == "field"), path, "field")
    return reader.make(
        element, path, types.StructOf, tuple(fields), closed, given.get("title", ""), doc
    )


def _read_literal(reader: Reader, element: Element, path: str) -> types.LiteralOf:
    title = reader.take(element, path, (), ("title",)).get("title", "")
    values: list[types.LiteralValue] = []
    for child in reader.children(element, path, _LITERAL_TAGS):
        reader.take(child, path, ())
        text = reader.text(child, path)
        match child.tag:
            case "text":
                values.append(text)
            case "integer":
                values.append(reader.make(child, path, parse_integer, text))
            case _:
                values.append(reader.make(child, path, parse_flag, text))
    return reader.make(element, path, types.LiteralOf, tuple(values), title)


def _read_objectref(reader: Reader, element: Element, path: str) -> types.ReferenceOf:
    name = reader.take(element, path, (), ("parameter",)).get("parameter")
    if name is not None:
        reader.children(element, path)
        return types.ReferenceOf(reader.make(element, path, types.Parameter, name))
    target = reader.only(element, path, ("object",), "object type")
    return types.ReferenceOf(_read_object(reader, target, f"{path}/object"))
