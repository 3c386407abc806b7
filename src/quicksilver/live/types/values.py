"""Value types: is a value of one, and are all of one type's values another's?

``find_misfit`` is for values that come from outside, in their plain form: what JSON
or MessagePack give. Classes of libraries are first made plain by ``convert``.

The dissertation inherits subtyping of value types from the language below it; here
it is by structure. Events are values that cross processes, nobody can change them
afterwards, so every container is covariant. A struct fits a struct that asks for
less (width) of wider types (depth). A field that may be absent must not be
something else when it is there, so an open struct that does not know the field
fits only if it may be anything, while a closed struct, which has no other
fields, fits always. ``bool`` fits ``int`` and ``int`` fits ``float``, as in
Python; sequences of fixed length fit lists. Recursive types are compared by
coinduction: what has been assumed on the way in holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, assert_never

from quicksilver.live.types.errors import Diagnosis, Step, StepKind, gather, inside
from quicksilver.live.types.model import (
    ANY,
    NONE,
    DictOf,
    Field,
    ListOf,
    LiteralOf,
    LiteralValue,
    ObjectType,
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
            return None if fits else _refuse(value, type_)
        case LiteralOf():
            fits = any(type(one) is type(value) and one == value for one in type_.values)
            return None if fits else _refuse(value, type_)
        case ListOf() | TupleOf():
            return _find_in_sequence(value, type_)
        case SetOf():
            if not isinstance(value, AbstractSet | list | tuple):
                return _refuse(value, type_)
            return gather(*(inside(Step("item"), find_misfit(one, type_.item)) for one in value))
        case DictOf():
            if not isinstance(value, Mapping):
                return _refuse(value, type_)
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
            return _refuse(value, type_)
        case Recursive():
            return find_misfit(value, unfold(type_))
        case ReferenceOf():
            return None if isinstance(value, str | bytes) else _refuse(value, type_)
        case Recur() | Parameter():
            return Diagnosis(Step("whole"), f"{render_type(type_)} has not been given")
    assert_never(type_)


def _find_in_sequence(value: object, type_: ListOf | TupleOf) -> Diagnosis | None:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return _refuse(value, type_)
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
        return _refuse(value, type_)
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


def _refuse(value: object, type_: ValueType) -> Diagnosis:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    return Diagnosis(Step("whole"), f"{shown} is not {render_type(type_, chars_max=60)}")


STEPS_MAX = 50_000
"""Comparisons of parts in one question; past it the answer is no, for want of proof."""

_WIDER = {"bool": ("int", "float"), "int": ("float",)}

Pair: TypeAlias = tuple[bytes, bytes]
CompareObjects: TypeAlias = Callable[
    [ObjectType | Parameter, ObjectType | Parameter], Diagnosis | None
]


class ValueComparison:
    """Answers one question about value types, with what it assumed and found on the way."""

    def __init__(self, compare_objects: CompareObjects) -> None:
        self._compare_objects = compare_objects
        self._assumed: dict[Pair, None] = {}
        """Pairs that are being compared further out, or were found to fit under these."""
        self._failed: dict[Pair, Diagnosis] = {}
        self._steps = 0

    def compare(self, sub: ValueType, sup: ValueType) -> Diagnosis | None:
        """Return why not all values of ``sub`` are values of ``sup``, or None."""
        # A union of one has the digest of its member: going from one to the other is no
        # progress, and must not count as having come round.
        sub, sup = _only_member(sub), _only_member(sup)
        pair = (sub.digest, sup.digest)
        if pair[0] == pair[1] or pair[1] == ANY.digest or pair in self._assumed:
            return None
        failed = self._failed.get(pair)
        if failed is not None:
            return failed
        self._steps += 1
        if self._steps > STEPS_MAX:
            return _misfit("the types are too large to compare")
        before = len(self._assumed)
        self._assumed[pair] = None
        diagnosis = self._compare_shapes(sub, sup)
        if diagnosis is not None:
            # What was found under a wrong assumption is forgotten with it.
            while len(self._assumed) > before:
                self._assumed.popitem()
            self._failed[pair] = diagnosis
        return diagnosis

    def _compare_shapes(self, sub: ValueType, sup: ValueType) -> Diagnosis | None:
        if isinstance(sub, Recursive):
            return self.compare(unfold(sub), sup)
        if isinstance(sup, Recursive):
            return self.compare(sub, unfold(sup))
        if isinstance(sub, UnionOf):
            return gather(*(self._enter("alternative", _say(one), one, sup) for one in sub.members))
        if isinstance(sub, LiteralOf) and len(sub.values) != 1:
            return gather(*(self.compare(LiteralOf((value,)), sup) for value in sub.values))
        if isinstance(sup, UnionOf):
            return self._compare_to_any(sub, sup.members)
        if isinstance(sub, LiteralOf):
            return None if _literal_fits(sub.values[0], sup) else _differ(sub, sup)
        return self._compare_containers(sub, sup)

    def _compare_containers(self, sub: ValueType, sup: ValueType) -> Diagnosis | None:
        match sub, sup:
            case Scalar(), Scalar():
                return None if sup.name in _WIDER.get(sub.name, ()) else _differ(sub, sup)
            case ListOf(), ListOf():
                return self._enter("item", "", sub.item, sup.item)
            case SetOf(), SetOf():
                return self._enter("item", "", sub.item, sup.item)
            case TupleOf(), ListOf():
                return gather(
                    *(
                        self._enter("item", str(place), item, sup.item)
                        for place, item in enumerate(sub.items)
                    )
                )
            case TupleOf(), TupleOf() if len(sub.items) == len(sup.items):
                pairs = enumerate(zip(sub.items, sup.items, strict=True))
                return gather(
                    *(self._enter("item", str(place), one, other) for place, (one, other) in pairs)
                )
            case DictOf(), DictOf():
                return gather(
                    self._enter("key", "", sub.key, sup.key),
                    self._enter("value", "", sub.value, sup.value),
                )
            case StructOf(), StructOf():
                return self._compare_structs(sub, sup)
            case ReferenceOf(), ReferenceOf():
                cause = self._compare_objects(sub.target, sup.target)
                return inside(Step("referenced object"), cause)
            case _:
                return _differ(sub, sup)

    def _compare_to_any(
        self, sub: ValueType, alternatives: tuple[ValueType, ...]
    ) -> Diagnosis | None:
        causes: list[Diagnosis] = []
        for one in alternatives:
            cause = self.compare(sub, one)
            if cause is None:
                return None
            causes.append(cause)
        allowed = " | ".join(map(_say, alternatives)) or "never"
        # An alternative of another shape says nothing; one of the same shape says where.
        deeper = tuple(cause for cause in causes if cause.causes or cause.step.kind != "whole")
        if len(deeper) == 1:
            return deeper[0]
        return _misfit(f"{_say(sub)} is none of {allowed}")

    def _compare_structs(self, sub: StructOf, sup: StructOf) -> Diagnosis | None:
        causes = [self._compare_field(sub, wanted) for wanted in sup.fields]
        if sup.closed:
            if not sub.closed:
                causes.append(_misfit("an open struct may have fields that a closed one has not"))
            causes += [
                Diagnosis(Step("field", field.name), "is not expected in a closed struct")
                for field in sub.fields
                if field.name not in sup.by_name
            ]
        return gather(*causes)

    def _compare_field(self, sub: StructOf, wanted: Field) -> Diagnosis | None:
        step = Step("field", wanted.name)
        found = sub.by_name.get(wanted.name)
        if found is None:
            if wanted.required:
                return Diagnosis(step, "is missing")
            if sub.closed or wanted.type == ANY:
                return None
            return Diagnosis(step, "may be absent or anything, as the struct is open without it")
        if wanted.required and not found.required:
            return Diagnosis(step, "is required but may be absent")
        return inside(step, self.compare(found.type, wanted.type))

    def _enter(self, kind: StepKind, name: str, sub: ValueType, sup: ValueType) -> Diagnosis | None:
        return inside(Step(kind, name), self.compare(sub, sup))


def _only_member(type_: ValueType) -> ValueType:
    if isinstance(type_, UnionOf) and len(type_.members) == 1:
        return type_.members[0]
    return type_


def _literal_fits(value: LiteralValue, sup: ValueType) -> bool:
    match sup:
        case LiteralOf():
            return any(type(one) is type(value) and one == value for one in sup.values)
        case Scalar():
            own = type(value).__name__
            return sup.name == own or sup.name in _WIDER.get(own, ())
        case _:
            return False


def _differ(sub: ValueType, sup: ValueType) -> Diagnosis:
    if isinstance(sub, Parameter) or isinstance(sup, Parameter):
        name = sub.name if isinstance(sub, Parameter) else _say(sup)
        return _misfit(f"the parameter {name} has not been given")
    if sub == NONE or sup == NONE or type(sub) is not type(sup):
        return _misfit(f"{_say(sub)} is not {_say(sup)}")
    return _misfit(f"{_say(sub)} is not a subtype of {_say(sup)}")


def _misfit(reason: str) -> Diagnosis:
    return Diagnosis(Step("whole"), reason)


def _say(type_: ValueType) -> str:
    return render_type(type_, chars_max=50)
