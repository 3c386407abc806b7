"""A reference as a value: passive, portable and complete (dissertation 2.1.5).

A reference is a recipe for a proxy. It is composite, external, parameterized
or primitive; templates and uses of their parameters make up the rest. Nothing
here runs, loads or looks anything up.

Order carries no meaning in a reference: components, exports and arguments are
known by name and a connection has no direction. Constructors therefore sort,
so that references of equal meaning are equal values.

Two built-in objects that every runtime has, the library and the registry (2.1.5 D),
are primitives like others. What is special is only how they are written,
``<registry/>`` and ``<library url="..." sha256="..."/>``, and that a library
names code, about which there is a policy (see ``library``).
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.names import (
    LIBRARY,
    LIBRARY_SHA256,
    LIBRARY_URL,
    LINE_CHARACTERS_MAX,
    REGISTRY,
    check_endpoint_name,
    check_line,
    check_name,
    normalise_identifier,
    normalise_lines,
)
from quicksilver.live.references.typenames import TypeTerm
from quicksilver.live.references.values import Text, Value


class Endpoint(msgspec.Struct, frozen=True, order=True):
    """An endpoint of a component inside a composite."""

    component: str
    name: str

    def __post_init__(self) -> None:
        check_name("a component's name", self.component)
        check_endpoint_name(self.name)

    def __str__(self) -> str:
        return f"{self.component}.{self.name}"


def parse_endpoint(text: str) -> Endpoint:
    """Return the endpoint that ``component.endpoint`` names; raises UnfitReferenceError."""
    component, dot, name = text.partition(".")
    if not dot:
        raise UnfitReferenceError(f"the endpoint {text[:60]!a}", "is not component.endpoint")
    return Endpoint(component, name)


class Connection(msgspec.Struct, frozen=True):
    """Two endpoints that meet. Neither comes first: they are kept in order of their names."""

    one: Endpoint
    other: Endpoint

    def __post_init__(self) -> None:
        if self.other < self.one:
            one, other = self.other, self.one
            force_setattr(self, "one", one)
            force_setattr(self, "other", other)


class Export(msgspec.Struct, frozen=True):
    """An inner endpoint that a composite shows as its own."""

    name: str
    """What it is called outside."""

    endpoint: Endpoint

    def __post_init__(self) -> None:
        check_endpoint_name(self.name)


class Component(msgspec.Struct, frozen=True):
    """An inner object of a composite, known by its name there."""

    name: str
    reference: Reference

    def __post_init__(self) -> None:
        check_name("a component's name", self.name)


ParameterKind: TypeAlias = Literal["type", "value", "reference"]


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a template must be given before it is an object."""

    name: str
    kind: ParameterKind
    bound: TypeTerm | None = None
    """The argument's type, or a supertype of it; None: anything of this kind."""

    default: ArgumentContent | None = None
    """What holds if no argument is given; None: there must be one."""

    doc: str = ""

    def __post_init__(self) -> None:
        check_name("a parameter's name", self.name)
        force_setattr(self, "doc", normalise_lines("documentation", self.doc))


class TypeArgument(msgspec.Struct, frozen=True, tag="type", tag_field="kind"):
    """A type given to a template."""

    type: TypeTerm


class ValueArgument(msgspec.Struct, frozen=True, tag="value", tag_field="kind"):
    """A value given to a template."""

    value: Value


class ReferenceArgument(msgspec.Struct, frozen=True, tag="reference", tag_field="kind"):
    """A reference given to a template; a ``Use`` in it may stand for a value, too."""

    reference: Reference


ArgumentContent: TypeAlias = TypeArgument | ValueArgument | ReferenceArgument


class Argument(msgspec.Struct, frozen=True):
    """What a parameter of a template is set to."""

    name: str
    content: ArgumentContent

    def __post_init__(self) -> None:
        check_name("an argument's name", self.name)


class Node(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    kw_only=True,
    dict=True,  # where the fingerprint is kept
    tag_field="kind",
):
    """What every kind of reference may carry."""

    title: str = ""
    """For people; no part of the meaning."""

    doc: str = ""
    """For people; no part of the meaning."""

    declared: TypeTerm | None = None
    """The ``as`` clause: the type to see this object as. External references need one."""

    def __post_init__(self) -> None:
        if self.title:
            check_line("a title", self.title)
            force_setattr(self, "title", " ".join(self.title.split()))
        if self.doc:
            force_setattr(self, "doc", normalise_lines("documentation", self.doc))


