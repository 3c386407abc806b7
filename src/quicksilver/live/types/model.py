"""Distributed types as data (dissertation 2.1.2): values, events, endpoints, objects.

A type here knows no Python class. It is a frozen tree of the nodes below, made
by hand, by reflection or by a parser, and compared by structure: every node has
a digest of its canonical content, two nodes are equal when their digests are,
and what is only said for readers (``title``, ``doc``, names of arguments) is not
part of it. Sets are kept as sorted tuples, so the same meaning is the same bytes.

The dissertation's ``tau = (I, O, C, C')`` is ``EndpointType(inputs, outputs,
provides, requires)``, its ``Theta = (E, C, C')`` is ``ObjectType(endpoints,
provides, requires)``. Recursion is written with a binder (``Recursive``) and the
number of binders between a use and its own (``Recur``), so no name can clash.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

import msgspec

NAME_CHARS_MAX = 200
CONSTRAINT_CHARS_MAX = 4096

ScalarName: TypeAlias = Literal["none", "bool", "int", "float", "str", "bytes", "any"]
ParameterKind: TypeAlias = Literal["value", "value_type", "endpoint_type", "object_type"]
LiteralValue: TypeAlias = bool | int | str


class Term(
    msgspec.Struct,
    frozen=True,
    eq=False,
    dict=True,  # where the digest and the indices by name are kept
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="kind",
):
    """A node of a type. Equal means: of equal digest."""

    SORT: ClassVar[str] = ""

    def _content(self) -> tuple[object, ...]:
        """Return what takes part in comparison: strings, numbers, terms, tuples of them."""
        raise NotImplementedError

    @cached_property
    def digest(self) -> bytes:
        """Return 32 bytes that are the same exactly when the structure is."""
        return hashlib.blake2b(_canonical((self.SORT, *self._content())), digest_size=32).digest()

    @property
    def fingerprint(self) -> str:
        """Return the digest as text, the same on every machine and in every version of Python."""
        return self.digest.hex()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Term) and self.digest == other.digest

    def __ne__(self, other: object) -> bool:
        return not self == other  # Struct has an answer of its own, by identity

    def __hash__(self) -> int:
        return hash(self.digest)


def _canonical(content: object) -> bytes:
    """Write content unambiguously: a letter for the kind, the length, the bytes."""
    match content:
        case Term():
            body, letter = content.digest, b"t"
        case tuple():
            body, letter = b"".join(map(_canonical, content)), b"("
        case bool():  # before int: True is not 1 here
            body, letter = (b"1" if content else b"0"), b"b"
        case int():
            body, letter = str(content).encode(), b"i"
        case str():
            body, letter = content.encode("utf-8", "surrogatepass"), b"s"
        case _:
            assert content is None, content
            body, letter = b"", b"n"
    return b"%c%d:%b" % (letter[0], len(body), body)


def _check_name(name: str, what: str) -> None:
    if not name:
        raise ValueError(f"a {what} has an empty name")
    if len(name) > NAME_CHARS_MAX:
        raise ValueError(f"a name of a {what} has {len(name)} characters, over {NAME_CHARS_MAX}")
    if not name.isprintable():
        raise ValueError(f"the name {name!a} of a {what} cannot be printed")


def _check_distinct(names: list[str], what: str) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two {what}s are called {name!r}")
        seen.add(name)


# --- value types -------------------------------------------------------------


class Scalar(Term, frozen=True, tag="scalar"):
    """One of the built-in kinds of values; ``any`` holds every value."""

    SORT = "scalar"
    name: ScalarName

    def _content(self) -> tuple[object, ...]:
        return (self.name,)


class LiteralOf(Term, frozen=True, tag="literal"):
    """One of the listed values; an enumeration is the literal of its members' values."""

    SORT = "literal"
    values: tuple[LiteralValue, ...]
    title: str = ""

    def __post_init__(self) -> None:
        keyed = {(type(value).__name__, value): value for value in self.values}
        ordered = tuple(keyed[key] for key in sorted(keyed))
        msgspec.structs.force_setattr(self, "values", ordered)

    def _content(self) -> tuple[object, ...]:
        return self.values


class ListOf(Term, frozen=True, tag="list"):
    """A sequence of any length whose items are of one type."""

    SORT = "list"
    item: ValueType

    def _content(self) -> tuple[object, ...]:
        return (self.item,)


class SetOf(Term, frozen=True, tag="set"):
    """A set whose items are of one type."""

    SORT = "set"
    item: ValueType

    def _content(self) -> tuple[object, ...]:
        return (self.item,)


class DictOf(Term, frozen=True, tag="dict"):
    """A mapping whose keys are of one type and whose values are of one type."""

    SORT = "dict"
    key: ValueType
    value: ValueType

    def _content(self) -> tuple[object, ...]:
        return (self.key, self.value)


class TupleOf(Term, frozen=True, tag="tuple"):
    """A sequence of fixed length with a type for each place."""

    SORT = "tuple"
    items: tuple[ValueType, ...]

    def _content(self) -> tuple[object, ...]:
        return self.items


