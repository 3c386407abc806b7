"""Object types off decorated Python classes, as Code 2.6 and 2.7 do with attributes.

    @live_object(provides=[("cardinality", "at most 1 instance of channel")])
    class Channel(Generic[M]):
        channel = endpoint(
            Sender[M], Receiver[M],
            provides=[("delivery", "fifo")],
            requires=[("temporal", "send -> once connect")],
        )

A class attribute made by ``endpoint`` is a named endpoint: the interface of what
comes in, the interface of what goes out. Type variables of the class are
parameters of the type; so are parameters of ``__init__`` annotated ``Given[...]``.
A class that inherits from such a class has its type.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias, TypeVar, overload

import msgspec

from quicksilver.live.types.errors import NotAnObjectTypeError
from quicksilver.live.types.interfaces import Signature, signatures_of
from quicksilver.live.types.model import (
    Constraint,
    Endpoint,
    EndpointType,
    EventType,
    ObjectType,
    Parameter,
    TypeParameter,
    ValueType,
)
from quicksilver.live.types.parameters import substitute_parameters
from quicksilver.live.types.reflect import Reading, put_variables, resolve_hints, value_type_of

T = TypeVar("T")
C = TypeVar("C", bound=type)

ConstraintPair: TypeAlias = tuple[str, str]
"""A formalism and a formula."""

_GIVEN = "a value that whoever uses the template gives"
Given: TypeAlias = Annotated[T, _GIVEN]
"""Annotates a parameter of ``__init__`` that is a parameter of the object's template."""
_DECLARED = "__live_object__"


class EndpointDeclaration(msgspec.Struct, frozen=True):
    """An endpoint of a class: interfaces as Python classes, constraints as text."""

    inputs: Any
    outputs: Any
    provides: tuple[Constraint, ...]
    requires: tuple[Constraint, ...]
    name: str = ""
    is_queued: bool = False
    is_inner: bool = False

    def signatures(self, given: dict[Any, Any] | None = None) -> EndpointSignatures:
        """Return the events in and out, with the annotations they were read off."""
        return EndpointSignatures(
            _signatures(self.inputs, given or {}, Reading({})),
            _signatures(self.outputs, given or {}, Reading({})),
        )


class EndpointSignatures(msgspec.Struct, frozen=True):
    """The Python side of an endpoint type: what converters are made from."""

    inputs: dict[str, Signature]
    outputs: dict[str, Signature]


class _ObjectDeclaration(msgspec.Struct, frozen=True):
    provides: tuple[Constraint, ...]
    requires: tuple[Constraint, ...]
    parameters: tuple[TypeParameter, ...]
    title: str


def endpoint(
    inputs: Any = None,
    outputs: Any = None,
    *,
    provides: Iterable[ConstraintPair] = (),
    requires: Iterable[ConstraintPair] = (),
    name: str = "",
    queued: bool = False,
    inner: bool = False,
) -> Any:
    """Declare an endpoint as an attribute of a class; its name is the attribute's by default.

    Events that come into a queued endpoint are handled one after the other, after
    whoever sent them has gone on; otherwise at once. In a running component the
    attribute is a port, whose methods are the events that go out. An inner endpoint
    is the component's own affair: it connects it itself, and it is no part of its type.
    """
    return EndpointDeclaration(
        inputs, outputs, _constraints(provides), _constraints(requires), name, queued, inner
    )


@overload
def live_object(cls: C, /) -> C: ...
@overload
def live_object(
    *,
    provides: Iterable[ConstraintPair] = (),
    requires: Iterable[ConstraintPair] = (),
    parameters: Iterable[TypeParameter] = (),
    title: str = "",
) -> Callable[[C], C]: ...
def live_object(
    cls: C | None = None,
    /,
    *,
    provides: Iterable[ConstraintPair] = (),
    requires: Iterable[ConstraintPair] = (),
    parameters: Iterable[TypeParameter] = (),
    title: str = "",
) -> C | Callable[[C], C]:
    """Let a class describe a type of live objects.

    Nothing is read before it is asked for, so annotations may name what comes later.
    """
    declaration = _ObjectDeclaration(
        _constraints(provides), _constraints(requires), tuple(parameters), title
    )

    def declare(decorated: C) -> C:
        setattr(decorated, _DECLARED, declaration)
        return decorated

    return declare if cls is None else declare(cls)


def object_type_of(target: Any) -> ObjectType:
    """Return the object type of a decorated class, or of an alias such as ``Channel[int]``."""
    return read_object_type(target, Reading({}), "")


