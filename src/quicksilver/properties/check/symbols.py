"""What the names of a program stand for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.spellings import CONTAINERS, SCALARS
from quicksilver.properties.values.kinds import (
    ADDRESS,
    BOOL,
    INT,
    INTSET,
    AddressKind,
    IntKind,
    Kind,
    MapKind,
    PairKind,
    SetKind,
    is_collection,
)

Named = TypeVar("Named", tree.Parameter, tree.Property, tree.Event)

_SCALARS: dict[str, Kind] = {"int": INT, "bool": BOOL, "address": ADDRESS, "intset": INTSET}
assert set(_SCALARS) == set(SCALARS)


@dataclass(frozen=True)
class Symbols:
    """Declared names. Of names that are declared twice the first stands."""

    parameters: dict[str, tree.Parameter]
    callbacks: dict[str, tree.Event]
    requests: dict[str, tree.Event]
    properties: dict[str, tree.Property]
    kinds: dict[str, Kind | None]
    """Of properties and parameters; None if the type makes no sense, which is told."""
    positions: dict[str, int]
    """Of properties, in the order of the program."""
    diagnostics: tuple[Diagnostic, ...]


def declare(program: tree.Program) -> Symbols:
    """Return what a program declares."""
    diagnostics: list[Diagnostic] = []
    parameters = _first(program.parameters)
    properties = _first(program.properties)
    kinds: dict[str, Kind | None] = {}
    types = [(name, one.type) for name, one in parameters.items()]
    types += [(name, one.type) for name, one in properties.items()]
    for name, type_ in types:
        kinds.setdefault(name, resolve(type_, diagnostics))
    events = program.events
    for event in events:
        for parameter in event.parameters:
            resolve(parameter.type, diagnostics)
    return Symbols(
        parameters,
        _first(one for one in events if one.is_callback),
        _first(one for one in events if not one.is_callback),
        properties,
        kinds,
        {name: at for at, name in enumerate(properties)},
        tuple(diagnostics),
    )


def resolve(type_: tree.TypeName, diagnostics: list[Diagnostic]) -> Kind | None:
    """Return the kind that a type stands for; None, with a finding, if it stands for none."""
    found = list(_problems(type_))
    if found:
        diagnostics.extend(found)
        return None
    return kind_of(type_)


def kind_of(type_: tree.TypeName) -> Kind | None:
    """Return the kind that a type stands for; None if it stands for none."""
    if next(_problems(type_), None) is not None:
        return None
    if type_.name in _SCALARS:
        return _SCALARS[type_.name]
    parts = [kind_of(each) for each in type_.arguments]
    assert None not in parts
    kinds: list[Kind] = [part for part in parts if part is not None]
    if type_.name == "set":
        return SetKind(kinds[0])
    return PairKind(*kinds) if type_.name == "pair" else MapKind(*kinds)


def _problems(type_: tree.TypeName) -> Iterator[Diagnostic]:
    if type_.name not in _SCALARS and type_.name not in CONTAINERS:
        yield Diagnostic(
            code="types",
            span=type_.span,
            text=f"there is no type {type_.name}",
            suggestion=suggest(type_.name, (*_SCALARS, *CONTAINERS)),
        )
        return
    wanted = CONTAINERS.get(type_.name, 0)
    if len(type_.arguments) != wanted:
        parts = ", ".join("KV"[-wanted:][at] for at in range(wanted))
        yield Diagnostic(
            code="types",
            span=type_.span,
            text=f"{type_.name} takes {wanted or 'no'} type{'s' * (wanted != 1)}",
            suggestion=f"write {type_.name}<{parts}>" if wanted else f"write {type_.name}",
        )
        return
    for each in type_.arguments:
        yield from _problems(each)
    if any(next(_problems(each), None) for each in type_.arguments):
        return
    first = kind_of(type_.arguments[0]) if wanted else None
    if type_.name == "set" and not isinstance(first, AddressKind | PairKind):
        yield Diagnostic(
            code="types",
            span=type_.span,
            text=f"there are no sets of {first}",
            why="sets are of addresses or of pairs",
            suggestion="use intset" if isinstance(first, IntKind) else "",
        )
    elif type_.name == "set" and not is_ordered(first):
        yield Diagnostic(
            code="types",
            span=type_.arguments[0].span,
            text=f"{first} cannot be the item of a set",
            why="items are kept in an order, and sets and maps have none",
            suggestion="use a map",
        )
    if type_.name == "map" and not isinstance(first, AddressKind | IntKind):
        yield Diagnostic(
            code="types",
            span=type_.arguments[0].span,
            text=f"{first} cannot be the key of a map",
            suggestion="use int or address",
        )


def is_ordered(kind: Kind | None) -> bool:
    """Return whether values of a kind can be compared with ``<``: sets and maps cannot."""
    if isinstance(kind, PairKind):
        return is_ordered(kind.first) and is_ordered(kind.second)
    return kind is not None and not is_collection(kind)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean ...``, or which names there are, or nothing."""
    names = sorted(set(known))
    folded = {one.lower(): one for one in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {folded[close[0]]}?"
    if names and len(names) <= 8:
        return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    return ""


def _first(declared: Iterable[Named]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for one in declared:
        found.setdefault(one.name.text, one)
    return found