class UnionOf(Term, frozen=True, tag="union"):
    """A value of one of the members' types; with no members, no value at all.

    Members are flat, distinct and sorted, and all literals among them are one. A
    union of one is equal to that one; ``union_of`` and the encoder write it so.
    """

    SORT = "union"
    members: tuple[ValueType, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "members", _flatten(self.members))

    @cached_property
    def digest(self) -> bytes:
        """A union of one member is that member."""
        if len(self.members) == 1:
            return self.members[0].digest
        return super().digest

    def _content(self) -> tuple[object, ...]:
        return self.members


def union_of(members: tuple[ValueType, ...]) -> ValueType:
    """Return the union of types; of a single one, that type."""
    flat = _flatten(members)
    return flat[0] if len(flat) == 1 else UnionOf(flat)


def _flatten(members: tuple[ValueType, ...]) -> tuple[ValueType, ...]:
    """Return the members of a union: no unions among them, none twice, sorted by digest."""
    flat: dict[bytes, ValueType] = {}
    literals: list[LiteralOf] = []
    pending = list(reversed(members))
    while pending:
        member = pending.pop()
        if isinstance(member, UnionOf):
            pending.extend(reversed(member.members))
        elif isinstance(member, LiteralOf):
            literals.append(member)
        else:
            flat.setdefault(member.digest, member)
    if len(literals) > 1:
        merged = LiteralOf(tuple(value for one in literals for value in one.values))
        flat[merged.digest] = merged
    elif literals:
        flat[literals[0].digest] = literals[0]
    return tuple(flat[key] for key in sorted(flat))


class Field(Term, frozen=True, tag="field"):
    """A named part of a struct; one that is not required may be absent."""

    SORT = "field"
    name: str
    type: ValueType
    required: bool = True

    def __post_init__(self) -> None:
        _check_name(self.name, "field")

    def _content(self) -> tuple[object, ...]:
        return (self.name, self.type, self.required)


class StructOf(Term, frozen=True, tag="struct"):
    """Named fields, in any order.

    Values of an open struct may have more fields than it names; those of a
    closed one have no others.
    """

    SORT = "struct"
    fields: tuple[Field, ...]
    closed: bool = False
    title: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        _check_distinct([field.name for field in self.fields], "field")
        ordered = tuple(sorted(self.fields, key=lambda field: field.name))
        msgspec.structs.force_setattr(self, "fields", ordered)

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Return the fields under their names."""
        return {field.name: field for field in self.fields}

    def _content(self) -> tuple[object, ...]:
        return (self.closed, *self.fields)


class Recur(Term, frozen=True, tag="recur"):
    """The type that the binder ``index`` binders further out stands for; 0 is the nearest."""

    SORT = "recur"
    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index <= 1000:
            raise ValueError(f"a recursive use reaches {self.index} binders out")

    def _content(self) -> tuple[object, ...]:
        return (self.index,)


class Recursive(Term, frozen=True, tag="recursive"):
    """The type that satisfies ``X = body`` where ``body`` uses X as ``Recur(0)``."""

    SORT = "recursive"
    body: ValueType
    title: str = ""

    def __post_init__(self) -> None:
        pending: list[tuple[ValueType, int]] = [(self.body, 0)]
        while pending:
            term, binders = pending.pop()
            if isinstance(term, Recur) and term.index == binders:
                raise ValueError("a recursive type is only itself: put a struct or list between")
            if isinstance(term, UnionOf):
                pending.extend((member, binders) for member in term.members)
            elif isinstance(term, Recursive):
                pending.append((term.body, binders + 1))

    def _content(self) -> tuple[object, ...]:
        return (self.body,)


class Parameter(Term, frozen=True, tag="parameter"):
    """A type that is still to be given, by name: a value, an endpoint or an object type."""

    SORT = "parameter"
    name: str

    def __post_init__(self) -> None:
        _check_name(self.name, "parameter")

    def _content(self) -> tuple[object, ...]:
        return (self.name,)


class ReferenceOf(Term, frozen=True, tag="reference"):
    """A reference to a live object of some type: the dissertation's ``ref<Theta>``."""

    SORT = "reference"
    target: ObjectType | Parameter

    def _content(self) -> tuple[object, ...]:
        return (self.target,)


# --- events, endpoints, objects ----------------------------------------------


class Constraint(Term, frozen=True, tag="constraint"):
    """A formula in a formalism, as it was written: the dissertation's ``(a, phi)``."""

    SORT = "constraint"
    formalism: str
    text: str

    def __post_init__(self) -> None:
        _check_name(self.formalism, "formalism")
        if len(self.text) > CONSTRAINT_CHARS_MAX:
            raise ValueError(f"a constraint has {len(self.text)} characters")
        msgspec.structs.force_setattr(self, "text", self.text.strip())

    def _content(self) -> tuple[object, ...]:
        return (self.formalism, self.text)


