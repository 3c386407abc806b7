"""The relations of the dissertation between types, each with a diagnosis when it fails.

=====  =====================================  ==========================================
(2.1)  endpoints match                        ``check_match``
(2.2)  events understood as others            ``_compare_events``
(2.3)  constraints no weaker than others      ``ConstraintComparison`` in ``implication``
(2.4)  endpoint subtyping                     ``check_endpoint_subtype``
(2.5)  object subtyping                       ``check_object_subtype``
(2.6)  named endpoints                        ``_compare_endpoint_sets``
=====  =====================================  ==========================================

Each ``check_*`` returns None if the relation holds. Answers are kept by the
digests of the types until a formalism or one of its facts changes.

Endpoints may also match through registered converters (2.2.2, last part). A
conversion is known by two value types: whoever holds the function that does it
says so. An event that goes out is then taken for what it will be when it comes in,
and the rest of the match is as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Formalisms
from quicksilver.live.formalisms.standard import standard_formalisms
from quicksilver.live.formalisms.structure import endpoint_structure, object_structure
from quicksilver.live.types.errors import Diagnosis, MismatchError, Step, StepKind, gather, inside
from quicksilver.live.types.implication import ConstraintComparison
from quicksilver.live.types.model import (
    AnyType,
    EndpointType,
    EventType,
    ObjectType,
    Parameter,
    ReferenceOf,
    StructOf,
    ValueType,
)
from quicksilver.live.types.values import ValueComparison
from quicksilver.live.types.walk import children

ANSWERS_KEPT_MAX = 20_000

_Question: TypeAlias = tuple[str, bytes, bytes]


class Checker:
    """Decides the relations between types with the formalisms it is given."""

    def __init__(self, formalisms: Formalisms | None = None) -> None:
        self.formalisms = formalisms if formalisms is not None else standard_formalisms()
        self._constraints = ConstraintComparison(self.formalisms)
        self._answers: dict[_Question, Diagnosis | None] = {}
        self._revision = self.formalisms.revision

    def check_subtype(self, sub: AnyType, sup: AnyType) -> Diagnosis | None:
        """Return why one type is not a subtype of another, or None if it is."""
        if isinstance(sub, EndpointType) and isinstance(sup, EndpointType):
            return self.check_endpoint_subtype(sub, sup)
        if isinstance(sub, ObjectType) and isinstance(sup, ObjectType):
            return self.check_object_subtype(sub, sup)
        for one in (sub, sup):
            if isinstance(one, EndpointType | ObjectType):
                kinds = f"{_kind(sub)} is not {_kind(sup)}"
                return Diagnosis(Step("whole"), kinds)
        assert not isinstance(sub, EndpointType | ObjectType)
        assert not isinstance(sup, EndpointType | ObjectType)
        return self.check_value_subtype(sub, sup)

    def check_value_subtype(self, sub: ValueType, sup: ValueType) -> Diagnosis | None:
        """Return why values of one type are not values of another, or None if they are."""
        return self._answer(
            ("v", sub.digest, sup.digest), lambda: _Comparison(self._constraints).values(sub, sup)
        )

    def check_match(self, one: EndpointType, other: EndpointType) -> Diagnosis | None:
        """Return why two endpoints cannot be connected (2.1), or None if they can."""
        return self._answer(
            ("m", one.digest, other.digest),
            lambda: _Comparison(self._constraints).match(one, other),
        )

    def check_endpoint_subtype(self, sub: EndpointType, sup: EndpointType) -> Diagnosis | None:
        """Return why one endpoint cannot stand for another (2.4), or None if it can."""
        return self._answer(
            ("e", sub.digest, sup.digest),
            lambda: _Comparison(self._constraints).endpoints(sub, sup),
        )

    def check_object_subtype(self, sub: ObjectType, sup: ObjectType) -> Diagnosis | None:
        """Return why one object cannot stand for another (2.5), or None if it can."""
        return self._answer(
            ("o", sub.digest, sup.digest),
            lambda: _Comparison(self._constraints).objects(sub, sup),
        )

    def check_constraints(self, type_: AnyType) -> Diagnosis | None:
        """Return which constraints in a type cannot be read, or None if all can."""
        return self._answer(("c", type_.digest, b""), lambda: self._check_readable(type_))

    def _check_readable(self, type_: AnyType) -> Diagnosis | None:
        if isinstance(type_, ObjectType):
            return gather(
                self._constraints.check_readable(type_, object_structure(type_)),
                *(
                    inside(Step("endpoint", one.name), self._check_readable(one.type))
                    for one in type_.endpoints
                ),
            )
        if isinstance(type_, EndpointType):
            ways: tuple[tuple[StepKind, tuple[EventType, ...]], ...] = (
                ("incoming event", type_.inputs),
                ("outgoing event", type_.outputs),
            )
            return gather(
                self._constraints.check_readable(type_, endpoint_structure(type_)),
                *(
                    inside(Step(kind, event.name), self._check_readable(event.value))
                    for kind, events in ways
                    for event in events
                ),
            )
        if isinstance(type_, ReferenceOf):
            return inside(Step("referenced object"), self._check_readable(type_.target))
        return gather(
            *(self._check_readable(one) for one in children(type_) if isinstance(one, AnyType))
        )

    def _answer(
        self, question: _Question, work: Callable[[], Diagnosis | None]
    ) -> Diagnosis | None:
        revision = self.formalisms.revision
        if revision != self._revision or len(self._answers) >= ANSWERS_KEPT_MAX:
            self._answers.clear()
            self._revision = revision
        try:
            return self._answers[question]
        except KeyError:
            answer = self._answers[question] = work()
            # Looking for a formalism may have loaded a library.
            if self.formalisms.revision != revision:
                self._answers.clear()
            return answer


class _Comparison:
    """One question: values, events, endpoints and objects may be nested in one another."""

    def __init__(self, constraints: ConstraintComparison) -> None:
        self._constraints = constraints
        self._values = ValueComparison(self.objects)
        self.values = self._values.compare

    def match(self, one: EndpointType, other: EndpointType) -> Diagnosis | None:
        """O1 <* I2 and O2 <* I1 and C1 =>* C2' and C2 =>* C1' (2.1)."""
        here, there = endpoint_structure(one), endpoint_structure(other, flipped=True)
        implied = self._constraints.compare
        return gather(
            self._compare_events(one.outputs, other.inputs_by_name, "outgoing event", "input"),
            self._compare_events(other.outputs, one.inputs_by_name, "incoming event", "input"),
            implied(one.provides, here, other.requires, there, "required constraint"),
            implied(other.provides, there, one.requires, here, "required constraint"),
        )

    def endpoints(self, sub: EndpointType, sup: EndpointType) -> Diagnosis | None:
        """O1 <* O2 and I2 <* I1 and C1 =>* C2 and C2' =>* C1' (2.4)."""
        if sub == sup:
            return None
        ours, theirs = endpoint_structure(sub), endpoint_structure(sup)
        implied = self._constraints.compare
        return gather(
            self._compare_events(sub.outputs, sup.outputs_by_name, "outgoing event", "output"),
            self._compare_events(sup.inputs, sub.inputs_by_name, "incoming event", "input"),
            implied(sub.provides, ours, sup.provides, theirs, "provided constraint"),
            implied(sup.requires, theirs, sub.requires, ours, "required constraint"),
        )

    def objects(self, sub: ObjectType | Parameter, sup: ObjectType | Parameter) -> Diagnosis | None:
        """E1 <=* E2 and C1 =>* C2 and C2' =>* C1' (2.5)."""
        if sub == sup:
            return None
        for one in (sub, sup):
            if isinstance(one, Parameter):
                return _whole(f"the parameter {one.name} has not been given")
            # Values that a template still needs say nothing about its type.
            open_types = [one.name for one in one.parameters if one.of != "value"]
            if open_types:
                names = ", ".join(open_types)
                return _whole(f"a template has no subtypes until it is given {names}")
        assert isinstance(sub, ObjectType)
        assert isinstance(sup, ObjectType)
        ours, theirs = object_structure(sub), object_structure(sup)
        implied = self._constraints.compare
        return gather(
            self._compare_endpoint_sets(sub, sup),
            implied(sub.provides, ours, sup.provides, theirs, "provided constraint"),
            implied(sup.requires, theirs, sub.requires, ours, "required constraint"),
        )

    def _compare_endpoint_sets(self, sub: ObjectType, sup: ObjectType) -> Diagnosis | None:
        """For all (n, t') in E' there is (n, t) in E with t a subtype of t' (2.6)."""
        causes: list[Diagnosis | None] = []
        for wanted in sup.endpoints:
            step = Step("endpoint", wanted.name)
            found = sub.by_name.get(wanted.name)
            if found is None:
                has = ", ".join(sub.by_name) or "no endpoints"
                causes.append(Diagnosis(step, f"is missing; there is {has}"))
            elif isinstance(found, EndpointType) and isinstance(wanted.type, EndpointType):
                causes.append(inside(step, self.endpoints(found, wanted.type)))
            elif found != wanted.type:
                causes.append(Diagnosis(step, "is of a type that has not been given"))
        return gather(*causes)

    def _compare_events(
        self,
        events: tuple[EventType, ...],
        others: dict[str, EventType],
        kind: StepKind,
        role: str,
    ) -> Diagnosis | None:
        """For all (n, e) in E there is (n, e') in E' with e a subtype of e' (2.2)."""
        causes: list[Diagnosis | None] = []
        for event in events:
            step = Step(kind, event.name)
            other = others.get(event.name)
            if other is None:
                has = ", ".join(others) or "none"
                causes.append(Diagnosis(step, f"has no {role} of that name; there is {has}"))
            else:
                causes.append(inside(step, self.values(event.value, other.value)))
        return gather(*causes)


def _whole(reason: str) -> Diagnosis:
    return Diagnosis(Step("whole"), reason)


def _kind(type_: AnyType) -> str:
    if isinstance(type_, EndpointType):
        return "an endpoint type"
    return "an object type" if isinstance(type_, ObjectType) else "a value type"


@cache
def standard_checker() -> Checker:
    """Return the checker used where no other is given."""
    return Checker()


def is_subtype(sub: AnyType, sup: AnyType) -> bool:
    """Say whether one type is a subtype of another."""
    return standard_checker().check_subtype(sub, sup) is None


def is_match(one: EndpointType, other: EndpointType) -> bool:
    """Say whether two endpoints can be connected."""
    return standard_checker().check_match(one, other) is None


def require_subtype(sub: AnyType, sup: AnyType) -> None:
    """Raise MismatchError unless one type is a subtype of another."""
    diagnosis = standard_checker().check_subtype(sub, sup)
    if diagnosis is not None:
        raise MismatchError("is not a subtype", diagnosis)


def require_match(one: EndpointType, other: EndpointType) -> None:
    """Raise MismatchError unless two endpoints can be connected."""
    diagnosis = standard_checker().check_match(one, other)
    if diagnosis is not None:
        raise MismatchError("do not match", diagnosis)


Conversions: TypeAlias = Collection[tuple[bytes, bytes]]
"""Pairs of digests: of what is converted, and what it is converted to."""


def check_match(
    checker: Checker, one: EndpointType, other: EndpointType, conversions: Conversions = ()
) -> Diagnosis | None:
    """Return why two endpoints cannot be connected, conversions counted; None if they can."""
    problem = checker.check_match(one, other)
    if problem is None or not conversions:
        return problem
    here = _adapt(one, other, conversions)
    there = _adapt(other, one, conversions)
    if here is one and there is other:
        return problem
    return checker.check_match(here, there)


def _adapt(source: EndpointType, target: EndpointType, conversions: Conversions) -> EndpointType:
    """Return an endpoint whose outgoing events are as they arrive on the other side."""
    inputs = target.inputs_by_name
    outputs = tuple(
        adapt_event(event, inputs[event.name], conversions) if event.name in inputs else event
        for event in source.outputs
    )
    if outputs == source.outputs:
        return source
    return msgspec.structs.replace(source, outputs=outputs)


def adapt_event(source: EventType, target: EventType, conversions: Conversions) -> EventType:
    """Return an event that goes out as it arrives at one that comes in."""
    ours, theirs = source.value, target.value
    if (ours.digest, theirs.digest) in conversions:
        return msgspec.structs.replace(source, value=theirs)
    is_several = len(source.arguments) > 1 and len(target.arguments) > 1
    if is_several and isinstance(ours, StructOf) and isinstance(theirs, StructOf):
        return msgspec.structs.replace(source, value=_adapt_fields(ours, theirs, conversions))
    return source


def _adapt_fields(ours: StructOf, theirs: StructOf, conversions: Conversions) -> ValueType:
    """Each argument of an event is converted by itself."""
    fields = []
    for field in ours.fields:
        wanted = theirs.by_name.get(field.name)
        if wanted is not None and (field.type.digest, wanted.type.digest) in conversions:
            field = msgspec.structs.replace(field, type=wanted.type)  # noqa: PLW2901  # this one, as it arrives
        fields.append(field)
    return msgspec.structs.replace(ours, fields=tuple(fields))
