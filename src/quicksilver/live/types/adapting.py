"""Matching endpoints whose values fit only through a registered converter (2.2.2, last part).

A conversion is known by the two value types: whoever holds the function that
does it says so. An event that goes out is then taken for what it will be when it
comes in, and the rest of the match is as ever.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from quicksilver.live.types.diagnosis import Diagnosis
from quicksilver.live.types.model import EndpointType, EventType, StructOf, ValueType
from quicksilver.live.types.subtyping import Checker

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
