"""How a class is run as a component: its endpoints, its handlers, what it must be given.

A component is a class decorated with ``@live_object``. For every endpoint that it
declares as an attribute, say ``channel``, its instances have an attribute of that
name whose methods are the events that go out, and it has a method
``channel_<event>`` for each event that comes in; ``channel_connected`` and
``channel_disconnected`` are called if they are there. Parameters of ``__init__``
annotated ``Given[...]`` are the parameters of its template.

    @live_object
    class Doubler:
        numbers = endpoint(Numbers, Numbers)

        def numbers_value(self, number: int) -> None:
            self.numbers.value(2 * number)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from quicksilver.live.references.model import Parameter, ValueArgument
from quicksilver.live.references.typenames import TypeLiteral
from quicksilver.live.references.values import to_value
from quicksilver.live.runtime.errors import ComponentError
from quicksilver.live.types.declare import (
    EndpointSignatures,
    endpoints_of,
    object_type_of,
    read_endpoint,
)
from quicksilver.live.types.errors import LiveTypeError
from quicksilver.live.types.interfaces import Argument, Signature
from quicksilver.live.types.model import (
    EndpointType,
    EventType,
    ObjectType,
    ReferenceOf,
    StructOf,
    ValueType,
)
from quicksilver.live.types.parameters import substitute_parameters
from quicksilver.live.types.reflect import Reading, resolve_hints, value_type_of

RESERVED = frozenset({"is_connected"})
"""Names that an outgoing event cannot have: they are the port's own."""


class PortPlan(msgspec.Struct, frozen=True):
    """One endpoint of a component."""

    attribute: str
    name: str
    type: EndpointType
    signatures: EndpointSignatures
    handlers: Mapping[str, str]
    """The method for each event that comes in."""
    is_queued: bool
    on_connected: str | None
    on_disconnected: str | None


class Blueprint(msgspec.Struct, frozen=True):
    """A component class, read once for every set of types it is given."""

    cls: type
    type: ObjectType
    ports: tuple[PortPlan, ...]
    parameters: tuple[Parameter, ...]
    """What must be given in ``__init__``: values and references."""
    annotations: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the class, for messages."""
        return self.cls.__qualname__


def read_blueprint(cls: type, types: Mapping[str, ValueType] | None = None) -> Blueprint:
    """Read a component class; ``types`` are what its type variables stand for, as data.

    Raises ComponentError if the class cannot run.
    """
    given = dict(types or {})
    try:
        template = object_type_of(cls)
        declared = endpoints_of(cls)
        variables = {v: given[v.__name__] for v in _variables(cls) if v.__name__ in given}
        bare = msgspec.structs.replace(template, parameters=())
        type_ = substitute_parameters(bare, given) if given else bare
        ports = tuple(
            _read_port(cls, name, declaration, type_, variables)
            for name, declaration in declared.items()
        )
        parameters, annotations = read_parameters(cls)
    except LiveTypeError as error:
        raise ComponentError(cls.__qualname__, f"has no type: {error}") from error
    return Blueprint(cls, type_, ports, parameters, annotations)


def signatures_of_type(type_: EndpointType) -> EndpointSignatures:
    """Return signatures for an endpoint type that no Python class describes: all values plain."""
    return EndpointSignatures(
        {event.name: _plain_signature(event) for event in type_.inputs},
        {event.name: _plain_signature(event) for event in type_.outputs},
    )


def _plain_signature(event: EventType) -> Signature:
    names = event.arguments
    if len(names) > 1 and isinstance(event.value, StructOf):
        fields = {field.name: field for field in event.value.fields}
        arguments = tuple(Argument(n, fields[n].type, fields[n].required) for n in names)
        return Signature(event, arguments)
    if event.value == _NONE:
        return Signature(event, ())
    return Signature(event, (Argument(names[0] if names else "value", event.value, True),))


def _read_port(
    cls: type, name: str, declaration: Any, type_: ObjectType, variables: dict[Any, Any]
) -> PortPlan:
    attribute = next(
        key for base in cls.__mro__ for key, member in vars(base).items() if member is declaration
    )
    endpoint = (
        read_endpoint(declaration, Reading({})) if declaration.is_inner else type_.by_name[name]
    )
    if not isinstance(endpoint, EndpointType):
        raise ComponentError(cls.__qualname__, f"has an endpoint {name!r} of unknown type")
    signatures = declaration.signatures(variables)
    handlers: dict[str, str] = {}
    for event in signatures.inputs:
        method = f"{attribute}_{event}"
        if not callable(getattr(cls, method, None)):
            problem = f"has no method {method} for the event {event} of its endpoint {name}"
            raise ComponentError(cls.__qualname__, problem)
        handlers[event] = method
    for event in signatures.outputs:
        if event in RESERVED or event.startswith("_"):
            raise ComponentError(cls.__qualname__, f"cannot have an event called {event!r}")
    return PortPlan(
        attribute,
        name,
        endpoint,
        signatures,
        handlers,
        declaration.is_queued,
        _optional(cls, f"{attribute}_connected"),
        _optional(cls, f"{attribute}_disconnected"),
    )


def _optional(cls: type, method: str) -> str | None:
    return method if callable(getattr(cls, method, None)) else None


def _variables(cls: type) -> tuple[Any, ...]:
    return tuple(getattr(cls, "__parameters__", ()))


def read_parameters(cls: type) -> tuple[tuple[Parameter, ...], dict[str, Any]]:
    """Return what ``__init__`` must be given, as parameters of a template."""
    init = inspect.getattr_static(cls, "__init__")
    if not inspect.isfunction(init):
        return (), {}
    hints = resolve_hints(init)
    parameters: list[Parameter] = []
    annotations: dict[str, Any] = {}
    for parameter in list(inspect.signature(init).parameters.values())[1:]:
        name = parameter.name
        has_default = parameter.default is not parameter.empty
        if name not in hints:
            if has_default:
                continue
            raise ComponentError(
                cls.__qualname__, f"has a parameter {name!r} without Given[...] and default"
            )
        annotation = hints[name]
        annotations[name] = annotation
        bound = value_type_of(annotation, place=f"{cls.__name__}({name})")
        default = ValueArgument(to_value(parameter.default)) if has_default else None
        if isinstance(bound, ReferenceOf):
            target = bound.target
            term = TypeLiteral(target) if isinstance(target, ObjectType) else None
            parameters.append(Parameter(name, "reference", term))
        else:
            parameters.append(Parameter(name, "value", TypeLiteral(bound), default))
    return tuple(parameters), annotations


_NONE = value_type_of(None)
