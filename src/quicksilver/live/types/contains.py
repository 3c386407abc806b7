"""Is a value of a type? For values that come from outside, in their plain form.

Plain means what JSON or MessagePack give: None, numbers, text, bytes, lists,
mappings. Classes of libraries are first made plain by ``convert``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import assert_never

from quicksilver.live.types.diagnosis import Diagnosis, Step, gather, inside
from quicksilver.live.types.model import (
    DictOf,
    ListOf,
    LiteralOf,
    Parameter,
    Recur,
    Recursive,
    ReferenceOf,
    Scalar,
    SetOf,
    StructOf,
    TupleOf,
    UnionOf,
    ValueType,
)
from quicksilver.live.types.notation import render_type
from quicksilver.live.types.walk import unfold

_CLASSES: dict[str, tuple[type, ...]] = {
    "none": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bytes": (bytes,),
    "any": (object,),
}


def find_misfit(value: object, type_: ValueType) -> Diagnosis | None:
    """Return where and why a plain value is not of a type, or None if it is.

    A reference to an object is text here; what it refers to is not looked at.
    """
    match type_:
        case Scalar():
            fits = isinstance(value, _CLASSES[type_.name])
            return None if fits else _differ(value, type_)
        case LiteralOf():
            fits = any(type(one) is type(value) and one == value for one in type_.values)
            return None if fits else _differ(value, type_)
        case ListOf() | TupleOf():
            return _find_in_sequence(value, type_)
        case SetOf():
            if not isinstance(value, AbstractSet | list | tuple):
                return _differ(value, type_)
            return gather(*(inside(Step("item"), find_misfit(one, type_.item)) for one in value))
        case DictOf():
            if not isinstance(value, Mapping):
                return _differ(value, type_)
            keys = (inside(Step("key"), find_misfit(key, type_.key)) for key in value)
            items = (
                inside(Step("value", str(key)), find_misfit(one, type_.value))
                for key, one in value.items()
            )
            return gather(*keys, *items)
        case StructOf():
            return _find_in_struct(value, type_)
        case UnionOf():
            if any(find_misfit(value, member) is None for member in type_.members):
                return None
            return _differ(value, type_)
        case Recursive():
            return find_misfit(value, unfold(type_))
        case ReferenceOf():
            return None if isinstance(value, str | bytes) else _differ(value, type_)
        case Recur() | Parameter():
            return Diagnosis(Step("whole"), f"{render_type(type_)} has not been given")
    assert_never(type_)


def _find_in_sequence(value: object, type_: ListOf | TupleOf) -> Diagnosis | None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return _differ(value, type_)
    if isinstance(type_, ListOf):
        types: Sequence[ValueType] = [type_.item] * len(value)
    elif len(value) == len(type_.items):
        types = type_.items
    else:
        reason = f"has {len(value)} items instead of {len(type_.items)}"
        return Diagnosis(Step("whole"), reason)
    pairs = enumerate(zip(value, types, strict=True))
    return gather(*(inside(Step("item", str(n)), find_misfit(one, t)) for n, (one, t) in pairs))


def _find_in_struct(value: object, type_: StructOf) -> Diagnosis | None:
    if not isinstance(value, Mapping):
        return _differ(value, type_)
    causes: list[Diagnosis | None] = []
    for field in type_.fields:
        step = Step("field", field.name)
        if field.name in value:
            causes.append(inside(step, find_misfit(value[field.name], field.type)))
        elif field.required:
            causes.append(Diagnosis(step, "is missing"))
    if type_.closed:
        causes += [
            Diagnosis(Step("field", str(name)), "is not expected in a closed struct")
            for name in value
            if name not in type_.by_name
        ]
    return gather(*causes)


def _differ(value: object, type_: ValueType) -> Diagnosis:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return Diagnosis(Step("whole"), f"{shown} is not {render_type(type_, chars_max=60)}")
