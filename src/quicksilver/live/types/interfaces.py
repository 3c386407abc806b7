"""Event interfaces off annotated ``Protocol`` classes: a method is an event.

The parameters of the method are what the event carries. It returns nothing: an
event goes one way, and an answer is another event.
"""

from __future__ import annotations

import inspect
import typing
from typing import Any

import msgspec

from quicksilver.live.types.errors import NotAnInterfaceError, UnreadableAnnotationError
from quicksilver.live.types.model import NONE, EventType, Field, StructOf, ValueType
from quicksilver.live.types.reflect import (
    Reading,
    bind_variables,
    put_variables,
    resolve_hints,
)

_ONE_WAY = (None, type(None), inspect.Signature.empty, Any)


class Argument(msgspec.Struct, frozen=True):
    """A parameter of an event's method."""

    name: str
    annotation: Any
    required: bool


class Signature(msgspec.Struct, frozen=True):
    """An event together with the Python annotations it was read off."""

    event: EventType
    arguments: tuple[Argument, ...]


def signatures_of(interface: Any, reading: Reading | None = None) -> dict[str, Signature]:
    """Return the events of an interface with their annotations, by name.

    Raises NotAnInterfaceError for a class that does not describe events.
    """
    reading = reading if reading is not None else Reading({})
    cls = typing.get_origin(interface) or interface
    if not isinstance(cls, type):
        raise NotAnInterfaceError(str(interface), "", "it is not a class")
    bound = _bind_inherited(interface)
    found: dict[str, Signature] = {}
    for base in reversed(cls.__mro__):
        if base in {object, typing.Generic, typing.Protocol}:
            continue
        if _annotated_attributes(base):
            name = _annotated_attributes(base)[0]
            raise NotAnInterfaceError(cls.__name__, name, "an attribute is not an event")
        for name, member in vars(base).items():
            if name.startswith("_"):
                continue
            if not inspect.isfunction(member):
                raise NotAnInterfaceError(cls.__name__, name, "only plain methods are events")
            found[name] = _read_method(cls.__name__, name, member, bound.get(base, {}), reading)
    return {name: found[name] for name in sorted(found)}


def _read_method(
    interface: str, name: str, method: Any, given: dict[Any, Any], reading: Reading
) -> Signature:
    hints = resolve_hints(method)
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if hints.get("return", inspect.Signature.empty) not in _ONE_WAY:
        raise NotAnInterfaceError(interface, name, "an event returns nothing: answer by another")
    arguments: list[Argument] = []
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            reason = f"it takes any number of arguments ({parameter})"
            raise NotAnInterfaceError(interface, name, reason)
        if parameter.name not in hints:
            place = f"{interface}.{name}"
            raise UnreadableAnnotationError(place, parameter.name, "it has no annotation")
        annotation = put_variables(hints[parameter.name], given)
        arguments.append(Argument(parameter.name, annotation, parameter.default is parameter.empty))
    value = _read_value(interface, name, arguments, reading)
    doc = (method.__doc__ or "").strip().split("\n")[0]
    names = tuple(argument.name for argument in arguments)
    return Signature(EventType(name, value, names, doc), tuple(arguments))


def _read_value(
    interface: str, name: str, arguments: list[Argument], reading: Reading
) -> ValueType:
    types = [reading.read(one.annotation, f"{interface}.{name}({one.name})") for one in arguments]
    if not arguments:
        return NONE
    if len(arguments) == 1:
        return types[0]
    pairs = zip(arguments, types, strict=True)
    return StructOf(tuple(Field(one.name, type_, one.required) for one, type_ in pairs))


def _annotated_attributes(base: type) -> list[str]:
    own = inspect.get_annotations(base)
    return [name for name in own if not name.startswith("_")]


def _bind_inherited(interface: Any) -> dict[type, dict[Any, Any]]:
    """Return, for every class that an interface inherits from, its type variables' values."""
    bound: dict[type, dict[Any, Any]] = {}
    pending: list[tuple[Any, dict[Any, Any]]] = [(interface, {})]
    while pending:
        alias, outer = pending.pop()
        cls = typing.get_origin(alias) or alias
        if not isinstance(cls, type) or cls in {typing.Generic, typing.Protocol, object}:
            continue
        own = {one: put_variables(value, outer) for one, value in bind_variables(alias).items()}
        bound.setdefault(cls, own)
        bases = cls.__dict__.get("__orig_bases__", cls.__bases__)
        pending.extend((base, own) for base in bases)
    return bound