class EventType(Term, frozen=True, tag="event"):
    """A named event and the type of what it carries.

    No argument is ``none``; one argument is its own type; several are a struct
    of them by name. ``arguments`` keeps the names in the order of a call, for
    those who make calls; the name of a single argument is only a hint.
    """

    SORT = "event"
    name: str
    value: ValueType
    arguments: tuple[str, ...] = ()
    doc: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name, "event")

    def _content(self) -> tuple[object, ...]:
        return (self.name, self.value)


class EndpointType(Term, frozen=True, tag="endpoint"):
    """``tau = (I, O, C, C')``: events in and out, constraints provided and required."""

    SORT = "endpoint"
    inputs: tuple[EventType, ...] = ()
    outputs: tuple[EventType, ...] = ()
    provides: tuple[Constraint, ...] = ()
    requires: tuple[Constraint, ...] = ()
    title: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        for events, what in ((self.inputs, "incoming event"), (self.outputs, "outgoing event")):
            _check_distinct([event.name for event in events], what)
        _sort_events(self, "inputs", self.inputs)
        _sort_events(self, "outputs", self.outputs)
        _sort_constraints(self, self.provides, self.requires)

    @cached_property
    def inputs_by_name(self) -> dict[str, EventType]:
        """Return the incoming events under their names."""
        return {event.name: event for event in self.inputs}

    @cached_property
    def outputs_by_name(self) -> dict[str, EventType]:
        """Return the outgoing events under their names."""
        return {event.name: event for event in self.outputs}

    def _content(self) -> tuple[object, ...]:
        return (self.inputs, self.outputs, self.provides, self.requires)


class Endpoint(Term, frozen=True, tag="named_endpoint"):
    """An endpoint of an object: a name and its type."""

    SORT = "named endpoint"
    name: str
    type: EndpointType | Parameter

    def __post_init__(self) -> None:
        _check_name(self.name, "endpoint")

    def _content(self) -> tuple[object, ...]:
        return (self.name, self.type)


class TypeParameter(Term, frozen=True, tag="type_parameter"):
    """What must be given before a parameterized type is a type.

    ``bound`` limits it: a type argument must be a subtype of the bound, a value
    must be of it. Without a bound a type argument may be any of its kind.
    """

    SORT = "type parameter"
    name: str
    of: ParameterKind = "value_type"
    bound: AnyType | None = None

    def __post_init__(self) -> None:
        _check_name(self.name, "parameter")

    def _content(self) -> tuple[object, ...]:
        return (self.name, self.of, self.bound)


class ObjectType(Term, frozen=True, tag="object"):
    """``Theta = (E, C, C')``: named endpoints, constraints provided and required.

    With ``parameters`` it is a template, which has no subtypes and no proxies
    until its parameters are given (2.1.4 E). Their order is that of arguments.
    """

    SORT = "object"
    endpoints: tuple[Endpoint, ...] = ()
    provides: tuple[Constraint, ...] = ()
    requires: tuple[Constraint, ...] = ()
    parameters: tuple[TypeParameter, ...] = ()
    title: str = ""
    doc: str = ""

    def __post_init__(self) -> None:
        _check_distinct([endpoint.name for endpoint in self.endpoints], "endpoint")
        _check_distinct([parameter.name for parameter in self.parameters], "parameter")
        ordered = tuple(sorted(self.endpoints, key=lambda endpoint: endpoint.name))
        msgspec.structs.force_setattr(self, "endpoints", ordered)
        _sort_constraints(self, self.provides, self.requires)

    @cached_property
    def by_name(self) -> dict[str, EndpointType | Parameter]:
        """Return the endpoints' types under their names."""
        return {endpoint.name: endpoint.type for endpoint in self.endpoints}

    def _content(self) -> tuple[object, ...]:
        return (self.endpoints, self.provides, self.requires, self.parameters)


def _sort_events(owner: EndpointType, attribute: str, events: tuple[EventType, ...]) -> None:
    ordered = tuple(sorted(events, key=lambda event: event.name))
    msgspec.structs.force_setattr(owner, attribute, ordered)


def _sort_constraints(
    owner: EndpointType | ObjectType,
    provides: tuple[Constraint, ...],
    requires: tuple[Constraint, ...],
) -> None:
    for attribute, constraints in (("provides", provides), ("requires", requires)):
        distinct = {(one.formalism, one.text): one for one in constraints}
        ordered = tuple(distinct[key] for key in sorted(distinct))
        msgspec.structs.force_setattr(owner, attribute, ordered)


ValueType: TypeAlias = (
    Scalar
    | LiteralOf
    | ListOf
    | SetOf
    | DictOf
    | TupleOf
    | UnionOf
    | StructOf
    | Recur
    | Recursive
    | Parameter
    | ReferenceOf
)
AnyType: TypeAlias = ValueType | EndpointType | ObjectType

NONE = Scalar("none")
BOOL = Scalar("bool")
INT = Scalar("int")
FLOAT = Scalar("float")
STR = Scalar("str")
BYTES = Scalar("bytes")
ANY = Scalar("any")
NEVER = UnionOf(())
