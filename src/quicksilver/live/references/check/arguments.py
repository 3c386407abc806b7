"""Parameters and arguments: everything set, nothing unknown, all within bounds (2.1.5 C)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

import msgspec

from quicksilver.live.references.model import (
    Argument,
    ArgumentContent,
    Parameter,
    ParameterKind,
    ReferenceArgument,
    TypeArgument,
    Use,
    ValueArgument,
)
from quicksilver.live.references.names import list_names
from quicksilver.live.references.values import Value, from_value
from quicksilver.live.types import model as types
from quicksilver.live.types.parameters import free_parameters
from quicksilver.live.types.values import find_misfit

if TYPE_CHECKING:
    from quicksilver.live.references.check.evaluator import Evaluator

_WORDS: dict[ParameterKind, str] = {
    "type": "a type",
    "value": "a value",
    "reference": "a reference",
}


class Slot(msgspec.Struct, frozen=True):
    """What a name in a template stands for, as far as it is known."""

    kind: ParameterKind
    type: types.AnyType | None
    """The type itself, or the type of the value or object; None: unknown."""

    value: Value | None = None


def declare(
    evaluator: Evaluator,
    parameters: tuple[Parameter, ...],
    path: str,
    scope: Mapping[str, Slot],
) -> dict[str, Slot]:
    """Return what the parameters stand for while nobody has set them: their bounds."""
    slots: dict[str, Slot] = {}
    for parameter in parameters:
        if parameter.name in slots:
            text = f"two parameters are called {parameter.name!r}"
            evaluator.error(f"{path}/parameter[{parameter.name}]", "duplicate-name", text)
        if parameter.kind == "type":
            slots[parameter.name] = Slot("type", types.Parameter(parameter.name))
        else:
            slots[parameter.name] = Slot(parameter.kind, None)
    inner = {**scope, **slots}
    for parameter in parameters:
        place = f"{path}/parameter[{parameter.name}]"
        bound = _resolve_bound(evaluator, parameter, place, inner)
        if parameter.kind != "type":
            slots[parameter.name] = Slot(parameter.kind, bound)
        if parameter.default is not None:
            slot = _evaluate_content(evaluator, parameter.default, f"{place}/default", scope)
            _check_fit(evaluator, parameter, slot, f"{place}/default", inner)
    return slots


def bind_arguments(
    evaluator: Evaluator,
    parameters: tuple[Parameter, ...] | None,
    arguments: tuple[Argument, ...],
    path: str,
    scope: Mapping[str, Slot],
) -> dict[str, Slot] | None:
    """Return what each parameter is set to; None if that is not known for all.

    With ``parameters`` None the arguments themselves are still looked at.
    """
    given: dict[str, Slot] = {}
    for argument in arguments:
        place = f"{path}/argument[{argument.name}]"
        if argument.name in given:
            text = f"the parameter {argument.name!r} is set twice"
            evaluator.error(place, "duplicate-name", text)
            continue
        slot = _evaluate_content(evaluator, argument.content, place, scope)
        given[argument.name] = slot if slot is not None else Slot("reference", None)
    if parameters is None:
        return None
    declared = {parameter.name: parameter for parameter in parameters}
    for name in given:
        if name not in declared:
            known = list_names(declared)
            text = f"the template has no parameter {name!r}; it has: {known}"
            evaluator.error(f"{path}/argument[{name}]", "unknown-parameter", text)
    slots: dict[str, Slot] = {}
    is_complete = True
    # Types first: bounds of the others may mention them.
    for parameter in sorted(parameters, key=lambda one: one.kind != "type"):
        place = f"{path}/argument[{parameter.name}]"
        slot = given.get(parameter.name)
        if slot is None and parameter.default is not None:
            slot = _evaluate_content(evaluator, parameter.default, place, scope)
        if slot is None:
            text = f"the parameter {parameter.name!r} ({parameter.kind}) is not set"
            evaluator.error(path, "unset-parameter", text)
            is_complete = False
            continue
        if not _check_fit(evaluator, parameter, slot, place, {**scope, **slots}):
            is_complete = False
        slots[parameter.name] = slot
    return slots if is_complete else None


def _evaluate_content(
    evaluator: Evaluator, content: ArgumentContent, path: str, scope: Mapping[str, Slot]
) -> Slot | None:
    match content:
        case TypeArgument(term):
            return Slot("type", evaluator.resolve(term, path, scope))
        case ValueArgument(value):
            return Slot("value", None, value)
        case ReferenceArgument(Use(parameter=name)) if name in scope:
            return scope[name]
        case ReferenceArgument(reference):
            return Slot("reference", evaluator.evaluate_object(reference, path, scope))
        case _:
            assert_never(content)


def _resolve_bound(
    evaluator: Evaluator, parameter: Parameter, path: str, scope: Mapping[str, Slot]
) -> types.AnyType | None:
    if parameter.bound is None:
        return None
    if parameter.kind == "reference":
        return evaluator.resolve_object(parameter.bound, path, scope)
    bound = evaluator.resolve(parameter.bound, path, scope)
    if parameter.kind == "value" and isinstance(bound, types.ObjectType | types.EndpointType):
        evaluator.error(path, "bad-type", "a value's bound is a value type")
        return None
    return bound


def _check_fit(
    evaluator: Evaluator,
    parameter: Parameter,
    slot: Slot | None,
    path: str,
    scope: Mapping[str, Slot],
) -> bool:
    """Whether an argument is of the right kind and within the parameter's bound."""
    if slot is None:
        return False
    name = parameter.name
    if slot.kind != parameter.kind:
        wanted, got = _WORDS[parameter.kind], _WORDS[slot.kind]
        evaluator.error(path, "bad-argument", f"the parameter {name!r} wants {wanted}, not {got}")
        return False
    bound = _resolve_bound(evaluator, parameter, path, scope)
    if bound is None or (_has_types(scope) and free_parameters(bound)):
        return True
    if slot.value is not None:
        assert not isinstance(bound, types.ObjectType | types.EndpointType)
        problem = find_misfit(from_value(slot.value), bound)
    elif slot.type is None or isinstance(slot.type, types.Parameter):
        return True
    else:
        problem = evaluator.checker.check_subtype(slot.type, bound)
    if problem is None:
        return True
    text = f"the parameter {name!r} does not take it: {problem.line}"
    evaluator.error(path, "out-of-bounds", text)
    return False


def _has_types(scope: Mapping[str, Slot]) -> bool:
    return any(slot.kind == "type" for slot in scope.values())
