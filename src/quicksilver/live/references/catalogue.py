"""What is known by name: types, and the primitives that are built in.

A catalogue is filled by whoever provides objects: the standard types here, the
component library, and anybody else who installs a package with an entry point
of the group ``quicksilver.catalogue``. References are checked against one;
nothing in it runs.

Wrappers are objects that make another object into one of a type that it is not
(2.1.4 F). When a reference is declared as a type that its object does not have, or a
proxy is cast to one, a wrapper that is known here may stand between: it is connected
to one endpoint of the object, and shows endpoints of its own. As the reference says
so wherever it goes, the wrapper runs on every node where the object does, and the
distributed object as a whole is wrapped (Example d).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from quicksilver.live.references.errors import DuplicateEntryError, LiveReferenceError
from quicksilver.live.references.model import Parameter, Reference
from quicksilver.live.references.names import normalise_identifier
from quicksilver.live.references.typenames import (
    RESERVED,
    TypeLiteral,
    TypeName,
    TypeTerm,
    build_value_type,
)
from quicksilver.live.types import model as types
from quicksilver.live.types.errors import Diagnosis, ParameterError
from quicksilver.live.types.model import Endpoint, EndpointType, ObjectType
from quicksilver.live.types.parameters import (
    free_parameters,
    instantiate,
    substitute_parameters,
)
from quicksilver.live.types.subtyping import Checker, check_match


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """An object to put around others, and how it is connected to them."""

    title: str
    """What it is called in names of proxies; of two that would do, the first in order is taken."""

    reference: Reference
    """The reference that the wrapper itself is made from."""

    type: ObjectType
    """The type of the wrapper itself."""

    inside: str
    """Its endpoint that is connected to what it wraps."""

    wraps: str
    """The endpoint that it wraps."""

    shows: dict[str, str]
    """Endpoints of the wrapped object as seen from outside, and which of its own each is."""

    def find_type(
        self, inner: ObjectType, checker: Checker, catalogue: Catalogue
    ) -> ObjectType | None:
        """Return the type of an object with this around it; None if it cannot be put around it."""
        wrapped = inner.by_name.get(self.wraps)
        mine = self.type.by_name.get(self.inside)
        if not isinstance(wrapped, EndpointType) or not isinstance(mine, EndpointType):
            return None
        if check_match(checker, wrapped, mine, catalogue.conversions) is not None:
            return None
        shown = {
            one.name: one.type
            for one in inner.endpoints
            if one.name != self.wraps and one.name not in self.shows
        }
        for name, own in self.shows.items():
            shown[name] = self.type.by_name[own]
        return ObjectType(tuple(Endpoint(name, type_) for name, type_ in shown.items()))


def find_wrapper(
    checker: Checker, catalogue: Catalogue, inner: ObjectType, wanted: ObjectType
) -> Wrapper | None:
    """Return the wrapper that makes objects of one type into objects of another."""
    for wrapper in catalogue.wrappers():
        made = wrapper.find_type(inner, checker, catalogue)
        if made is not None and checker.check_object_subtype(made, wanted) is None:
            return wrapper
    return None


def check_cast(
    checker: Checker, catalogue: Catalogue, inner: ObjectType, wanted: ObjectType
) -> Diagnosis | None:
    """Return why an object cannot be seen as a type, not even with a wrapper; None if it can."""
    problem = checker.check_object_subtype(inner, wanted)
    if problem is None or find_wrapper(checker, catalogue, inner, wanted) is not None:
        return None
    return problem


ENTRY_POINTS: Final = "quicksilver.catalogue"
"""Group of the functions that take a catalogue and add to it."""


RESOLVED_KEPT_MAX = 1000


class UnknownTypeError(LiveReferenceError):
    """A name that no catalogue knows as a type."""

    def __init__(self, name: str, near: str | None) -> None:
        super().__init__(name, near)
        self.name = name
        self.near = near

    def __str__(self) -> str:
        hint = f"; did you mean {self.near!r}?" if self.near else ""
        return f"no type is called {self.name!r}{hint}"


class TypeUseError(LiveReferenceError):
    """A known type used wrongly: arguments that do not fit."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the type {self.name!r} {self.problem}"


class CatalogueLoadError(LiveReferenceError):
    """An installed package could not add what it announces."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the package that announces {self.name!r} to the catalogue fails: {self.problem}"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A primitive: what its proxies look like, and what it must be given."""

    identifier: str
    title: str
    summary: str = ""
    type: types.ObjectType
    """May mention type parameters of this primitive as ``types.Parameter``."""

    parameters: tuple[Parameter, ...] = ()
    """With any, this is a template."""


