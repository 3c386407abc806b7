"""Values of one library's classes into another's, at connections (2.2.2, last part).

Every annotation has an adapter: a front end that makes a value plain, and a back
end that makes a value of the class from the plain form. A conversion is one
class's front end and another's back end, so N classes need N adapters, not N².
Plain means: scalars as they are, sequences, sets and mappings of Python, structs
as mappings from field names. Whatever is plain already is passed on untouched.

Libraries may also register a function for a pair of classes of different
structure; it is taken before all else.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from quicksilver.live.types.errors import MismatchError
from quicksilver.live.types.model import ValueType
from quicksilver.live.types.plain_forms import (
    Convert,
    change_fields,
    find_plain_form,
    make_back,
    make_front,
)
from quicksilver.live.types.reflect import record_fields, value_type_of
from quicksilver.live.types.subtyping import Checker, standard_checker
from quicksilver.live.types.values import find_misfit

S = TypeVar("S")
T = TypeVar("T")


class Adapter:
    """The front end and the back end of an annotation; None where nothing is to be done."""

    __slots__ = ("annotation", "from_plain", "is_made", "to_plain")

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self.is_made = False
        self.to_plain: Convert | None = None
        self.from_plain: Convert | None = None


class Converters:
    """Makes adapters, once for each annotation, and puts them together."""

    def __init__(self, checker: Checker | None = None) -> None:
        self._checker = checker if checker is not None else standard_checker()
        self._adapters: dict[object, Adapter] = {}
        self._pairs: dict[tuple[object, object], Convert] = {}
        self.conversions: dict[tuple[bytes, bytes], tuple[type, type]] = {}
        """Value types that a registered function turns into others: classes by digests."""

    def register(self, source: type[S], target: type[T], convert: Callable[[S], T]) -> None:
        """Convert one class to another by this function from now on."""
        self._pairs[source, target] = convert
        digests = value_type_of(source).digest, value_type_of(target).digest
        self.conversions[digests] = (source, target)

    def find(self, source: object, target: object) -> Convert | None:
        """Return what turns values of one annotation into another's; None: nothing is to be done.

        Raises MismatchError if the types do not fit and no function is registered.
        """
        registered = self._pairs.get((source, target))
        if registered is not None:
            return registered
        if source == target:
            return None
        diagnosis = self._checker.check_value_subtype(value_type_of(source), value_type_of(target))
        if diagnosis is not None:
            registered = self._find_by_type(source, target)
            if registered is None:
                raise MismatchError("values do not fit", diagnosis)
            return registered
        return compose(self.adapter(source).to_plain, self.adapter(target).from_plain)

    def _find_by_type(self, source: object, target: object) -> Convert | None:
        """Use a function between two classes of the same structure as these annotations."""
        digests = value_type_of(source).digest, value_type_of(target).digest
        classes = self.conversions.get(digests)
        if classes is None:
            return None
        one, other = classes
        before = compose(self.adapter(source).to_plain, self.adapter(one).from_plain)
        after = compose(self.adapter(other).to_plain, self.adapter(target).from_plain)
        return compose(
            before if source != one else None,
            compose(self._pairs[one, other], after if target != other else None),
        )

    def adapter(self, annotation: object) -> Adapter:
        """Return the adapter of an annotation, made when it is first asked for."""
        known = self._adapters.get(annotation)
        if known is None:
            # Kept before it is complete: a class may use itself.
            known = self._adapters[annotation] = Adapter(annotation)
            known.to_plain, known.from_plain = self._make(annotation)
            known.is_made = True
        return known

    @property
    def adapters_made(self) -> int:
        """Return how many adapters there are."""
        return len(self._adapters)

    def _make(self, annotation: Any) -> tuple[Convert | None, Convert | None]:
        registered = find_plain_form(annotation)
        if registered is not None:
            inner = self._part(registered.annotation)
            to_plain = compose(registered.to_plain, inner.to_plain)
            return to_plain, compose(inner.from_plain, registered.from_plain)
        origin = typing.get_origin(annotation)
        arguments = typing.get_args(annotation)
        if origin in {typing.Union, types.UnionType}:
            return self._make_union(arguments)
        if origin in {typing.Annotated, typing.Final, typing.Required, typing.NotRequired}:
            inner = self._part(arguments[0])
            return inner.to_plain, inner.from_plain
        if isinstance(annotation, typing.NewType):
            inner = self._part(annotation.__supertype__)
            return inner.to_plain, inner.from_plain
        cls = origin or annotation
        if not isinstance(cls, type):
            return None, None
        if issubclass(cls, enum.Enum):
            return operator.attrgetter("value"), cls
        if typing.is_typeddict(cls):
            return self._make_mapping_struct(annotation)
        if issubclass(cls, msgspec.Struct) or dataclasses.is_dataclass(cls):
            return self._make_struct(annotation, cls)
        if issubclass(cls, tuple):
            if hasattr(cls, "_fields"):
                return self._make_struct(annotation, cls)
            return self._make_tuple(arguments)
        return self._make_container(cls, arguments)

    def _part(self, annotation: object) -> Adapter:
        """Return the adapter of a part; one that is still being made is called through later."""
        adapter = self.adapter(annotation)
        if adapter.is_made:
            return adapter
        late = Adapter(annotation)
        late.to_plain = lambda value: _call(adapter.to_plain, value)
        late.from_plain = lambda plain: _call(adapter.from_plain, plain)
        return late

    def _make_struct(self, annotation: object, cls: type) -> tuple[Convert, Convert]:
        fields = record_fields(annotation)
        parts = {name: self._part(type_) for name, (type_, _) in fields.items()}
        fronts = {name: one.to_plain for name, one in parts.items() if one.to_plain is not None}
        backs = {name: one.from_plain for name, one in parts.items() if one.from_plain is not None}
        may_be_unset = any(_has_unset(type_) for type_, _ in fields.values())
        may_be_absent = not all(required for _, required in fields.values())
        return (
            make_front(tuple(fields), fronts, may_be_unset=may_be_unset),
            make_back(cls, tuple(fields), backs, may_be_absent=may_be_absent),
        )

    def _make_mapping_struct(self, annotation: object) -> tuple[Convert | None, Convert | None]:
        fields = record_fields(annotation)
        parts = {name: self._part(type_) for name, (type_, _) in fields.items()}
        fronts = {name: one.to_plain for name, one in parts.items() if one.to_plain is not None}
        backs = {name: one.from_plain for name, one in parts.items() if one.from_plain is not None}
        return (
            (lambda value: change_fields(dict(value), fronts)) if fronts else None,
            lambda plain: change_fields({n: plain[n] for n in fields if n in plain}, backs),
        )

    def _make_tuple(self, arguments: tuple[Any, ...]) -> tuple[Convert | None, Convert | None]:
        if not arguments or arguments[-1] is Ellipsis:
            return self._make_container(tuple, arguments[:1])
        parts = [self._part(one) for one in arguments]
        return (
            _each([one.to_plain for one in parts]),
            _each([one.from_plain for one in parts]) or _rebuild(tuple),
        )

    def _make_container(
        self, cls: type, arguments: tuple[Any, ...]
    ) -> tuple[Convert | None, Convert | None]:
        if issubclass(cls, Mapping):
            return self._make_dict(arguments)
        build = _BUILDERS.get(cls)
        if build is None:
            return None, None
        if not arguments:
            return None, _rebuild(build)
        item = self._part(arguments[0])
        front, back = item.to_plain, item.from_plain
        return (
            None if front is None else (lambda value: [front(one) for one in value]),
            _rebuild(build) if back is None else (lambda plain: build(map(back, plain))),
        )

    def _make_dict(self, arguments: tuple[Any, ...]) -> tuple[Convert | None, Convert | None]:
        if not arguments:
            return None, None
        key, item = (self._part(one) for one in arguments)
        key_front, item_front = key.to_plain or _same, item.to_plain or _same
        key_back, item_back = key.from_plain or _same, item.from_plain or _same
        front = key.to_plain is not None or item.to_plain is not None
        back = key.from_plain is not None or item.from_plain is not None
        return (
            (lambda value: {key_front(k): item_front(v) for k, v in value.items()})
            if front
            else None,
            (lambda plain: {key_back(k): item_back(v) for k, v in plain.items()}) if back else None,
        )

    def _make_union(self, arguments: tuple[Any, ...]) -> tuple[Convert | None, Convert | None]:
        members = [one for one in arguments if one is not msgspec.UnsetType]
        parts = [(value_type_of(one), self._part(one)) for one in members]
        if all(one.to_plain is None and one.from_plain is None for _, one in parts):
            return None, None
        others = [one for _, one in parts if one.annotation is not type(None)]
        if len(others) == 1 and len(parts) == 2:
            front, back = others[0].to_plain or _same, others[0].from_plain or _same
            return (
                lambda value: None if value is None else front(value),
                lambda plain: None if plain is None else back(plain),
            )
        by_class = {_class_of(one.annotation): one.to_plain for _, one in parts}
        return (
            lambda value: _call(_find_front(by_class, value), value),
            lambda plain: _call(_find_back(parts, plain), plain),
        )


def compose(first: Convert | None, then: Convert | None) -> Convert | None:
    """Return the function that does one conversion, then the other; None converts nothing."""
    if first is None:
        return then
    if then is None:
        return first
    return lambda value: then(first(value))


def _same(value: Any) -> Any:
    return value


def _call(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


_BUILDERS: dict[object, Callable[[Any], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}


def _each(converts: list[Convert | None]) -> Convert | None:
    if all(one is None for one in converts):
        return None
    filled = [one or _same for one in converts]
    return lambda value: tuple(f(v) for f, v in zip(filled, value, strict=True))


def _rebuild(build: Callable[[Any], Any]) -> Convert:
    return lambda plain: plain if type(plain) is build else build(plain)


def _has_unset(annotation: object) -> bool:
    return msgspec.UnsetType in typing.get_args(annotation)


def _class_of(annotation: Any) -> Any:
    return typing.get_origin(annotation) or annotation


def _find_front(by_class: Mapping[Any, Convert | None], value: object) -> Convert | None:
    for cls in type(value).__mro__:
        if cls in by_class:
            return by_class[cls]
    return next(
        (
            front
            for cls, front in by_class.items()
            if isinstance(cls, type) and isinstance(value, cls)
        ),
        None,
    )


def _find_back(parts: list[tuple[ValueType, Adapter]], plain: object) -> Convert | None:
    for type_, adapter in parts:
        if find_misfit(plain, type_) is None:
            return adapter.from_plain
    return None
