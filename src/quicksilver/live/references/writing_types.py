"""Types said in full, as XML.

An object type lists its endpoints, an endpoint its events and constraints. What
an event carries is an attribute where a name can say it (``type="list[int]"``)
and an element where none can: a struct, a literal, a recursive type, a
reference to an object. Titles, documentation and names of arguments are hints
for readers; the canonical form leaves them out, as comparison does.
"""

from __future__ import annotations

from typing import assert_never

from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.names import LINE_CHARACTERS_MAX
from quicksilver.live.references.output import Out
from quicksilver.live.references.typenames import to_type_name
from quicksilver.live.references.values import INTEGER_BITS_MAX
from quicksilver.live.types import model as types


def write_type(type_: types.AnyType, *, with_hints: bool) -> Out:
    """Return the element that says a type in full."""
    match type_:
        case types.ObjectType():
            return _write_object(type_, with_hints)
        case types.EndpointType():
            return _fill_endpoint(Out("endpointtype"), type_, with_hints)
        case _:
            return _write_value(type_, with_hints)


def _write_object(type_: types.ObjectType, with_hints: bool) -> Out:
    if type_.parameters:
        raise UnfitReferenceError("a type said in full", "still has parameters")
    out = Out("object", title=_hint(type_.title, with_hints)).add(_doc(type_.doc, with_hints))
    for endpoint in type_.endpoints:
        if isinstance(endpoint.type, types.Parameter):
            out.add(Out("endpoint", name=endpoint.name, parameter=endpoint.type.name))
        else:
            out.add(_fill_endpoint(Out("endpoint", name=endpoint.name), endpoint.type, with_hints))
    return out.add(*_constraints(type_))


def _fill_endpoint(out: Out, type_: types.EndpointType, with_hints: bool) -> Out:
    title = _hint(type_.title, with_hints)
    if title is not None:
        out.attributes.append(("title", title))
    out.add(_doc(type_.doc, with_hints))
    for tag, events in (("input", type_.inputs), ("output", type_.outputs)):
        for event in events:
            names = event.arguments
            is_sayable = bool(names) and all(name.isidentifier() for name in names)
            said = _hint(" ".join(names), with_hints and is_sayable)
            element = Out(tag, name=event.name, arguments=said)
            element.add(_doc(event.doc, with_hints))
            out.add(_put(element, event.value, with_hints))
    return out.add(*_constraints(type_))


def _constraints(owner: types.ObjectType | types.EndpointType) -> list[Out]:
    return [
        Out(tag, formalism=one.formalism).say(one.text)
        for tag, constraints in (("provides", owner.provides), ("requires", owner.requires))
        for one in constraints
    ]


def _put(out: Out, value: types.ValueType, with_hints: bool) -> Out:
    """Say a value type in an element that holds one: as attribute if a name will do."""
    named = to_type_name(value)
    if named is None:
        return out.add(_write_value(value, with_hints))
    out.attributes.append(("type", str(named)))
    return out


def _write_value(value: types.ValueType, with_hints: bool) -> Out:
    named = to_type_name(value)
    if named is not None:
        return Out("value", type=str(named))
    match value:
        case types.ListOf(item):
            return _put(Out("list"), item, with_hints)
        case types.SetOf(item):
            return _put(Out("set"), item, with_hints)
        case types.DictOf(key, held):
            return Out("dict").add(
                _put(Out("key"), key, with_hints), _put(Out("item"), held, with_hints)
            )
        case types.TupleOf(items):
            return Out("tuple").add(*(_write_value(item, with_hints) for item in items))
        case types.UnionOf((member,)):
            return _write_value(member, with_hints)
        case types.UnionOf(members):
            return Out("union").add(*(_write_value(member, with_hints) for member in members))
        case types.StructOf():
            return _write_struct(value, with_hints)
        case types.LiteralOf(values):
            out = Out("literal", title=_hint(value.title, with_hints))
            return out.add(*map(_write_literal, values))
        case types.Recursive(body):
            out = Out("recursive", title=_hint(value.title, with_hints))
            return _put(out, body, with_hints)
        case types.Recur(index):
            return Out("recur", index=str(index))
        case types.Parameter(name):
            return Out("variable", name=name)
        case types.ReferenceOf(types.Parameter(name)):
            return Out("objectref", parameter=name)
        case types.ReferenceOf(types.ObjectType() as target):
            return Out("objectref").add(_write_object(target, with_hints))
        case types.Scalar() | types.ReferenceOf():
            raise AssertionError(value)
        case _:
            assert_never(value)


def _write_struct(value: types.StructOf, with_hints: bool) -> Out:
    closed = "true" if value.closed else None
    out = Out("struct", closed=closed, title=_hint(value.title, with_hints))
    out.add(_doc(value.doc, with_hints))
    for field in value.fields:
        optional = None if field.required else "true"
        out.add(_put(Out("field", name=field.name, optional=optional), field.type, with_hints))
    return out


def _write_literal(value: types.LiteralValue) -> Out:
    match value:
        case bool():
            return Out("flag").say("true" if value else "false")
        case int():
            if value.bit_length() > INTEGER_BITS_MAX:
                raise UnfitReferenceError("an integer", f"has more than {INTEGER_BITS_MAX} bits")
            return Out("integer").say(str(value))
        case str():
            return Out("text").say(value)


def _hint(text: str, with_hints: bool) -> str | None:
    return text if with_hints and 0 < len(text) <= LINE_CHARACTERS_MAX else None


def _doc(text: str, with_hints: bool) -> Out | None:
    return Out("doc").say(text) if with_hints and text else None
