"""The grammar of types written out, and of the values that arguments are set to.

An object type lists its endpoints, an endpoint its events and constraints. What
an event carries is an attribute where the type has a name (``type="list[int]"``)
and an element where it has none: a struct, a literal, a recursive type, a
reference to an object. Titles, documentation and names of arguments are hints
for readers; the canonical form leaves them out, as comparison does.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.names import (
    LINE_CHARACTERS_MAX,
    normalise_lines,
    show_name,
)
from quicksilver.live.references.typenames import parse_type_name, to_type_name, to_value_type
from quicksilver.live.references.values import (
    Binary,
    Entry,
    Flag,
    Integer,
    Mapped,
    Nothing,
    Real,
    Sequence,
    from_value,
    to_value,
)
from quicksilver.live.references.values import Text as TextValue
from quicksilver.live.references.xml.elements import Element
from quicksilver.live.references.xml.grammar import Form, Group, Part, Rule
from quicksilver.live.references.xml.parts import (
    Attribute,
    Either,
    Many,
    One,
    Text,
    child,
    children,
    wrap,
)
from quicksilver.live.types import model as types

_INTEGER = re.compile(r"-?[0-9]{1,80}")
_REAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")


def name_of(element: Element) -> str:
    """Return the name of a part, for a path."""
    return show_name(element.attributes["name"])


# --- texts ---------------------------------------------------------------------------


def _parse_integer(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(f"{text.strip()[:40]!a} is no whole number")
    return int(text)


def _parse_real(text: str) -> float:
    if not _REAL.fullmatch(text.strip()):
        raise ValueError(f"{text.strip()[:40]!a} is no number")
    return float(text)


def _parse_flag(text: str) -> bool:
    match text.strip():
        case "true":
            return True
        case "false":
            return False
        case other:
            raise ValueError(f"{other[:40]!a} is neither true nor false")


def _show_flag(flag: bool) -> str:
    return "true" if flag else "false"


def _parse_binary(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the text is no base64") from None


def _show_binary(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _show_title(text: str) -> str | None:
    return text if len(text) <= LINE_CHARACTERS_MAX else None


def _show_arguments(names: tuple[str, ...]) -> str | None:
    return _show_title(" ".join(names)) if all(name.isidentifier() for name in names) else None


def _split_arguments(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _normalise_doc(text: str) -> str:
    return normalise_lines("documentation", text)


def _parse_value_name(text: str) -> types.ValueType:
    return to_value_type(parse_type_name(text))


def _show_value_name(type_: types.ValueType) -> str | None:
    named = to_type_name(type_)
    return None if named is None else str(named)


LINE: Final = Form()
NAME: Final = Form("name")
_TRUTH = Form("truth", _parse_flag, _show_flag)
_VALUE_NAME = Form("typeName", _parse_value_name, _show_value_name)
_ARGUMENT_NAMES = Form(parse=_split_arguments, show=_show_arguments)

TITLE: Final = Attribute("title", Form(show=_show_title), default="", is_hint=True)
DOC: Final = child(
    "doc",
    wrap(
        "doc",
        Text("inner", Form(parse=_normalise_doc)),
        is_step=False,
        doc="For people. White space around lines means nothing.",
    ),
    default="",
    is_hint=True,
)

# --- values --------------------------------------------------------------------------

VALUES: Final = Group(name="value")


def _value(tag: str, cls: type, *parts: Part, doc: str = "") -> Rule:
    return Rule(tag, *parts, make=cls, of=cls, step=lambda _: "", doc=doc)


_TEXT = _value("text", TextValue, Text("value", LINE))
_WHOLE = _value("integer", Integer, Text("value", Form("xs:integer", _parse_integer)))
_FLAG = _value("flag", Flag, Text("value", _TRUTH))
_ENTRY = Rule(
    "entry",
    Attribute("key", LINE),
    One("value", VALUES, "value"),
    make=Entry,
    key=lambda element: show_name(element.attributes["key"]),
)
VALUES.fill(
    _TEXT,
    _WHOLE,
    _value("real", Real, Text("value", Form("xs:double", _parse_real, repr))),
    _FLAG,
    _value("binary", Binary, Text("value", Form("xs:base64Binary", _parse_binary, _show_binary))),
    _value("nothing", Nothing),
    _value("sequence", Sequence, Many("items", VALUES)),
    _value("mapping", Mapped, children("entries", _ENTRY)),
)

# --- value types ---------------------------------------------------------------------

_LITERALS = Group(_TEXT, _WHOLE, _FLAG, lift=from_value, lower=to_value)


def _without_union_of_one(type_: types.AnyType) -> types.AnyType:
    while isinstance(type_, types.UnionOf) and len(type_.members) == 1:
        type_ = type_.members[0]
    return type_


VALUE_TYPES: Final = Group(name="valueType", lower=_without_union_of_one)
_NEEDS = "type: the attribute 'type' or one element"


def _carried(name: str) -> Part:
    """Return the part that is one value type: by name if it has one, else written out."""
    return Either(name, _VALUE_NAME, "type", VALUE_TYPES, needs=_NEEDS)


def _type(tag: str, cls: type, *parts: Part) -> Rule:
    return Rule(tag, *parts, make=cls, of=cls)


def _view_named(type_: types.AnyType) -> Mapping[str, Any] | None:
    if isinstance(type_, types.ObjectType | types.EndpointType):
        return None
    named = to_type_name(type_)
    return None if named is None else {"named": named}


def _make_field(name: str, optional: bool, value: types.ValueType) -> types.Field:
    return types.Field(name, value, not optional)


def _view_field(field: types.Field) -> Mapping[str, Any]:
    return {"name": field.name, "optional": not field.required, "value": field.type}


def _make_objectref(parameter: str | None, target: types.ObjectType | None) -> types.ReferenceOf:
    if (parameter is None) == (target is None):
        raise UnfitReferenceError("<objectref>", "needs one object type or one parameter")
    return types.ReferenceOf(target if target is not None else types.Parameter(parameter or ""))


def _view_objectref(type_: types.ReferenceOf) -> Mapping[str, Any]:
    target = type_.target
    if isinstance(target, types.Parameter):
        return {"parameter": target.name, "target": None}
    return {"parameter": None, "target": target}


_FIELD = Rule(
    "field",
    Attribute("name", LINE),
    Attribute("optional", _TRUTH, default=False),
    _carried("value"),
    make=_make_field,
    view=_view_field,
    key=name_of,
)

# --- events, endpoints, objects ------------------------------------------------------


def _event(tag: str) -> Rule:
    return Rule(
        tag,
        Attribute("name", LINE),
        Attribute("arguments", _ARGUMENT_NAMES, default=(), is_hint=True),
        DOC,
        _carried("value"),
        make=types.EventType,
        key=name_of,
        doc="An event; what it carries is the attribute type or one element.",
    )


def _constraint(tag: str) -> Rule:
    return Rule(
        tag,
        Attribute("formalism", LINE),
        Text("text", LINE),
        make=types.Constraint,
        step=lambda _: "",
        doc="A constraint in a formalism.",
    )


_CONSTRAINTS = (
    children("provides", _constraint("provides")),
    children("requires", _constraint("requires")),
)
_ENDPOINT_TYPE_PARTS = (
    TITLE,
    DOC,
    children("inputs", _event("input"), distinct="incoming event"),
    children("outputs", _event("output"), distinct="outgoing event"),
    *_CONSTRAINTS,
)


def _make_endpoint(name: str, parameter: str | None, **given: Any) -> types.Endpoint:
    type_ = types.EndpointType(**given)
    if parameter is None:
        return types.Endpoint(name, type_)
    if type_ != types.EndpointType():
        raise UnfitReferenceError("an endpoint", "is a parameter or has events, not both")
    return types.Endpoint(name, types.Parameter(parameter))


def _view_endpoint(endpoint: types.Endpoint) -> Mapping[str, Any]:
    type_ = endpoint.type
    parameter = None
    if isinstance(type_, types.Parameter):
        parameter, type_ = type_.name, types.EndpointType()
    given = {part.name: getattr(type_, part.name) for part in _ENDPOINT_TYPE_PARTS}
    return {"name": endpoint.name, "parameter": parameter, **given}


_ENDPOINT = Rule(
    "endpoint",
    Attribute("name", LINE),
    Attribute("parameter", LINE, default=None),
    *_ENDPOINT_TYPE_PARTS,
    make=_make_endpoint,
    view=_view_endpoint,
    key=name_of,
    doc="An endpoint of an object type.",
)
_OBJECT_PARTS = (
    TITLE,
    DOC,
    children("endpoints", _ENDPOINT, distinct="endpoint"),
    *_CONSTRAINTS,
)


def _view_object(type_: types.ObjectType) -> Mapping[str, Any]:
    if type_.parameters:
        raise UnfitReferenceError("a type written out", "still has parameters")
    return {part.name: getattr(type_, part.name) for part in _OBJECT_PARTS}


_OBJECT = Rule(
    "object",
    *_OBJECT_PARTS,
    make=types.ObjectType,
    of=types.ObjectType,
    view=_view_object,
    doc="An object type: named endpoints, constraints provided and required (2.1.2).",
)
_ENDPOINT_TYPE = Rule(
    "endpointtype",
    *_ENDPOINT_TYPE_PARTS,
    make=types.EndpointType,
    of=types.EndpointType,
    doc="An endpoint type by itself.",
)

VALUE_TYPES.fill(
    Rule(
        "value",
        Attribute("named", Form("typeName", _parse_value_name), "type"),
        make=lambda named: named,
        view=_view_named,
        doc="A value type that has a name.",
    ),
    _type(
        "struct",
        types.StructOf,
        Attribute("closed", _TRUTH, default=False),
        TITLE,
        DOC,
        children("fields", _FIELD, distinct="field"),
    ),
    _type("literal", types.LiteralOf, TITLE, Many("values", _LITERALS)),
    _type("list", types.ListOf, _carried("item")),
    _type("set", types.SetOf, _carried("item")),
    _type(
        "dict",
        types.DictOf,
        child("key", wrap("key", _carried("inner"))),
        child("value", wrap("item", _carried("inner"))),
    ),
    _type("tuple", types.TupleOf, Many("items", VALUE_TYPES)),
    _type("union", types.UnionOf, Many("members", VALUE_TYPES)),
    _type("recursive", types.Recursive, TITLE, _carried("body")),
    _type("recur", types.Recur, Attribute("index", Form("xs:nonNegativeInteger", _parse_integer))),
    _type("variable", types.Parameter, Attribute("name", LINE)),
    Rule(
        "objectref",
        Attribute("parameter", LINE, default=None),
        child("target", _OBJECT, default=None),
        make=_make_objectref,
        of=types.ReferenceOf,
        view=_view_objectref,
    ),
)
TYPES: Final = Group(name="type", lower=_without_union_of_one)
TYPES.fill(_OBJECT, _ENDPOINT_TYPE, *VALUE_TYPES.rules.values())
