"""Value types off Python annotations.

What can be an event: scalars, containers, enumerations, and classes whose fields
say what they hold: msgspec structs, dataclasses, named tuples, typed dicts. Not
functions, not arbitrary objects: they cannot be sent (dissertation 2.1.2). Type
variables become parameters.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from quicksilver.live.types.build import optional, recursive, union
from quicksilver.live.types.errors import NotAnEventTypeError, UnreadableAnnotationError
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
    Field,
    ListOf,
    LiteralOf,
    LiteralValue,
    ObjectType,
    Parameter,
    ReferenceOf,
    SetOf,
    StructOf,
    Term,
    TupleOf,
    ValueType,
)
from quicksilver.live.types.plain_forms import find_plain_form

T = TypeVar("T")


class Ref(Generic[T]):
    """An annotation for a reference to a live object: ``Ref[Channel]``."""

    __live_reference__ = True


_SCALARS: dict[object, ValueType] = {
    None: NONE,
    type(None): NONE,
    bool: BOOL,
    int: INT,
    float: FLOAT,
    str: STR,
    bytes: BYTES,
    Any: ANY,
    typing.Never: NEVER,
    typing.NoReturn: NEVER,
}
_LISTS = {
    list,
    collections.deque,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
}
_SETS = {set, frozenset, collections.abc.Set, collections.abc.MutableSet}
_DICTS = {dict, collections.abc.Mapping, collections.abc.MutableMapping, collections.OrderedDict}
_WRAPPERS = {typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)

_kept: dict[object, ValueType] = {}


def value_type_of(annotation: object, *, place: str = "") -> ValueType:
    """Return the value type that an annotation means, or raise NotAnEventTypeError.

    ``place`` says in messages what is being read.
    """
    kept = _lookup(_kept, annotation)
    if kept is None:
        kept = Reading({}).read(annotation, place or _name_of(annotation))
        if _is_hashable(annotation) and not isinstance(annotation, str):
            _kept[annotation] = kept
    return kept


class Reading:
    """One reading, with the classes that are being read further out."""

    def __init__(self, open_types: dict[object, ValueType | ObjectType]) -> None:
        self._open = open_types

    def read(self, annotation: object, place: str) -> ValueType:
        """Return the type of an annotation; ``place`` is where it was found."""
        if isinstance(annotation, Term):  # a type as data: its values are plain
            return typing.cast("ValueType", annotation)
        scalar = _lookup(_SCALARS, annotation)
        if scalar is not None:
            return scalar
        registered = find_plain_form(annotation)
        if registered is not None:
            return self.read(registered.annotation, place)
        if isinstance(annotation, TypeVar):
            return Parameter(annotation.__name__)
        if isinstance(annotation, typing.NewType):
            return self.read(annotation.__supertype__, place)
        given = getattr(annotation, "__live_value_type__", None)
        if given is not None:
            return typing.cast("ValueType", given)
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._read_alias(annotation, origin, typing.get_args(annotation), place)
        if isinstance(annotation, type):
            return self._read_class(annotation, annotation, place)
        if isinstance(annotation, str | typing.ForwardRef):
            raise UnreadableAnnotationError(place, str(annotation), "it is not resolved")
        reason = "a function cannot be sent" if callable(annotation) else "it is not a type"
        raise NotAnEventTypeError(place, _name_of(annotation), reason)

    def _read_alias(
        self, annotation: object, origin: Any, arguments: tuple[Any, ...], place: str
    ) -> ValueType:
        if origin in {typing.Union, types.UnionType}:
            members = [one for one in arguments if one is not msgspec.UnsetType]
            return union(*(self.read(one, place) for one in members))
        if origin is typing.Literal:
            return self._read_literal(arguments, place)
        if origin in _WRAPPERS:
            return self.read(arguments[0], place)
        if origin is tuple:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return ListOf(self.read(arguments[0], f"{place}[…]"))
            items = (self.read(one, f"{place}[{n}]") for n, one in enumerate(arguments))
            return TupleOf(tuple(items))
        if origin in _LISTS:
            return ListOf(self.read(arguments[0], f"{place}[…]"))
        if origin in _SETS:
            return SetOf(self.read(arguments[0], f"{place}[…]"))
        if origin in _DICTS:
            key, value = arguments
            return DictOf(self.read(key, f"{place} key"), self.read(value, f"{place}[…]"))
        if getattr(origin, "__live_reference__", False):
            return self._read_reference(arguments[0], place)
        if isinstance(origin, type) and origin is not type and _is_record(origin):
            return self._read_class(annotation, origin, place)
        reason = "a function cannot be sent" if origin is collections.abc.Callable else _NO_FIELDS
        raise NotAnEventTypeError(place, _name_of(annotation), reason)

    def _read_reference(self, target: object, place: str) -> ValueType:
        from quicksilver.live.types.declare import read_object_type

        if isinstance(target, TypeVar):
            return ReferenceOf(Parameter(target.__name__))
        key = ("reference", target)
        known = self._open.get(key)
        if known is not None:
            assert not isinstance(known, ObjectType)
            return known

        def body(itself: ValueType) -> ValueType:
            inner = Reading({**self._open, key: itself})
            return ReferenceOf(read_object_type(target, inner, place))

        return recursive(_name_of(target), body)

    def _read_literal(self, values: tuple[Any, ...], place: str) -> ValueType:
        plain = [_plain_literal(one, place) for one in values if one is not None]
        literal = LiteralOf(tuple(plain))
        return literal if len(plain) == len(values) else optional(literal)

    def _read_class(self, annotation: object, cls: type, place: str) -> ValueType:
        if issubclass(cls, enum.Enum):
            values = tuple(_plain_literal(member, place) for member in cls)
            return LiteralOf(values, cls.__name__)
        if cls is tuple or cls in _LISTS:
            return ListOf(ANY)
        if cls in _SETS:
            return SetOf(ANY)
        if cls in _DICTS:
            return DictOf(ANY, ANY)
        if not _is_record(cls):
            function = issubclass(cls, (*_FUNCTIONS, collections.abc.Callable))  # type: ignore[arg-type]  # an abstract class like any other
            reason = "a function cannot be sent" if function else _NO_FIELDS
            raise NotAnEventTypeError(place, _name_of(annotation), reason)
        known = self._open.get(annotation)
        if known is not None:
            assert not isinstance(known, ObjectType)
            return known

        def body(itself: ValueType) -> ValueType:
            inner = Reading({**self._open, annotation: itself})
            return inner._read_fields(annotation, cls)

        return recursive(cls.__name__, body)

    def _read_fields(self, annotation: object, cls: type) -> StructOf:
        fields = [
            Field(name, self.read(type_, f"{cls.__name__}.{name}"), required)
            for name, (type_, required) in record_fields(annotation).items()
        ]
        config = getattr(cls, "__struct_config__", None)
        closed = bool(config and config.forbid_unknown_fields) or _is_final(cls)
        doc = (cls.__doc__ or "").strip().split("\n")[0]
        # A dataclass without a docstring has its signature there.
        return StructOf(
            tuple(fields), closed, cls.__name__, "" if doc.startswith(cls.__name__) else doc
        )


_NO_FIELDS = (
    "its structure cannot be read: make it a msgspec.Struct or a dataclass, or register_class it"
)


def record_fields(annotation: object) -> dict[str, tuple[Any, bool]]:
    """Return the fields of a record class or of its alias: annotation, and whether required."""
    origin = typing.get_origin(annotation) or annotation
    assert isinstance(origin, type)
    if issubclass(origin, msgspec.Struct):
        infos = msgspec.structs.fields(typing.cast("Any", annotation))
        return {info.name: (info.type, info.required) for info in infos}
    hints = resolve_hints(origin)
    given = bind_variables(annotation)
    if typing.is_typeddict(origin):
        required: frozenset[str] = getattr(origin, "__required_keys__", frozenset())
        # Where annotations are text, the class itself does not see what is not required.
        found = {
            name: (type_, name in required and typing.get_origin(type_) is not typing.NotRequired)
            for name, type_ in hints.items()
        }
    elif dataclasses.is_dataclass(origin):
        missing = dataclasses.MISSING
        found = {
            one.name: (hints[one.name], one.default is missing and one.default_factory is missing)
            for one in dataclasses.fields(origin)
            if one.init
        }
    else:
        defaults: Mapping[str, object] = getattr(origin, "_field_defaults", {})
        names: tuple[str, ...] = getattr(origin, "_fields", ())
        found = {name: (hints[name], name not in defaults) for name in names}
    return {name: (put_variables(type_, given), needed) for name, (type_, needed) in found.items()}


def resolve_hints(thing: Any) -> dict[str, Any]:
    """Return resolved annotations, or raise UnreadableAnnotationError."""
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise UnreadableAnnotationError(_name_of(thing), "", str(error)) from None


def bind_variables(annotation: object) -> dict[Any, Any]:
    """Return what an alias such as ``Message[int]`` gives for the class's type variables."""
    origin = typing.get_origin(annotation)
    variables = getattr(origin, "__parameters__", ())
    return dict(zip(variables, typing.get_args(annotation), strict=False))


