"""The two built-in objects that every runtime has: the library and the registry (2.1.5 D).

They are primitives like others. What is special is only how they are written,
``<registry/>`` and ``<library url="..." sha256="..."/>``, and that a library
names code, about which there is a policy (see ``library``).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Composite,
    External,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    ValueArgument,
)
from quicksilver.live.references.names import (
    LIBRARY,
    LIBRARY_SHA256,
    LIBRARY_URL,
    LINE_CHARACTERS_MAX,
    REGISTRY,
)
from quicksilver.live.references.values import Text


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


def walk(reference: Reference, path: str = "") -> Iterator[tuple[str, Reference]]:
    """Yield this reference and all inside it, with their paths, outermost first."""
    path = f"{path}/{step_of(reference)}" if path else step_of(reference)
    yield path, reference
    match reference:
        case Composite():
            for component in reference.components:
                yield from walk(component.reference, f"{path}/component[{component.name}]")
        case External():
            yield from walk(reference.source, f"{path}/from")
        case Parameterized():
            yield from walk(reference.template, f"{path}/using")
            for argument in reference.arguments:
                yield from _walk_content(argument.content, f"{path}/argument[{argument.name}]")
        case Template():
            for parameter in reference.parameters:
                if parameter.default is not None:
                    inner = f"{path}/parameter[{parameter.name}]/default"
                    yield from _walk_content(parameter.default, inner)
            yield from walk(reference.body, f"{path}/body")
        case _:
            pass


def _walk_content(content: ArgumentContent, path: str) -> Iterator[tuple[str, Reference]]:
    if isinstance(content, ReferenceArgument):
        yield from walk(content.reference, path)
