"""Parameterized types: templates of object types, and giving them their parameters.

A template is an object type with ``parameters``; wherever one of them is used, the
type has a ``Parameter`` of its name. Giving a template types and values makes it an
ordinary type (dissertation 2.1.4 E, Code 2.6). Values do not change the type: they
are parameters of the proxy, but are checked here against the type asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import msgspec

from quicksilver.live.types.errors import Diagnosis, ParameterError, Step, gather, inside
from quicksilver.live.types.model import (
    AnyType,
    EndpointType,
    ObjectType,
    Parameter,
    ParameterKind,
    ReferenceOf,
    Term,
    TypeParameter,
)
from quicksilver.live.types.subtyping import Checker, standard_checker
from quicksilver.live.types.values import find_misfit
from quicksilver.live.types.walk import children, substitute

Argument: TypeAlias = "AnyType | GivenValue"
T = TypeVar("T", bound=Term)


class GivenValue(msgspec.Struct, frozen=True):
    """A value given for a parameter, as opposed to a type."""

    value: object


def free_parameters(type_: AnyType) -> list[str]:
    """Return the names of the parameters that a type uses, whoever declares them, sorted."""
    found: set[str] = set()
    pending: list[Term] = [type_]
    while pending:
        term = pending.pop()
        if isinstance(term, Parameter):
            found.add(term.name)
        pending.extend(children(term))
    return sorted(found)


def substitute_parameters(type_: T, types: Mapping[str, AnyType]) -> T:
    """Return the type with parameters replaced by types, where these are given.

    A template inside, reached through a reference, keeps the parameters that it
    declares itself.
    """

    def replace(part: Term, binders: int) -> Term | None:
        if isinstance(part, Parameter):
            return types.get(part.name)
        if isinstance(part, ObjectType) and part.parameters and part is not type_:
            own = {parameter.name for parameter in part.parameters}
            left = {name: given for name, given in types.items() if name not in own}
            return substitute_parameters(part, left) if len(left) < len(types) else None
        return None

    return substitute(type_, replace)


def check_arguments(
    template: ObjectType,
    arguments: Mapping[str, Argument],
    *,
    checker: Checker | None = None,
) -> Diagnosis | None:
    """Return which arguments a template cannot take, and why; None if it can take all."""
    judge = checker if checker is not None else standard_checker()
    declared = {parameter.name: parameter for parameter in template.parameters}
    causes: list[Diagnosis | None] = [
        Diagnosis(Step("parameter", name), f"is unknown; there is {', '.join(declared) or 'none'}")
        for name in sorted(arguments)
        if name not in declared
    ]
    types = {name: given for name, given in arguments.items() if not isinstance(given, GivenValue)}
    for parameter in template.parameters:
        given = arguments.get(parameter.name)
        step = Step("parameter", parameter.name)
        if given is None:
            causes.append(Diagnosis(step, f"is not given; it takes {_takes(parameter)}"))
        else:
            causes.append(inside(step, _check_argument(parameter, given, types, judge)))
    return gather(*causes)


def instantiate(
    template: ObjectType,
    arguments: Mapping[str, Argument],
    *,
    checker: Checker | None = None,
) -> ObjectType:
    """Return the type that a template becomes, or raise ParameterError with the diagnosis."""
    diagnosis = check_arguments(template, arguments, checker=checker)
    if diagnosis is not None:
        raise ParameterError(template.title, diagnosis)
    types = {name: given for name, given in arguments.items() if not isinstance(given, GivenValue)}
    plain = msgspec.structs.replace(template, parameters=())
    return substitute_parameters(plain, types)


def _check_argument(
    parameter: TypeParameter,
    given: Argument,
    types: Mapping[str, AnyType],
    checker: Checker,
) -> Diagnosis | None:
    problem = Diagnosis(Step("whole"), f"takes {_takes(parameter)}, was given {_names(given)}")
    # Bounds may use the other parameters: "a channel of M, where M is ...".
    bound = None if parameter.bound is None else substitute_parameters(parameter.bound, types)
    if isinstance(given, GivenValue):
        if parameter.of != "value":
            return problem
        if bound is None:
            return None
        assert not isinstance(bound, EndpointType)
        value_type = ReferenceOf(bound) if isinstance(bound, ObjectType) else bound
        return find_misfit(given.value, value_type)
    if parameter.of != _kind(given):
        return problem
    return None if bound is None else checker.check_subtype(given, bound)


def _takes(parameter: TypeParameter) -> str:
    return "a value" if parameter.of == "value" else f"a type of kind {parameter.of!r}"


def _kind(given: AnyType) -> ParameterKind:
    if isinstance(given, EndpointType):
        return "endpoint_type"
    return "object_type" if isinstance(given, ObjectType) else "value_type"


def _names(given: Argument) -> str:
    return "a value" if isinstance(given, GivenValue) else f"one of kind {_kind(given)!r}"
