"""References written in Python; the result is the same value that a file gives.

    channel = (
        composite()
        .component("network", external("MyChannel", "Channel", registry()))
        .component("recovery", primitive("acme.recovery", window=64))
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build()
    )
    note = primitive("0x3", Channel=channel)

Types are given by name (``"Folder[Identifier, Channel]"``) or as data of
``quicksilver.live.types``.

``STARTERS`` are references written so: the files that ``quicksilver object new`` makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Component,
    Composite,
    Connection,
    Endpoint,
    Export,
    External,
    Node,
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
    make_library,
    make_registry,
    parse_endpoint,
)
from quicksilver.live.references.typenames import (
    TypeLiteral,
    TypeName,
    TypeTerm,
    parse_type_name,
)
from quicksilver.live.references.values import to_value
from quicksilver.live.types.build import event, object_type
from quicksilver.live.types.model import STR, AnyType, EndpointType, Term

TypeLike: TypeAlias = str | TypeTerm | AnyType


class CompositeBuilder:
    """A composite in the making; each method returns the builder."""

    def __init__(self, title: str, doc: str, declared: TypeTerm | None) -> None:
        self._title = title
        self._doc = doc
        self._declared = declared
        self._components: list[Component] = []
        self._connections: list[Connection] = []
        self._exports: list[Export] = []

    def component(self, name: str, reference: Reference) -> CompositeBuilder:
        """Add an inner object under a name."""
        self._components.append(Component(name, reference))
        return self

    def connect(self, one: str, other: str) -> CompositeBuilder:
        """Connect two endpoints, each ``component.endpoint``."""
        self._connections.append(Connection(parse_endpoint(one), parse_endpoint(other)))
        return self

    def export(self, endpoint: str, name: str | None = None) -> CompositeBuilder:
        """Show an inner endpoint outside, under its own name or another."""
        inner: Endpoint = parse_endpoint(endpoint)
        self._exports.append(Export(inner.name if name is None else name, inner))
        return self

    def build(self) -> Composite:
        """Return the reference; the builder can go on from here to another."""
        return Composite(
            components=tuple(self._components),
            connections=tuple(self._connections),
            exports=tuple(self._exports),
            title=self._title,
            doc=self._doc,
            declared=self._declared,
        )


def composite(*, title: str = "", doc: str = "", as_: TypeLike | None = None) -> CompositeBuilder:
    """Begin a composite of objects that run side by side."""
    return CompositeBuilder(title, doc, to_term(as_))


def external(
    name: str,
    as_: TypeLike,
    source: Reference,
    *,
    parameters: Iterable[Parameter] = (),
    title: str = "",
    doc: str = "",
) -> External:
    """Return the reference to what a folder keeps under a name, seen as a type."""
    return External(
        name=name,
        source=source,
        parameters=tuple(parameters),
        declared=to_term(as_),
        title=title,
        doc=doc,
    )


def primitive(
    identifier: str,
    /,
    *,
    title: str = "",
    doc: str = "",
    as_: TypeLike | None = None,
    **arguments: Any,
) -> Primitive | Parameterized:
    """Return the reference to something built in; with arguments, to a template given them."""
    if not arguments:
        return Primitive(identifier=identifier, title=title, doc=doc, declared=to_term(as_))
    return given(Primitive(identifier=identifier), arguments, title=title, doc=doc, as_=as_)


def given(
    template: Reference,
    arguments: dict[str, Any],
    *,
    title: str = "",
    doc: str = "",
    as_: TypeLike | None = None,
) -> Parameterized:
    """Return a template with its arguments: references, types or plain values."""
    return Parameterized(
        template=template,
        arguments=tuple(
            Argument(name, to_content(argument)) for name, argument in arguments.items()
        ),
        title=title,
        doc=doc,
        declared=to_term(as_),
    )


def template(
    parameters: Iterable[Parameter], body: Reference, *, title: str = "", doc: str = ""
) -> Template:
    """Return a reference with parameters."""
    return Template(parameters=tuple(parameters), body=body, title=title, doc=doc)


def parameter(
    name: str,
    kind: ParameterKind,
    bound: TypeLike | None = None,
    *,
    doc: str = "",
    **default: Any,
) -> Parameter:
    """Declare a parameter; ``default=...`` is what holds if no argument is given."""
    unknown = default.keys() - {"default"}
    if unknown:
        raise TypeError(f"parameter() got an unexpected argument {min(unknown)!r}")
    content = to_content(default["default"]) if default else None
    return Parameter(name, kind, to_term(bound), content, doc)


def use(name: str) -> Use:
    """Stand for a parameter in the body of a template."""
    return Use(parameter=name)


def registry() -> Primitive:
    """Return the reference to each node's own registry."""
    return make_registry()


