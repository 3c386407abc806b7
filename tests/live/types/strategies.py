"""Types, supertypes of them and values of them, for property tests."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from quicksilver.live.types.build import endpoint, event, literal, recursive, struct, union
from quicksilver.live.types.model import (
    ANY,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    Constraint,
    DictOf,
    Endpoint,
    EndpointType,
    EventType,
    Field,
    ListOf,
    LiteralOf,
    ObjectType,
    Parameter,
    Recursive,
    ReferenceOf,
    Scalar,
    SetOf,
    StructOf,
    TupleOf,
    TypeParameter,
    UnionOf,
    ValueType,
)
from quicksilver.live.types.walk import unfold

names = st.sampled_from(["a", "b", "c", "name with spaces", "ñ"])
scalars = st.sampled_from([NONE, BOOL, INT, FLOAT, STR, BYTES, ANY])
literals = st.lists(st.sampled_from([True, False, 0, 1, 7, "", "x", "y"]), max_size=3).map(
    lambda values: LiteralOf(tuple(values))
)
trees = st.sampled_from(
    [
        recursive("Tree", lambda t: struct({"v": INT, "kids": ListOf(t)})),
        recursive("Baum", lambda t: struct({"v": FLOAT, "kids": ListOf(t)})),
        recursive("Chain", lambda t: struct({"v": INT, "next": union(t, NONE)})),
        recursive("Deep", lambda t: union(STR, ListOf(t))),
        struct(
            {
                "v": INT,
                "kids": ListOf(recursive("T", lambda t: struct({"v": BOOL, "kids": ListOf(t)}))),
            }
        ),
    ]
)


def _fields(inner: st.SearchStrategy[ValueType]) -> st.SearchStrategy[tuple[Field, ...]]:
    made = st.dictionaries(names, st.tuples(inner, st.booleans()), max_size=3)
    return made.map(lambda d: tuple(Field(n, t, r) for n, (t, r) in d.items()))


def _compound(inner: st.SearchStrategy[ValueType]) -> st.SearchStrategy[ValueType]:
    return st.one_of(
        st.builds(ListOf, inner),
        st.builds(SetOf, scalars),
        st.builds(DictOf, scalars, inner),
        st.lists(inner, max_size=3).map(lambda items: TupleOf(tuple(items))),
        st.lists(inner, max_size=3).map(lambda items: UnionOf(tuple(items))),
        st.builds(StructOf, _fields(inner), st.booleans()),
    )


value_types: st.SearchStrategy[ValueType] = st.recursive(
    st.one_of(scalars, literals, trees), _compound, max_leaves=8
)

constraints = st.sampled_from(
    [
        Constraint("delivery", "fifo"),
        Constraint("delivery", "total and at most once"),
        Constraint("delivery", "virtually synchronous"),
        Constraint("temporal", "previous true -> once connect"),
        Constraint("security", "authenticated from alice or bob"),
        Constraint("cardinality", "at most 3 instances"),
    ]
)
some_constraints = st.lists(constraints, max_size=3).map(tuple)
events = st.dictionaries(names, value_types, max_size=3).map(
    lambda d: tuple(
        EventType(name, value, ("argument",), "said for readers") for name, value in d.items()
    )
)
endpoint_types = st.builds(EndpointType, events, events, some_constraints, some_constraints)
parameters = st.dictionaries(names, st.none() | value_types, max_size=2).map(
    lambda d: tuple(TypeParameter(name, "value_type", bound) for name, bound in d.items())
)
object_types = st.builds(
    ObjectType,
    st.dictionaries(names, endpoint_types | st.just(Parameter("E")), max_size=3).map(
        lambda d: tuple(Endpoint(name, type_) for name, type_ in d.items())
    ),
    st.just(()),
    st.just(()),
    parameters,
)
any_types = st.one_of(
    value_types, st.builds(ReferenceOf, object_types), endpoint_types, object_types
)


@st.composite
def supertypes_of(draw: st.DrawFn, type_: ValueType) -> ValueType:
    """Draw a type that every value of a type is also of, by one rule in one place."""
    choice = draw(st.integers(0, 3))
    if choice == 0:
        return union(type_, draw(scalars))
    if choice == 1 and draw(st.booleans()):
        return ANY
    return draw(_widened_inside(type_))


def _widened_inside(type_: ValueType) -> st.SearchStrategy[ValueType]:
    match type_:
        case Scalar("bool"):
            return st.just(INT)
        case Scalar("int"):
            return st.just(FLOAT)
        case LiteralOf():
            return st.just(literal(*type_.values, "more"))
        case ListOf():
            return supertypes_of(type_.item).map(ListOf)
        case DictOf():
            return supertypes_of(type_.value).map(lambda value: DictOf(type_.key, value))
        case TupleOf():
            if not type_.items:
                return st.just(ListOf(INT))
            rest = type_.items[1:]
            return supertypes_of(type_.items[0]).map(lambda one: TupleOf((one, *rest)))
        case StructOf():
            return _widened_struct(type_)
        case Recursive():
            return st.just(unfold(type_))
        case _:
            return st.just(type_)


def _widened_struct(type_: StructOf) -> st.SearchStrategy[ValueType]:
    if not type_.fields:
        return st.just(StructOf(()))
    first, *rest = type_.fields
    return st.one_of(
        st.just(StructOf(tuple(rest))),
        st.just(StructOf((Field(first.name, first.type, False), *rest), type_.closed)),
        supertypes_of(first.type).map(
            lambda wider: StructOf((Field(first.name, wider, first.required), *rest))
        ),
    )


@st.composite
def values_of(draw: st.DrawFn, type_: ValueType, depth: int = 3) -> object:
    """Draw a plain value of a type; reject types that have none, or only deep ones."""
    match type_:
        case Scalar(name):
            plain = {
                "none": st.none(),
                "bool": st.booleans(),
                "int": st.integers(-3, 3),
                "float": st.floats(-3, 3),
                "str": st.text(max_size=2),
                "bytes": st.binary(max_size=2),
                "any": st.one_of(st.none(), st.integers(), st.text(max_size=1), st.just({"a": 1})),
            }
            return draw(plain[name])
        case LiteralOf():
            return draw(st.sampled_from(type_.values) if type_.values else st.nothing())
        case ListOf():
            return draw(st.lists(values_of(type_.item, depth - 1), max_size=2 if depth > 0 else 0))
        case SetOf():
            return draw(st.lists(values_of(type_.item, depth - 1), max_size=2))
        case DictOf():
            if depth <= 0 or type_.key == ANY:
                return {}
            return draw(
                st.dictionaries(
                    values_of(type_.key, depth - 1), values_of(type_.value, depth - 1), max_size=2
                )
            )
        case TupleOf():
            return [draw(values_of(one, depth - 1)) for one in type_.items]
        case UnionOf():
            if not type_.members:
                return draw(st.nothing())
            return draw(values_of(draw(st.sampled_from(type_.members)), depth))
        case StructOf():
            made: dict[str, object] = {}
            for field in type_.fields:
                if field.required or draw(st.booleans()):
                    made[field.name] = draw(values_of(field.type, depth - 1))
            extra = draw(names)
            if not type_.closed and extra not in type_.by_name:
                made[extra] = draw(st.integers())
            return made
        case Recursive():
            return draw(values_of(unfold(type_), depth) if depth > -3 else st.nothing())
        case _:
            return draw(st.nothing())


def retitle(type_: ValueType) -> ValueType:
    """Return the same type with everything that is only said for readers changed."""
    data = msgspec.to_builtins(type_)
    return msgspec.convert(_retitle(data), ValueType)


def _retitle(data: object) -> object:
    if isinstance(data, dict):
        changed = {key: _retitle(one) for key, one in data.items()}
        if data.get("kind") in {"struct", "recursive", "literal"}:
            changed["title"] = "Another"
        return changed
    return [_retitle(one) for one in data] if isinstance(data, list | tuple) else data


def channel_pool() -> list[EndpointType]:
    """Return endpoint types that are near each other: every pair is worth comparing."""
    pool: list[EndpointType] = []
    values = [INT, FLOAT, struct({"text": STR}), struct({"text": STR, "at": INT})]
    provided = [
        (),
        (("delivery", "fifo"),),
        (("delivery", "total"), ("temporal", "receive -> once send")),
    ]
    required = [(), (("temporal", "send -> once connect"),), (("temporal", "once connect"),)]
    for value in values:
        for given in provided:
            for asked in required:
                outputs = [event("receive", value)]
                pool.append(
                    endpoint([event("send", value)], outputs, provides=given, requires=asked)
                )
    for value in values[:2]:
        pool.append(endpoint([event("send", value), event("flush")], [event("receive", value)]))
        pool.append(
            endpoint(
                [event("send", value), event("flush")], [event("receive", value), event("closed")]
            )
        )
        pool.append(endpoint([], [event("receive", value)]))
    return pool
