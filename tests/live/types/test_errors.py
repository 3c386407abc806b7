"""A relation that does not hold is explained by the exact place where it does not."""

from __future__ import annotations

import pytest

from quicksilver.live.types.build import (
    endpoint,
    event,
    literal,
    object_type,
    optional,
    recursive,
    struct,
    union,
)
from quicksilver.live.types.errors import Diagnosis, MismatchError, Step
from quicksilver.live.types.model import (
    BYTES,
    FLOAT,
    INT,
    STR,
    AnyType,
    DictOf,
    EndpointType,
    ListOf,
    ReferenceOf,
    TupleOf,
    ValueType,
)
from quicksilver.live.types.subtyping import (
    Checker,
    require_match,
    require_subtype,
    standard_checker,
)


def why_not(sub: AnyType, sup: AnyType) -> Diagnosis:
    found = standard_checker().check_subtype(sub, sup)
    assert found is not None
    return found


class TestValues:
    @pytest.mark.parametrize(
        ("sub", "sup", "line"),
        [
            (FLOAT, INT, "float is not a subtype of int"),
            (ListOf(STR), ListOf(BYTES), "item: str is not a subtype of bytes"),
            (DictOf(STR, FLOAT), DictOf(STR, INT), "value: float is not a subtype of int"),
            (TupleOf((INT, STR)), TupleOf((INT, INT)), "item 1: str is not a subtype of int"),
            (struct({"a": INT}), struct({"b": INT}), "field b: is missing"),
            (struct({"a?": INT}), struct({"a": INT}), "field a: is required but may be absent"),
            (
                struct({"a": struct({"b": ListOf(STR)})}),
                struct({"a": struct({"b": ListOf(INT)})}),
                "field a > field b > item: str is not a subtype of int",
            ),
            (optional(STR), STR, "alternative none: none is not str"),
            (INT, union(STR, BYTES), "int is none of bytes | str"),
            (literal("x", "z"), literal("x", "y"), "'z' is not a subtype of 'x'|'y'"),
            (
                struct({"a": INT, "b": INT}, closed=True),
                struct({"a": INT}, closed=True),
                "field b: is not expected in a closed struct",
            ),
        ],
    )
    def test_the_line_names_the_place(self, sub: ValueType, sup: ValueType, line: str) -> None:
        found = why_not(sub, sup).line
        assert found.replace("str | bytes", "bytes | str") == line

    def test_a_place_deep_in_a_recursive_type(self) -> None:
        def tree(leaf: ValueType) -> ValueType:
            return recursive("T", lambda t: struct({"kids": ListOf(t), "leaf": leaf}))

        assert why_not(tree(STR), tree(INT)).line == "field leaf: str is not a subtype of int"

    def test_in_a_referenced_object(self) -> None:
        def reference(value: ValueType) -> ValueType:
            return ReferenceOf(object_type({"out": endpoint([], [event("tick", value)])}))

        assert why_not(reference(STR), reference(INT)).line == (
            "referenced object > endpoint out > outgoing event tick: str is not a subtype of int"
        )