class Composite(Node, frozen=True, tag="composite"):
    """Objects that run side by side, connected (2.1.5 A)."""

    components: tuple[Component, ...] = ()
    connections: tuple[Connection, ...] = ()
    exports: tuple[Export, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _sort(self, "components", self.components)
        _sort(self, "exports", self.exports)
        ends = sorted(self.connections, key=lambda c: (c.one, c.other))
        force_setattr(self, "connections", tuple(ends))


class External(Node, frozen=True, tag="external"):
    """A reference that is kept elsewhere, in an object of type folder (2.1.5 B)."""

    name: str
    """What the folder knows it by."""

    source: Reference
    """The ``from`` clause: how to reach the folder."""

    parameters: tuple[Parameter, ...] = ()
    """What it must be given, if what is kept there is a template."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_line("an external object's name", self.name)
        if not self.name:
            raise UnfitReferenceError("an external object's name", "is empty")
        _sort(self, "parameters", self.parameters)


class Parameterized(Node, frozen=True, tag="parameterized"):
    """A template with arguments (2.1.5 C)."""

    template: Reference
    arguments: tuple[Argument, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        _sort(self, "arguments", self.arguments)


class Primitive(Node, frozen=True, tag="primitive"):
    """A protocol that is built in, chosen by a known identifier (2.1.5 D)."""

    identifier: str
    """A 128-bit number such as ``0x2``, or a name with dots such as ``acme.channel``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "identifier", normalise_identifier(self.identifier))


class Template(Node, frozen=True, tag="template"):
    """A reference with parameters: no object until they are set (2.1.4 E)."""

    parameters: tuple[Parameter, ...]
    body: Reference

    def __post_init__(self) -> None:
        super().__post_init__()
        _sort(self, "parameters", self.parameters)


class Use(Node, frozen=True, tag="use"):
    """In a template's body: whatever its parameter is set to."""

    parameter: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("a parameter's name", self.parameter)


Reference: TypeAlias = Composite | External | Parameterized | Primitive | Template | Use

_Named = TypeVar("_Named", Component, Export, Parameter, Argument)


def _sort(node: Node, field: str, parts: tuple[_Named, ...]) -> None:
    """Sort by name alone: namesakes, an error found later, stay in the order they came."""
    force_setattr(node, field, tuple(sorted(parts, key=_name_of)))


def _name_of(part: Component | Export | Parameter | Argument) -> str:
    return part.name


class LibraryAt(msgspec.Struct, frozen=True):
    """Where a library is, and what its bytes must hash to."""

    url: str
    sha256: str | None
    """As it was written; whether it has the form of a hash is for the check to say."""


def make_registry() -> Primitive:
    """Return the reference to each node's own registry."""
    return Primitive(identifier=REGISTRY)


def make_library(url: str, sha256: str | None = None) -> Parameterized:
    """Return the reference to the library at a URL."""
    arguments = [Argument(LIBRARY_URL, ValueArgument(Text(url)))]
    if sha256 is not None:
        arguments.append(Argument(LIBRARY_SHA256, ValueArgument(Text(sha256))))
    return Parameterized(template=Primitive(identifier=LIBRARY), arguments=tuple(arguments))


def is_registry(reference: Reference) -> bool:
    """Whether this is the registry."""
    return isinstance(reference, Primitive) and reference.identifier == REGISTRY


def find_library(reference: Reference) -> LibraryAt | None:
    """Return what a library's reference says; None if this is no library written plainly."""
    if not isinstance(reference, Parameterized) or reference.template != _LIBRARY:
        return None
    given: dict[str, str] = {}
    for argument in reference.arguments:
        match argument:
            case Argument(name, ValueArgument(Text(text))) if name not in given:
                given[name] = text
            case _:
                return None
    if not {LIBRARY_URL} <= given.keys() <= {LIBRARY_URL, LIBRARY_SHA256}:
        return None
    if any(len(text) > LINE_CHARACTERS_MAX for text in given.values()):
        return None
    return LibraryAt(given[LIBRARY_URL], given.get(LIBRARY_SHA256))


_LIBRARY = Primitive(identifier=LIBRARY)


def step_of(reference: Reference) -> str:
    """Return the word for this reference in a path."""
    if is_registry(reference):
        return "registry"
    if find_library(reference) is not None:
        return "library"
    return type(reference).__struct_config__.tag  # type: ignore[return-value]  # ours are texts
