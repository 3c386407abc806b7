"""The grammar of ``.liveobject`` files: each element of a reference, described once.

``LIVEOBJECT`` is the root. The reader, the writer and the schema follow these rules;
``type_rules`` has those of the types and values inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

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
    find_library,
    is_registry,
    make_library,
    parse_endpoint,
)
from quicksilver.live.references.names import REGISTRY, show_name
from quicksilver.live.references.typenames import TypeLiteral, TypeName, TypeTerm, parse_type_name
from quicksilver.live.references.xml.elements import ROOT, Element
from quicksilver.live.references.xml.grammar import Form, Group, Part, Rule
from quicksilver.live.references.xml.parts import (
    Attribute,
    Either,
    One,
    child,
    children,
    wrap,
)
from quicksilver.live.references.xml.type_rules import (
    DOC,
    LINE,
    NAME,
    TITLE,
    TYPES,
    VALUES,
    name_of,
)
from quicksilver.live.types.encoding import check_closed
from quicksilver.live.types.model import AnyType

_KINDS: Final[tuple[ParameterKind, ...]] = ("type", "value", "reference")

REFERENCES: Final = Group(name="reference")

# --- types, by name or written out -------------------------------------------------------


def _show_type_name(term: TypeTerm) -> str | None:
    return str(term) if isinstance(term, TypeName) else None


def _make_literal(inner: AnyType) -> TypeLiteral:
    check_closed(inner)
    return TypeLiteral(inner)


def _term(name: str, tag: str, doc: str) -> Part:
    """Return the part that is a type: the attribute names it, the child writes it out."""
    full = Rule(
        tag,
        One("inner", TYPES, "type"),
        make=_make_literal,
        view=lambda term: {"inner": term.type},
        doc=doc,
    )
    form = Form("typeName", parse_type_name, _show_type_name)
    return Either(name, form, tag, Group(full))


_COMMON = (TITLE, DOC, _term("declared", "as", "A type written out, to see the object as."))


def _common_of(reference: Reference) -> dict[str, Any]:
    return {part.name: getattr(reference, part.name) for part in _COMMON}


# --- parameters and arguments --------------------------------------------------------


def _parse_type_argument(text: str) -> TypeArgument:
    return TypeArgument(parse_type_name(text))


def _show_type_argument(content: ArgumentContent) -> str | None:
    return _show_type_name(content.type) if isinstance(content, TypeArgument) else None


def _content(name: str) -> Part:
    """Return the part that an argument is set to: a type, a value or a reference."""
    full = Rule(
        "type",
        One("inner", TYPES, "type"),
        make=lambda inner: TypeArgument(_make_literal(inner)),
        of=TypeArgument,
        view=lambda content: {"inner": content.type.type},
        doc="A type written out, as an argument.",
    )
    return Either(
        name,
        Form("typeName", _parse_type_argument, _show_type_argument),
        "type",
        Group(full),
        VALUES.as_seen(
            ValueArgument, lambda one: one.value if isinstance(one, ValueArgument) else None
        ),
        REFERENCES.as_seen(
            ReferenceArgument,
            lambda one: one.reference if isinstance(one, ReferenceArgument) else None,
        ),
        needs="type, value or reference",
    )


def _parse_kind(text: str) -> ParameterKind:
    for kind in _KINDS:
        if kind == text:
            return kind
    raise ValueError(f"a parameter is of kind {', '.join(_KINDS)}, not {text[:40]!a}")


_ARGUMENTS = children(
    "arguments",
    Rule(
        "argument",
        Attribute("name", NAME),
        _content("content"),
        make=Argument,
        key=name_of,
        is_noted=True,
        doc="What a parameter is set to: one type, value or reference.",
    ),
)
_PARAMETERS = children(
    "parameters",
    Rule(
        "parameter",
        Attribute("name", NAME),
        Attribute("kind", Form("parameterKind", _parse_kind)),
        DOC,
        _term("bound", "bound", "A type written out, which an argument must be of."),
        child(
            "default",
            wrap("default", _content("inner"), doc="What holds if a parameter is not set."),
            default=None,
        ),
        make=Parameter,
        key=name_of,
        is_noted=True,
        doc="What a template must be given.",
    ),
)

# --- composites ----------------------------------------------------------------------

_END = Form("endpoint", parse_endpoint)


def _name_connection(element: Element) -> str:
    ends = (parse_endpoint(element.attributes[name]) for name in ("between", "and"))
    connection = Connection(*ends)
    return f"{connection.one},{connection.other}"


def _name_export(element: Element) -> str:
    name = element.attributes.get("name")
    return show_name(parse_endpoint(element.attributes["endpoint"]).name if name is None else name)


def _make_export(name: str | None, endpoint: Endpoint) -> Export:
    return Export(endpoint.name if name is None else name, endpoint)


_COMPONENTS = children(
    "components",
    Rule(
        "component",
        Attribute("name", NAME),
        One("reference", REFERENCES, "reference"),
        make=Component,
        key=name_of,
        is_noted=True,
        doc="An inner object, known by its name there.",
    ),
)
_CONNECTIONS = children(
    "connections",
    Rule(
        "connection",
        Attribute("one", _END, "between"),
        Attribute("other", _END, "and"),
        make=Connection,
        key=_name_connection,
        is_noted=True,
        doc="Two endpoints that meet; neither comes first.",
    ),
)
_EXPORTS = children(
    "exports",
    Rule(
        "export",
        Attribute("name", NAME, default=None),
        Attribute("endpoint", _END),
        make=_make_export,
        key=_name_export,
        is_noted=True,
        doc="An inner endpoint shown as the composite's own.",
    ),
)

# --- references ----------------------------------------------------------------------


def _inner(name: str, tag: str, doc: str) -> Part:
    """Return the part that is a reference in an element of its own."""
    return child(name, wrap(tag, One("inner", REFERENCES, "reference"), doc=doc))


def _step_into_primitive(element: Element) -> str:
    if any(child.tag == "argument" for child in element.children):
        return "parameterized"
    return "registry" if element.attributes.get("id", "").lower() in _REGISTRY_IDS else "primitive"


_REGISTRY_IDS = frozenset("0x" + "0" * zeros + "2" for zeros in range(32))


def _make_primitive(
    identifier: str, arguments: tuple[Argument, ...], **common: Any
) -> Primitive | Parameterized:
    if not arguments:
        return Primitive(identifier=identifier, **common)
    template = Primitive(identifier=identifier)
    return Parameterized(template=template, arguments=arguments, **common)


def _view_primitive(reference: Primitive) -> Mapping[str, Any]:
    return {"identifier": reference.identifier, "arguments": (), **_common_of(reference)}


def _make_registry(**common: Any) -> Primitive:
    return Primitive(identifier=REGISTRY, **common)


def _view_registry(reference: Primitive) -> Mapping[str, Any] | None:
    return _common_of(reference) if is_registry(reference) else None


def _make_library(url: str, sha256: str | None, **common: Any) -> Parameterized:
    return msgspec.structs.replace(make_library(url, sha256), **common)


def _view_library(reference: Parameterized) -> Mapping[str, Any] | None:
    library = find_library(reference)
    if library is None:
        return None
    return {"url": library.url, "sha256": library.sha256, **_common_of(reference)}


def _note_library(path: str, made: Reference) -> tuple[str, ...]:
    """Return where else a library is that was written the long way: under its own word."""
    if find_library(made) is None:
        return ()
    return (path.rpartition("parameterized")[0] + "library",)


def _note_primitive(path: str, made: Reference) -> tuple[str, ...]:
    """Return where the template is of which a primitive with arguments is made."""
    if not isinstance(made, Parameterized):
        return ()
    return (f"{path}/using/primitive", *_note_library(path, made))


REFERENCES.fill(
    Rule(
        "composite",
        *_COMMON,
        _COMPONENTS,
        _CONNECTIONS,
        _EXPORTS,
        make=Composite,
        of=Composite,
        is_noted=True,
        doc="Objects that run side by side, connected (dissertation 2.1.5 A).",
    ),
    Rule(
        "external",
        Attribute("name", LINE),
        *_COMMON,
        _PARAMETERS,
        _inner("source", "from", "The folder that an external reference is kept in."),
        make=External,
        of=External,
        is_noted=True,
        doc="A reference kept in a folder (2.1.5 B). "
        "Needs a type, as attribute or element, and one from.",
    ),
    Rule(
        "library",
        Attribute("url", LINE),
        Attribute("sha256", LINE, default=None),
        *_COMMON,
        make=_make_library,
        of=Parameterized,
        view=_view_library,
        is_noted=True,
        doc="Code from a file or URL: short for primitive 0x1 with arguments URL and SHA256.",
    ),
    Rule(
        "parameterized",
        *_COMMON,
        _inner("template", "using", "The template that is given arguments."),
        _ARGUMENTS,
        make=Parameterized,
        of=Parameterized,
        is_noted=True,
        note_also=_note_library,
        doc="A template with arguments (2.1.5 C).",
    ),
    Rule(
        "registry",
        *_COMMON,
        make=_make_registry,
        of=Primitive,
        view=_view_registry,
        is_noted=True,
        doc="The folder that each node keeps for itself: short for primitive 0x2.",
    ),
    Rule(
        "primitive",
        Attribute("identifier", Form("identifier"), "id"),
        *_COMMON,
        _ARGUMENTS,
        make=_make_primitive,
        of=Primitive,
        view=_view_primitive,
        step=_step_into_primitive,
        is_noted=True,
        note_also=_note_primitive,
        doc="Something built in, by its identifier (2.1.5 D); "
        "with arguments, short for a parameterized reference.",
    ),
    Rule(
        "template",
        *_COMMON,
        _PARAMETERS,
        _inner("body", "body", "What a template becomes once it is given its arguments."),
        make=Template,
        of=Template,
        is_noted=True,
        doc="A reference with parameters (2.1.4 E).",
    ),
    Rule(
        "use",
        Attribute("parameter", NAME),
        *_COMMON,
        make=Use,
        of=Use,
        is_noted=True,
        doc="In a template's body: whatever its parameter is set to.",
    ),
)

LIVEOBJECT: Final = wrap(
    ROOT, One("inner", REFERENCES, "reference"), is_step=False, doc="A file: one reference."
)