class TestEndpoints:
    CHANNEL = endpoint(
        [event("send", message=struct({"text": STR, "at": INT}))],
        [event("receive", message=STR)],
        provides=[("delivery", "fifo and at-most-once"), ("temporal", "receive -> once connect")],
        requires=[("temporal", "send -> once connect")],
    )

    def client(self, **changes: object) -> EndpointType:
        usual: dict[str, object] = {
            "inputs": [event("receive", text=STR)],
            "outputs": [event("send", message=struct({"text": STR, "at": INT}))],
            "provides": [("temporal", "once connect")],
            "requires": [("delivery", "fifo")],
        }
        return endpoint(**{**usual, **changes})  # type: ignore[arg-type]

    def test_the_usual_client_matches(self) -> None:
        require_match(self.CHANNEL, self.client())

    @pytest.mark.parametrize(
        ("changes", "line"),
        [
            (
                {"outputs": [event("send", message=struct({"text": STR}))]},
                "incoming event send > field at: is missing",
            ),
            (
                {"inputs": [event("receive", text=INT)]},
                "outgoing event receive: str is not a subtype of int",
            ),
            ({"inputs": []}, "outgoing event receive: has no input of that name; there is none"),
            (
                {"requires": [("delivery", "causal")]},
                (
                    "required constraint delivery 'causal': not implied by "
                    "'fifo and at-most-once': causal does not follow from at most once and fifo"
                ),
            ),
            (
                {"requires": [("security", "authenticated")]},
                "required constraint security 'authenticated': nothing is provided in security",
            ),
            (
                {"provides": [("temporal", "send -> once receive")]},
                (
                    "required constraint temporal 'send -> once connect': not implied by "
                    "'send -> once receive': it allows out.receive, then in.send"
                ),
            ),
            (
                {"requires": [("astrology", "lucky")]},
                (
                    "required constraint astrology 'lucky': no formalism is called 'astrology': "
                    "install the library that has it (known: cardinality, delivery, security, "
                    "temporal, timing)"
                ),
            ),
            (
                {"requires": [("temporal", "receive ->")]},
                (
                    "required constraint temporal 'receive ->': temporal formula 'receive ->', "
                    "column 11: expected an event or a formula, found the end"
                ),
            ),
        ],
    )
    def test_one_misfit_is_one_exact_line(self, changes: dict[str, object], line: str) -> None:
        with pytest.raises(MismatchError) as caught:
            require_match(self.CHANNEL, self.client(**changes))
        assert caught.value.diagnosis.line == line
        assert str(caught.value) == f"do not match: {line}"

    def test_all_misfits_are_told_in_full(self) -> None:
        wrong = self.client(
            inputs=[event("receive", text=INT)],
            outputs=[event("send", message=struct({"text": STR})), event("shout")],
            requires=[("delivery", "causal")],
        )
        found = standard_checker().check_match(self.CHANNEL, wrong)
        assert found is not None
        assert found.line.endswith("(and 3 more)")
        assert found.full.splitlines() == [
            "outgoing event receive",
            "  str is not a subtype of int",
            "incoming event send",
            "  field at: is missing",
            "incoming event shout: has no input of that name; there is send",
            (
                "required constraint delivery 'causal': not implied by 'fifo and at-most-once': "
                "causal does not follow from at most once and fifo"
            ),
        ]

    def test_places_are_data(self) -> None:
        found = why_not(
            object_type({"c": endpoint([event("e", struct({"a": INT}))])}),
            object_type({"c": endpoint([event("e", struct({"a": STR}))])}),
        )
        ((steps, reason),) = found.places
        assert steps == (Step("endpoint", "c"), Step("incoming event", "e"), Step("field", "a"))
        assert reason == "str is not a subtype of int"

    def test_a_missing_endpoint(self) -> None:
        with pytest.raises(MismatchError, match="endpoint members: is missing; there is channel"):
            require_subtype(
                object_type({"channel": endpoint()}), object_type({"members": endpoint()})
            )


class TestConstraints:
    def test_every_unreadable_constraint_in_a_type_is_found(self) -> None:
        inner = object_type({"x": endpoint(provides=[("nowhere", "y")])})
        type_ = object_type(
            {
                "channel": endpoint(
                    [event("send", ReferenceOf(inner))],
                    provides=[("temporal", "sned -> once connect")],
                    requires=[("delivery", "fifo and swift")],
                )
            },
            requires=[("cardinality", "at most 1 instance of canal")],
        )
        found = Checker().check_constraints(type_)
        assert found is not None
        reasons = [reason.split(";")[0] for _, reason in found.places]
        assert reasons == [
            "cardinality formula 'at most 1 instance of canal', column 23: no endpoint 'canal'",
            "temporal formula 'sned -> once connect', column 1: no event 'sned'",
            "delivery formula 'fifo and swift', column 10: no property 'swift'",
            (
                "no formalism is called 'nowhere': install the library that has it "
                "(known: cardinality, delivery, security, temporal, timing)"
            ),
        ]

    def test_a_type_whose_constraints_can_be_read_has_no_diagnosis(self) -> None:
        assert Checker().check_constraints(TestEndpoints.CHANNEL) is None