class Catalogue:
    """Types and primitives by name. Adding the same again changes nothing."""

    def __init__(self) -> None:
        self._types: dict[str, types.AnyType] = {}
        self._primitives: dict[str, Known] = {}
        self._wrappers: dict[str, Wrapper] = {}
        self.conversions: dict[tuple[bytes, bytes], None] = {}
        """Value types that a registered function turns into others, as pairs of digests."""
        self._resolved: dict[TypeName, types.AnyType] = {}
        self.kept: dict[object, Any] = {}
        """What others found out with this catalogue, under their own keys; a change clears it."""

    def add_type(self, name: str, type_: types.AnyType) -> None:
        """Make a type known by a name; raises DuplicateEntryError if it means another."""
        if name in RESERVED:
            raise DuplicateEntryError("type", name)
        self._add(self._types, "type", name, type_)

    def add(self, known: Known) -> None:
        """Make a primitive known; raises DuplicateEntryError if its identifier means another."""
        self._add(self._primitives, "primitive", normalise_identifier(known.identifier), known)

    def add_wrapper(self, wrapper: Wrapper) -> None:
        """Make a wrapper known that casts may put around objects."""
        self._add(self._wrappers, "wrapper", wrapper.title, wrapper)

    def add_conversion(self, source: types.ValueType, target: types.ValueType) -> None:
        """Make known that runtimes here can turn values of one type into another's."""
        self.conversions[source.digest, target.digest] = None
        self._change()

    def _add(self, table: dict[str, Any], what: str, name: str, entry: object) -> None:
        if name in table:
            if table[name] != entry:
                raise DuplicateEntryError(what, name)
            return
        table[name] = entry
        self._change()

    def _change(self) -> None:
        self._resolved.clear()
        self.kept.clear()

    def find(self, identifier: str) -> Known | None:
        """Return the primitive of a (normalised) identifier."""
        return self._primitives.get(identifier)

    def suggest(self, identifier: str) -> str | None:
        """Return the known identifier that is spelled most like an unknown one."""
        return _nearest(identifier, self._primitives)

    def wrappers(self) -> Iterator[Wrapper]:
        """Yield wrappers in order of their titles."""
        for _, wrapper in sorted(self._wrappers.items()):
            yield wrapper

    def find_type(self, name: str) -> types.AnyType | None:
        """Return the type that is known by a name."""
        return self._types.get(name)

    def named_types(self) -> Iterator[tuple[str, types.AnyType]]:
        """Yield names and types in order of names."""
        yield from sorted(self._types.items())

    def primitives(self) -> Iterator[Known]:
        """Yield primitives in order of their identifiers, numbers first."""
        for key in sorted(
            self._primitives, key=lambda key: (not key.startswith("0x"), len(key), key)
        ):
            yield self._primitives[key]

    def resolve(
        self, term: TypeTerm, scope: Mapping[str, types.AnyType] | None = None
    ) -> types.AnyType:
        """Return the type that a term says.

        Names in ``scope`` come first: the parameters of the templates around.
        Raises UnknownTypeError or TypeUseError.
        """
        if isinstance(term, TypeLiteral):
            return substitute_parameters(term.type, scope) if scope else term.type
        if not scope:
            found = self._resolved.get(term)
            if found is None:
                if len(self._resolved) >= RESOLVED_KEPT_MAX:
                    self._resolved.clear()
                found = self._resolved[term] = self._resolve(term, {})
            return found
        return self._resolve(term, scope)

    def _resolve(self, term: TypeName, scope: Mapping[str, types.AnyType]) -> types.AnyType:
        given = scope.get(term.name)
        if given is not None:
            if term.arguments:
                raise TypeUseError(term.name, "is a parameter and takes no arguments")
            return given
        inner = tuple(self._resolve(argument, scope) for argument in term.arguments)
        if term.name in RESERVED:
            return self._resolve_value(term, inner)
        known = self._types.get(term.name)
        if known is None:
            raise UnknownTypeError(term.name, _nearest(term.name, self._types))
        return _instantiate(term.name, known, inner)

    @staticmethod
    def _resolve_value(term: TypeName, inner: tuple[types.AnyType, ...]) -> types.AnyType:
        if term.name == "ref":
            match inner:
                case ((types.ObjectType() | types.Parameter()) as target,):
                    return types.ReferenceOf(target)
                case _:
                    raise TypeUseError("ref", "takes one object type")
        values: list[types.ValueType] = []
        for argument in inner:
            if isinstance(argument, types.ObjectType | types.EndpointType):
                raise TypeUseError(term.name, "is made of value types")
            values.append(argument)
        try:
            made = build_value_type(term, tuple(values))
        except ValueError as error:
            raise TypeUseError(term.name, str(error).removeprefix(f"{term.name} ")) from None
        assert made is not None
        return made


def _instantiate(
    name: str, known: types.AnyType, arguments: tuple[types.AnyType, ...]
) -> types.AnyType:
    parameters = known.parameters if isinstance(known, types.ObjectType) else ()
    if len(parameters) != len(arguments):
        expected = ", ".join(one.name for one in parameters)
        wants = f"takes {len(parameters)} ({expected})" if parameters else "takes no arguments"
        raise TypeUseError(name, f"{wants}, not {len(arguments)}")
    if not parameters:
        return known
    assert isinstance(known, types.ObjectType)
    given = {one.name: type_ for one, type_ in zip(parameters, arguments, strict=True)}
    titled = known
    if known.title:
        title = f"{name}[{', '.join(map(_title_of, arguments))}]"
        titled = msgspec.structs.replace(known, title=title)
    if any(free_parameters(argument) for argument in arguments):
        # Inside a template that nobody has given its types: bounds are checked when it is.
        return substitute_parameters(msgspec.structs.replace(titled, parameters=()), given)
    try:
        return instantiate(titled, given)
    except ParameterError as error:
        raise TypeUseError(name, f"cannot take its arguments: {error.diagnosis.line}") from None


def _title_of(type_: types.AnyType) -> str:
    match type_:
        case types.Scalar(name) | types.Parameter(name):
            return name
        case types.ObjectType() | types.EndpointType() | types.StructOf():
            return type_.title or "…"
        case _:
            return "…"


def _nearest(name: str, names: Mapping[str, object]) -> str | None:
    found = difflib.get_close_matches(name, names, n=1)
    return found[0] if found else None


def load_installed(catalogue: Catalogue) -> None:
    """Let every installed package add what it provides; raises CatalogueLoadError if one cannot."""
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        try:
            point.load()(catalogue)
        except Exception as error:
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            raise CatalogueLoadError(point.name, problem) from error