def library(url: str, sha256: str | None = None) -> Parameterized:
    """Return the reference to a library of code; it is loaded only if its bytes have this hash."""
    return make_library(url, sha256)


def type_named(text: str) -> TypeName:
    """Return a type by its name, where a text alone would be taken for a value."""
    return parse_type_name(text)


def to_term(type_: TypeLike | None) -> TypeTerm | None:
    """Return a type as a reference says it; a text is a name."""
    match type_:
        case None | TypeName() | TypeLiteral():
            return type_
        case str():
            return parse_type_name(type_)
        case _:
            return TypeLiteral(type_)


def to_content(argument: Any) -> ArgumentContent:
    """Return an argument as a reference carries it; raises UnfitReferenceError if it cannot."""
    match argument:
        case Node():
            return ReferenceArgument(cast("Reference", argument))
        case TypeName() | TypeLiteral():
            return TypeArgument(argument)
        case Term():
            return TypeArgument(TypeLiteral(cast("AnyType", argument)))
        case _:
            return ValueArgument(to_value(argument))


_URL = "file:///change/this/to/your/library.py"
_NO_HASH = "0" * 64
_HASH = "Put the library's SHA-256 here: sha256sum library.py"


def _make_composite() -> Reference:
    platform = external("QuickSilver", "Folder[Identifier, Channel]", registry())
    recovery = external("LossRecovery", "LossRecovery", library(_URL, _NO_HASH), doc=_HASH)
    return (
        composite(title="A reliable channel", doc="Two objects side by side, and what they show.")
        .component("network", external("MyChannel", "Channel", platform))
        .component("recovery", recovery)
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build()
    )


def _make_external() -> Reference:
    platform = external("MyPlatform", "Folder[Identifier, Channel]", registry())
    return external(
        "MyChannel", "Channel", platform, doc="A channel that each node's registry leads to."
    )


def _make_library() -> Reference:
    port = EndpointType((event("say", words=STR),), (event("heard", words=STR),))
    type_ = object_type({"Talk": port}, title="MyType")
    return external("MyClass", type_, library(_URL, _NO_HASH), title="My own object", doc=_HASH)


def _make_shared_text() -> Reference:
    channel = primitive("quicksilver.checkpointed-channel", group="my-notes")
    return primitive(
        "quicksilver.text",
        title="A shared text",
        doc="Whoever runs this file edits the same text; change the group for another one.",
        channel=channel,
    )


def _make_template() -> Reference:
    return template(
        [
            parameter("Network", "reference", "Channel", doc="What loses messages."),
            parameter("Recovery", "reference", "LossRecovery", doc="What asks for them again."),
        ],
        composite()
        .component("network", use("Network"))
        .component("recovery", use("Recovery"))
        .connect("network.UnreliableChannel", "recovery.UnreliableChannel")
        .export("recovery.ReliableChannel")
        .build(),
        title="Reliable channel",
    )


STARTERS: Final[dict[str, Callable[[], Reference]]] = {
    "composite": _make_composite,
    "external": _make_external,
    "library": _make_library,
    "shared-text": _make_shared_text,
    "template": _make_template,
}
"""Names of the files to start from, and the function that makes each."""