def put_variables(annotation: Any, given: Mapping[Any, Any]) -> Any:
    """Return an annotation with type variables replaced by what was given for them."""
    if not given:
        return annotation
    if isinstance(annotation, TypeVar):
        return given.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if variables and typing.get_origin(annotation) is not None:
        return annotation[tuple(given.get(one, one) for one in variables)]
    return annotation


def _plain_literal(value: Any, place: str) -> LiteralValue:
    plain = value.value if isinstance(value, enum.Enum) else value
    if isinstance(plain, bool):
        return plain
    if isinstance(plain, int):
        return int(plain)
    if isinstance(plain, str):
        return str(plain)
    raise NotAnEventTypeError(place, repr(value), "its value is not a number, a text or a truth")


def _is_record(cls: type) -> bool:
    return (
        issubclass(cls, msgspec.Struct)
        or dataclasses.is_dataclass(cls)
        or typing.is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )


def _is_final(cls: type) -> bool:
    return bool(cls.__dict__.get("__final__", False))


def _name_of(thing: object) -> str:
    if isinstance(thing, type):
        return thing.__qualname__
    return str(thing)


def _is_hashable(thing: object) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _lookup(table: Mapping[object, ValueType], key: object) -> ValueType | None:
    return table.get(key) if _is_hashable(key) else None
