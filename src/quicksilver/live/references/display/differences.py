"""What is different between two references, in lines for people.

Both are taken apart into facts, each at a path; a fact is only in one of them,
or is another in each. Order is no difference, because it means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, TypeVar

import msgspec

from quicksilver.live.references.display.notation import show_type
from quicksilver.live.references.model import (
    ArgumentContent,
    Composite,
    External,
    Parameter,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
    find_library,
    step_of,
)
from quicksilver.live.references.typenames import TypeLiteral, TypeName, TypeTerm
from quicksilver.live.references.values import Value, from_value
from quicksilver.live.types.notation import render_type

Sign: TypeAlias = Literal["-", "+", "~"]

_T = TypeVar("_T")
_Fact: TypeAlias = str | TypeTerm | Value

_SHOWN_MAX = 100


class Difference(msgspec.Struct, frozen=True):
    """One fact that is not the same in both."""

    path: str
    sign: Sign
    """``-``: only in the first; ``+``: only in the second; ``~``: another in each."""

    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        match self.sign:
            case "-":
                return f"- {self.path}: {self.before}"
            case "+":
                return f"+ {self.path}: {self.after}"
            case "~":
                return f"~ {self.path}: {self.before} → {self.after}"


def diff(before: Reference, after: Reference) -> list[Difference]:
    """Return the differences in order of their paths; none exactly if the values are equal."""
    old, new = dict(_facts(before, "")), dict(_facts(after, ""))
    gone, come = old.keys() - new.keys(), new.keys() - old.keys()
    found: list[Difference] = []
    for path in sorted({*old, *new}):
        if path in old and path in new:
            if old[path] != new[path]:
                said = _show(old[path]), _show(new[path])
                if said[0] == said[1]:
                    said = _show(old[path], is_full=True), _show(new[path], is_full=True)
                found.append(Difference(path, "~", *said))
        elif path in old:
            if not _is_inside(path, gone):
                found.append(Difference(path, "-", before=_show(old[path])))
        elif not _is_inside(path, come):
            found.append(Difference(path, "+", after=_show(new[path])))
    return found


def _is_inside(path: str, others: set[str]) -> bool:
    """Whether this is only part of something that came or went as a whole."""
    around = path.rpartition("/")[0]
    while around:
        if around in others:
            return True
        around = around.rpartition("/")[0]
    return False


def _facts(reference: Reference, around: str) -> Iterator[tuple[str, _Fact]]:
    """Yield paths and what stands there; the parts of a reference come after itself."""
    # The kind is a fact at the place, so that another kind there is a change, not two.
    here = f"{around}/" if around else ""
    library = find_library(reference)
    yield around or "reference", f"{step_of(reference)}{_name(reference)}"
    if reference.title:
        yield f"{here}title", repr(reference.title)
    if reference.doc:
        yield f"{here}doc", repr(reference.doc)
    if reference.declared is not None:
        yield f"{here}as", reference.declared
    if library is not None:
        yield f"{here}url", library.url
        yield f"{here}sha256", library.sha256 or "none"
        return
    match reference:
        case Composite():
            yield from _composite_facts(reference, here)
        case External():
            yield from _parameter_facts(reference.parameters, here)
            yield from _facts(reference.source, f"{here}from")
        case Parameterized():
            yield from _facts(reference.template, f"{here}using")
            for name, argument in _numbered([(one.name, one) for one in reference.arguments]):
                yield from _content_facts(argument.content, f"{here}argument[{name}]")
        case Template():
            yield from _parameter_facts(reference.parameters, here)
            yield from _facts(reference.body, f"{here}body")
        case Primitive() | Use():
            pass


def _composite_facts(reference: Composite, here: str) -> Iterator[tuple[str, _Fact]]:
    for name, component in _numbered([(one.name, one) for one in reference.components]):
        yield from _facts(component.reference, f"{here}component[{name}]")
    for name, _ in _numbered([(f"{one.one},{one.other}", one) for one in reference.connections]):
        yield f"{here}connection[{name}]", "connected"
    for name, export in _numbered([(one.name, one) for one in reference.exports]):
        yield f"{here}export[{name}]", str(export.endpoint)


def _parameter_facts(parameters: tuple[Parameter, ...], here: str) -> Iterator[tuple[str, _Fact]]:
    for name, parameter in _numbered([(one.name, one) for one in parameters]):
        path = f"{here}parameter[{name}]"
        yield path, parameter.kind
        if parameter.bound is not None:
            yield f"{path}/bound", parameter.bound
        if parameter.doc:
            yield f"{path}/doc", repr(parameter.doc)
        if parameter.default is not None:
            yield from _content_facts(parameter.default, f"{path}/default")


def _content_facts(content: ArgumentContent, path: str) -> Iterator[tuple[str, _Fact]]:
    match content:
        case TypeArgument(term):
            yield path, term
        case ValueArgument(value):
            yield path, value
        case ReferenceArgument(reference):
            yield from _facts(reference, path)


def _numbered(parts: list[tuple[str, _T]]) -> Iterator[tuple[str, _T]]:
    seen: dict[str, int] = {}
    for name, part in parts:
        count = seen[name] = seen.get(name, 0) + 1
        yield (name if count == 1 else f"{name}#{count}"), part


def _name(reference: Reference) -> str:
    match reference:
        case External():
            return f" “{reference.name}”"
        case Primitive():
            return f" {reference.identifier}"
        case Use():
            return f" {reference.parameter}"
        case _:
            return ""


def _show(fact: _Fact, *, is_full: bool = False) -> str:
    match fact:
        case str():
            text = fact
        case TypeLiteral(type_) if is_full:
            text = f"{render_type(type_, chars_max=60)} ({type_.fingerprint[:12]})"
        case TypeLiteral() | TypeName():
            text = show_type(fact)
        case _:
            text = repr(from_value(fact))
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
