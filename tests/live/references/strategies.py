"""References, types and values drawn at random, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from quicksilver.live.references.model import (
    Argument,
    Component,
    Composite,
    Connection,
    Endpoint,
    Export,
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
    make_library,
    make_registry,
)
from quicksilver.live.references.typenames import TypeLiteral, TypeName
from quicksilver.live.references.values import (
    Binary,
    Entry,
    Flag,
    Integer,
    Mapped,
    Nothing,
    Real,
    Sequence,
    Text,
    Value,
)
from quicksilver.live.types import model as types

# What XML can carry, the awkward characters often.
texts = st.text(
    st.one_of(
        st.sampled_from("&<>\"'\t\n\r ]äλ漢\U0001f600\x85\u2028"),
        st.characters(
            codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"
        ),
    ),
    max_size=12,
)
names = st.one_of(
    st.sampled_from(["a", "b", "uplink", "Channel", 'x"<&>', "reliable channel"]),
    st.text(st.characters(categories=("L", "N"), max_codepoint=0x2FFF), min_size=1, max_size=8),
)
plain = st.sampled_from(["Channel", "Folder", "T", "acme.Thing", "Identifier"])
type_names = st.recursive(
    st.builds(TypeName, plain),
    lambda inner: st.builds(TypeName, plain, st.lists(inner, max_size=2).map(tuple)),
    max_leaves=4,
)

_scalars = st.sampled_from(
    [types.NONE, types.BOOL, types.INT, types.FLOAT, types.STR, types.BYTES, types.ANY]
)
_literal_values = st.one_of(st.booleans(), st.integers(-(2**70), 2**70), texts)
value_types = st.recursive(
    st.one_of(
        _scalars,
        st.builds(types.Parameter, st.sampled_from(["T", "odd name", "list"])),
        st.builds(types.LiteralOf, st.lists(_literal_values, max_size=3).map(tuple)),
        st.just(types.ReferenceOf(types.Parameter("T"))),
        st.just(types.ReferenceOf(types.ObjectType())),
    ),
    lambda inner: st.one_of(
        st.builds(types.ListOf, inner),
        st.builds(types.SetOf, inner),
        st.builds(types.DictOf, inner, inner),
        st.builds(types.TupleOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(types.UnionOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(
            types.StructOf,
            st.lists(
                st.builds(types.Field, names, inner, st.booleans()),
                max_size=3,
                unique_by=lambda field: field.name,
            ).map(tuple),
            st.booleans(),
        ),
        inner.map(
            lambda body: types.Recursive(
                types.StructOf((types.Field("next", types.Recur(0)), types.Field("here", body)))
            )
        ),
    ),
    max_leaves=6,
)
_constraints = st.lists(
    st.builds(types.Constraint, st.sampled_from(["delivery", "0x2"]), texts), max_size=2
).map(tuple)
_events = st.lists(
    st.builds(types.EventType, names, value_types), max_size=2, unique_by=lambda event: event.name
).map(tuple)
endpoint_types = st.builds(types.EndpointType, _events, _events, _constraints, _constraints)
object_types = st.builds(
    types.ObjectType,
    st.lists(
        st.builds(
            types.Endpoint,
            names,
            st.one_of(endpoint_types, st.builds(types.Parameter, st.just("E"))),
        ),
        max_size=2,
        unique_by=lambda endpoint: endpoint.name,
    ).map(tuple),
    _constraints,
    _constraints,
)
terms = st.one_of(
    type_names,
    st.builds(TypeLiteral, st.one_of(object_types, endpoint_types, value_types)),
)

values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(
        st.builds(Text, texts),
        st.builds(Integer, st.integers(-(2**200), 2**200)),
        st.builds(Real, st.floats(allow_nan=False, allow_infinity=False)),
        st.builds(Flag, st.booleans()),
        st.builds(Binary, st.binary(max_size=20)),
        st.just(Nothing()),
    ),
    lambda inner: st.one_of(
        st.builds(Sequence, st.lists(inner, max_size=3).map(tuple)),
        st.lists(st.builds(Entry, texts, inner), max_size=3, unique_by=lambda entry: entry.key).map(
            lambda entries: Mapped(tuple(entries))
        ),
    ),
    max_leaves=5,
)

_common = {
    "title": texts,
    "doc": texts,
    "declared": st.one_of(st.none(), terms),
}
_ends = st.builds(Endpoint, names, names)


def _contents(inner: st.SearchStrategy[Reference]) -> st.SearchStrategy[object]:
    return st.one_of(
        st.builds(TypeArgument, terms),
        st.builds(ValueArgument, values),
        st.builds(ReferenceArgument, inner),
    )


def _parameters(inner: st.SearchStrategy[Reference]) -> st.SearchStrategy[object]:
    one = st.builds(
        Parameter,
        names,
        st.sampled_from(["type", "value", "reference"]),
        st.one_of(st.none(), terms),
        st.one_of(st.none(), _contents(inner)),
        texts,
    )
    return st.lists(one, max_size=2).map(tuple)


references: st.SearchStrategy[Reference] = st.recursive(
    st.one_of(
        st.builds(
            Primitive, identifier=st.sampled_from(["0x1", "0X0002", "0xABC", "acme.x-y"]), **_common
        ),
        st.just(make_registry()),
        st.builds(make_library, texts, st.one_of(st.none(), texts)),
        st.builds(Use, parameter=names, **_common),
    ),
    lambda inner: st.one_of(
        st.builds(
            Composite,
            components=st.lists(st.builds(Component, names, inner), max_size=3).map(tuple),
            connections=st.lists(st.builds(Connection, _ends, _ends), max_size=3).map(tuple),
            exports=st.lists(st.builds(Export, names, _ends), max_size=2).map(tuple),
            **_common,
        ),
        st.builds(
            External,
            name=texts.filter(bool),
            source=inner,
            parameters=_parameters(inner),
            **_common,
        ),
        st.builds(
            Parameterized,
            template=inner,
            arguments=st.lists(st.builds(Argument, names, _contents(inner)), max_size=3).map(tuple),
            **_common,
        ),
        st.builds(Template, parameters=_parameters(inner), body=inner, **_common),
    ),
    max_leaves=5,
)
