"""The relations between types obey the laws that the dissertation derives (2.1.2)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from quicksilver.live.types.build import (
    endpoint,
    event,
    flip,
    literal,
    object_type,
    optional,
    recursive,
    struct,
    union,
)
from quicksilver.live.types.model import (
    ANY,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NEVER,
    NONE,
    STR,
    DictOf,
    EndpointType,
    ListOf,
    ObjectType,
    Parameter,
    ReferenceOf,
    SetOf,
    StructOf,
    TupleOf,
    TypeParameter,
    ValueType,
)
from quicksilver.live.types.subtyping import Checker, is_match, is_subtype
from quicksilver.live.types.values import find_misfit
from quicksilver.live.types.walk import unfold
from tests.live.types.strategies import (
    any_types,
    channel_pool,
    endpoint_types,
    supertypes_of,
    value_types,
    values_of,
)

TREE = recursive("Tree", lambda t: struct({"v": INT, "kids": ListOf(t)}))
WIDE_TREE = recursive("Wide", lambda t: struct({"v": FLOAT, "kids": ListOf(t)}))
EMPTY = struct({})

VALUE_POOL: list[ValueType] = [
    NONE,
    BOOL,
    INT,
    FLOAT,
    STR,
    BYTES,
    ANY,
    NEVER,
    literal(True),
    literal(1),
    literal("x"),
    literal(1, "x"),
    literal("x", "y"),
    union(INT, STR),
    union(INT, STR, NONE),
    optional(literal("x")),
    union(ANY, INT),
    ListOf(INT),
    ListOf(FLOAT),
    ListOf(ANY),
    ListOf(NEVER),
    SetOf(INT),
    SetOf(union(INT, STR)),
    TupleOf(()),
    TupleOf((INT,)),
    TupleOf((INT, STR)),
    TupleOf((BOOL, literal("x"))),
    ListOf(union(INT, STR)),
    DictOf(STR, INT),
    DictOf(STR, ANY),
    DictOf(literal("x"), INT),
    EMPTY,
    struct({}, closed=True),
    struct({"a": INT}),
    struct({"a?": INT}),
    struct({"a?": ANY}),
    struct({"a": INT}, closed=True),
    struct({"a?": INT}, closed=True),
    struct({"a": FLOAT}),
    struct({"a": INT, "b": STR}),
    struct({"a": INT, "b?": STR}),
    struct({"a?": STR}),
    struct({"a": INT, "b?": STR}, closed=True),
    union(struct({"a": INT}), NONE),
    TREE,
    WIDE_TREE,
    ListOf(TREE),
    struct({"v": BOOL, "kids": ListOf(TREE)}),
    recursive("C", lambda t: union(NONE, struct({"next": t}))),
    recursive("D", lambda t: struct({"next": union(NONE, t)})),
    ReferenceOf(object_type({"e": endpoint([event("in", INT)], [event("out", INT)])})),
    ReferenceOf(object_type({"e": endpoint([event("in", FLOAT)], [event("out", BOOL)])})),
]


class TestValues:
    @pytest.mark.parametrize(
        ("sub", "sup"),
        [
            (BOOL, INT),
            (INT, FLOAT),
            (BOOL, FLOAT),
            (NEVER, INT),
            (literal(3), FLOAT),
            (struct({"a": INT, "b": STR}), struct({"a": FLOAT})),
            (struct({"a": INT}, closed=True), struct({"a": INT, "b?": STR})),
            (TupleOf((INT, BOOL)), ListOf(INT)),
            (TREE, WIDE_TREE),
            (TREE, struct({"v": INT})),
            (literal(1, "x"), union(INT, STR)),
            (union(literal("a"), literal("b")), literal("a", "b", "c")),
            (EMPTY, struct({"a?": ANY})),
        ],
    )
    def test_fits(self, sub: ValueType, sup: ValueType) -> None:
        assert is_subtype(sub, sup)

    @pytest.mark.parametrize(
        ("sub", "sup"),
        [
            (INT, BOOL), (FLOAT, INT), (ANY, INT), (literal(True), literal(1)), (STR, BYTES),
            (struct({"a": INT}), struct({"a": INT, "b": STR})),
            (struct({"a": INT}), struct({"a": INT}, closed=True)),
            (struct({"a?": INT}), struct({"a": INT})),
            # An open struct may have a field that it does not name, of any type.
            (EMPTY, struct({"a?": INT})),
            (WIDE_TREE, TREE), (ListOf(INT), TupleOf((INT,))), (SetOf(INT), ListOf(INT)),
            (Parameter("M"), INT), (INT, Parameter("M")),
        ],
    )  # fmt: skip
    def test_does_not_fit(self, sub: ValueType, sup: ValueType) -> None:
        assert not is_subtype(sub, sup)

    def test_transitive_on_every_triple_of_the_pool(self) -> None:
        fits = {pair: is_subtype(*pair) for pair in product(VALUE_POOL, VALUE_POOL)}
        wider = {one: [other for other in VALUE_POOL if fits[one, other]] for one in VALUE_POOL}
        for one in VALUE_POOL:
            assert fits[one, one]
            for other in wider[one]:
                for third in wider[other]:
                    assert fits[one, third], (one, other, third)

    @given(any_types)
    def test_reflexive(self, type_: ValueType) -> None:
        assert is_subtype(type_, type_)

    @given(value_types, st.data())
    def test_transitive_along_chains_of_wider_types(
        self, type_: ValueType, data: st.DataObject
    ) -> None:
        middle = data.draw(supertypes_of(type_))
        top = data.draw(supertypes_of(middle))
        assert is_subtype(type_, middle)
        assert is_subtype(middle, top)
        assert is_subtype(type_, top)

    @settings(max_examples=100)
    @given(value_types, value_types, st.data())
    def test_a_value_of_a_subtype_is_a_value_of_the_supertype(
        self, sub: ValueType, other: ValueType, data: st.DataObject
    ) -> None:
        """Membership of single values is the slow, obvious model of subtyping."""
        sup = data.draw(st.just(other) | supertypes_of(sub))
        assume(is_subtype(sub, sup))
        value = data.draw(values_of(sub))
        assert find_misfit(value, sub) is None
        assert find_misfit(value, sup) is None

    @given(value_types)
    def test_unfolding_changes_nothing(self, body: ValueType) -> None:
        type_ = recursive("T", lambda t: struct({"body": body, "more": ListOf(t)}))
        unfolded = unfold(type_)  # type: ignore[arg-type]
        assert is_subtype(type_, unfolded)
        assert is_subtype(unfolded, type_)

    def test_recursion_through_references_to_objects_ends(self) -> None:
        def folder(value: ValueType) -> ValueType:
            return recursive(
                "F",
                lambda f: ReferenceOf(
                    object_type({"f": endpoint([], [event("added", item=f, name=value)])})
                ),
            )

        assert is_subtype(folder(INT), folder(FLOAT))
        assert not is_subtype(folder(FLOAT), folder(INT))

    def test_wide_recursive_unions_are_compared_in_bounded_work(self) -> None:
        """Many alternatives at every level must not multiply."""

        def wide(label: str) -> ValueType:
            return recursive(
                label,
                lambda t: union(
                    *(struct({f"f{n}": union(t, NONE), "x": INT}) for n in range(12)), STR
                ),
            )

        assert is_subtype(wide("A"), union(wide("B"), INT))
        assert not is_subtype(union(wide("A"), INT), wide("B"))

    def test_binders_inside_binders_do_not_multiply(self) -> None:
        """Unfolding shares what refers to nothing outside instead of copying it."""

        def nested(depth: int, leaf: ValueType, outer: tuple[ValueType, ...] = ()) -> ValueType:
            if depth == 0:
                uses = {f"use{n}": ListOf(one) for n, one in enumerate(outer)}
                return struct({**uses, "leaf": leaf})
            return recursive(
                f"T{depth}",
                lambda t: struct({"in": nested(depth - 1, leaf, (*outer, t)), "out": ListOf(t)}),
            )

        assert is_subtype(nested(14, INT), nested(14, FLOAT))
        assert not is_subtype(nested(14, FLOAT), nested(14, INT))


class TestEndpoints:
    POOL = channel_pool()

    def test_subtyping_is_reflexive_and_transitive_on_the_pool(self) -> None:
        fits = {pair: is_subtype(*pair) for pair in product(self.POOL, self.POOL)}
        for one in self.POOL:
            assert fits[one, one]
            for other in self.POOL:
                if fits[one, other]:
                    for third in self.POOL:
                        assert not fits[other, third] or fits[one, third]

    def test_a_subtype_matches_all_that_its_supertype_matches(self) -> None:
        """(2.4) is derived from this: t1 < t2 iff t1 matches every t0 that t2 matches."""
        partners = [flip(one) for one in self.POOL]
        matches = {(a, b): is_match(a, b) for a, b in product(self.POOL, partners)}
        assert sum(matches.values()) > len(self.POOL)
        for one, other in product(self.POOL, self.POOL):
            never_less = all(matches[one, p] or not matches[other, p] for p in partners)
            assert is_subtype(one, other) == never_less

    def test_matching_is_symmetric(self) -> None:
        for one, other in product(self.POOL, map(flip, self.POOL)):
            assert is_match(one, other) == is_match(other, one)

    @settings(max_examples=40)
    @given(endpoint_types)
    def test_an_endpoint_matches_its_mirror(self, type_: EndpointType) -> None:
        assert is_match(type_, flip(type_))

    @settings(max_examples=40)
    @given(endpoint_types, endpoint_types)
    def test_a_subtype_is_what_matches_the_mirror(
        self, one: EndpointType, other: EndpointType
    ) -> None:
        assert is_subtype(one, other) == is_match(one, flip(other))

    def test_fewer_outputs_and_more_inputs_are_a_subtype(self) -> None:
        narrow = endpoint([event("a", INT)], [event("x", INT), event("y")])
        better = endpoint([event("a", FLOAT), event("b")], [event("x", BOOL)])
        assert is_subtype(better, narrow)
        assert not is_subtype(narrow, better)

    def test_constraints_may_be_implied_by_several_together(self) -> None:
        """Two formulas in one formalism mean their conjunction: C is a function (2.1.2)."""
        both = endpoint(provides=[("delivery", "at most once"), ("delivery", "at least once")])
        assert is_subtype(both, endpoint(provides=[("delivery", "exactly once")]))


class TestObjects:
    CHANNEL = endpoint([event("send", STR)], [event("receive", STR)])

    def test_an_endpoint_that_is_still_to_be_given_is_a_subtype_of_itself(self) -> None:
        """Also where the two parameters are not one value of Python."""
        sub = object_type({"e": Parameter("E"), "more": endpoint()})
        assert is_subtype(sub, object_type({"e": Parameter("E")}))
        assert not is_subtype(sub, object_type({"e": Parameter("F")}))

    def test_more_endpoints_are_a_subtype(self) -> None:
        small = object_type({"channel": self.CHANNEL})
        large = object_type({"channel": self.CHANNEL, "members": endpoint()})
        assert is_subtype(large, small)
        assert not is_subtype(small, large)

    def test_more_guaranteed_and_less_expected_is_a_subtype(self) -> None:
        def channel(most: int, least: int) -> ObjectType:
            return object_type(
                {"channel": self.CHANNEL},
                provides=[("cardinality", f"at most {most} instances of channel")],
                requires=[("cardinality", f"at least {least} instances of channel")],
            )

        assert is_subtype(channel(1, 1), channel(2, 2))
        assert not is_subtype(channel(2, 1), channel(1, 1))
        assert not is_subtype(channel(1, 2), channel(1, 1))

    def test_a_template_has_no_subtypes(self) -> None:
        """2.1.4 E: "Template types do not support subtyping"."""
        template = object_type(
            {"e": Parameter("E")}, parameters=[TypeParameter("E", "endpoint_type")]
        )
        assert is_subtype(template, template)
        assert not is_subtype(template, object_type({}))
        assert not is_subtype(object_type({"e": endpoint()}), template)


class TestChecker:
    def test_answers_are_dropped_when_a_fact_is_learnt(self) -> None:
        from quicksilver.live.formalisms.delivery import Delivery
        from quicksilver.live.formalisms.standard import make_formalisms

        formalisms = make_formalisms(use_entry_points=False)
        delivery = formalisms.find("delivery")
        assert isinstance(delivery, Delivery)
        delivery.add_property("gossiped")
        checker = Checker(formalisms)
        given_ = endpoint(provides=[("delivery", "gossiped")])
        asked = endpoint(provides=[("delivery", "fifo")])
        assert checker.check_endpoint_subtype(given_, asked) is not None
        delivery.add_fact(["gossiped"], "fifo")
        assert checker.check_endpoint_subtype(given_, asked) is None

    def test_kinds_of_types_are_not_mixed(self) -> None:
        diagnosis = Checker().check_subtype(INT, endpoint())
        assert diagnosis is not None
        assert diagnosis.line == "a value type is not an endpoint type"

    def test_unfolded_struct_is_a_struct(self) -> None:
        assert isinstance(unfold(TREE), StructOf)  # type: ignore[arg-type]