def read_object_type(target: Any, reading: Reading, place: str) -> ObjectType:
    """Return the object type of a class, within a reading that is under way."""
    if isinstance(target, ObjectType):
        return target
    given_type = getattr(target, "__live_object_type__", None)
    if isinstance(given_type, ObjectType):
        return given_type
    cls = typing.get_origin(target) or target
    if not isinstance(cls, type):
        raise NotAnObjectTypeError(place or str(target), "it is not a class")
    if _DECLARED not in cls.__dict__:
        for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
            if hasattr(typing.get_origin(base) or base, _DECLARED):
                return read_object_type(base, reading, place)
        raise NotAnObjectTypeError(cls.__qualname__, "decorate it with @live_object")
    template = _read_template(cls, reading)
    if cls is target:
        return template
    return _give_variables(template, target, reading)


def endpoints_of(cls: type) -> dict[str, EndpointDeclaration]:
    """Return the endpoints that a class declares or inherits, by name."""
    found: dict[str, EndpointDeclaration] = {}
    for base in reversed(cls.__mro__):
        for attribute, member in vars(base).items():
            if isinstance(member, EndpointDeclaration):
                found[member.name or attribute] = member
    return found


def _read_template(cls: type, reading: Reading) -> ObjectType:
    declaration: _ObjectDeclaration = cls.__dict__[_DECLARED]
    endpoints = [
        Endpoint(name, read_endpoint(declared, reading))
        for name, declared in endpoints_of(cls).items()
        if not declared.is_inner
    ]
    if not endpoints:
        raise NotAnObjectTypeError(cls.__qualname__, "it has no endpoints")
    parameters = {one.name: one for one in declaration.parameters}
    for variable in getattr(cls, "__parameters__", ()):
        parameters.setdefault(variable.__name__, _read_variable(variable, reading))
    for given in _read_given(cls, reading):
        parameters.setdefault(given.name, given)
    doc = (inspect.getdoc(cls) or "").split("\n")[0]
    return ObjectType(
        tuple(endpoints),
        declaration.provides,
        declaration.requires,
        tuple(parameters.values()),
        declaration.title or cls.__name__,
        doc,
    )


def read_endpoint(declared: EndpointDeclaration, reading: Reading) -> EndpointType | Parameter:
    """Return the type of one endpoint of a class."""
    if isinstance(declared.inputs, TypeVar):
        return Parameter(declared.inputs.__name__)
    return EndpointType(
        _events(declared.inputs, reading),
        _events(declared.outputs, reading),
        declared.provides,
        declared.requires,
    )


def _events(interface: Any, reading: Reading) -> tuple[EventType, ...]:
    return tuple(one.event for one in _signatures(interface, {}, reading).values())


def _signatures(interface: Any, given: dict[Any, Any], reading: Reading) -> dict[str, Signature]:
    if interface is None:
        return {}
    return signatures_of(put_variables(interface, given), reading)


def _read_variable(variable: TypeVar, reading: Reading) -> TypeParameter:
    bound = variable.__bound__
    if bound is None:
        return TypeParameter(variable.__name__)
    if hasattr(bound, _DECLARED):
        return TypeParameter(
            variable.__name__, "object_type", read_object_type(bound, reading, variable.__name__)
        )
    return TypeParameter(variable.__name__, "value_type", reading.read(bound, variable.__name__))


def _read_given(cls: type, reading: Reading) -> list[TypeParameter]:
    if "__init__" not in cls.__dict__:
        return []
    found: list[TypeParameter] = []
    for name, annotation in resolve_hints(cls.__init__).items():  # type: ignore[misc]  # only its annotations are read
        if _GIVEN in getattr(annotation, "__metadata__", ()):
            type_ = reading.read(annotation, f"{cls.__name__}({name})")
            found.append(TypeParameter(name, "value", type_))
    return found


def _give_variables(template: ObjectType, alias: Any, reading: Reading) -> ObjectType:
    origin = typing.get_origin(alias)
    variables = [one.__name__ for one in getattr(origin, "__parameters__", ())]
    types: dict[str, ValueType | ObjectType | EndpointType] = {}
    for name, argument in zip(variables, typing.get_args(alias), strict=True):
        if hasattr(typing.get_origin(argument) or argument, _DECLARED):
            types[name] = read_object_type(argument, reading, name)
        else:
            types[name] = value_type_of(argument, place=name)
    kept = tuple(one for one in template.parameters if one.name not in types)
    plain = msgspec.structs.replace(template, parameters=kept)
    return substitute_parameters(plain, types)


def _constraints(pairs: Iterable[ConstraintPair]) -> tuple[Constraint, ...]:
    return tuple(Constraint(formalism, text) for formalism, text in pairs)
