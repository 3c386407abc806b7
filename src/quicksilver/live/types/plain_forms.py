"""How classes are made plain and back: those that are registered, and those with fields.

A date can be text, a matrix a list of lists: a library that registers how to make
a class plain and back can use it in events, next to libraries that know only the
plain form. One registration a class is enough for all others.

For classes with fields, front and back ends are written as Python code and compiled
once. Code that names every field takes 0.7 µs there and back for three fields; loops
over the names took 1.9 µs, and the limit for an event that is converted is 2 µs.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
P = TypeVar("P")


class PlainForm(msgspec.Struct, Generic[T, P], frozen=True):
    """How a class is made plain and back, and an annotation for the plain form."""

    annotation: Any
    to_plain: Callable[[T], P]
    from_plain: Callable[[P], T]


_plain_forms: dict[type, PlainForm[Any, Any]] = {}


def register_class(
    cls: type[T],
    annotation: type[P],
    *,
    to_plain: Callable[[T], P],
    from_plain: Callable[[P], T],
) -> None:
    """Let values of a class be used in events, as ``annotation`` when they are made plain.

    Register before the class is first read or converted: types once read are kept.
    """
    _plain_forms[cls] = PlainForm(annotation, to_plain, from_plain)


def find_plain_form(annotation: object) -> PlainForm[Any, Any] | None:
    """Return what was registered for a class, or None."""
    return _plain_forms.get(annotation) if isinstance(annotation, type) else None


Convert: TypeAlias = Callable[[Any], Any]


def make_front(
    names: tuple[str, ...], changes: Mapping[str, Convert], *, may_be_unset: bool
) -> Convert:
    """Return what makes a mapping from names to parts of a value's attributes."""
    _check_names(names)
    parts = ", ".join(f"{name!r}: {_changed(f'value.{name}', name, changes)}" for name in names)
    if not may_be_unset:
        return _compile(f"lambda value: {{{parts}}}", changes, {})
    return lambda value: change_fields(
        {name: part for name in names if (part := getattr(value, name)) is not msgspec.UNSET},
        changes,
    )


def make_back(
    cls: type, names: tuple[str, ...], changes: Mapping[str, Convert], *, may_be_absent: bool
) -> Convert:
    """Return what makes a value of a class from a mapping that has its fields, or more."""
    _check_names(names)
    by_position = _positional_parameters(cls) == names
    arguments = ", ".join(
        ("" if by_position else f"{name}=") + _changed(f"plain[{name!r}]", name, changes)
        for name in names
    )
    back = _compile(f"lambda plain: cls({arguments})", changes, {"cls": cls})
    if not may_be_absent:
        return back

    def back_or_default(plain: Mapping[str, Any]) -> Any:
        try:
            return back(plain)
        except KeyError:  # a field is absent: the class has a default for it
            present = {name: plain[name] for name in names if name in plain}
            return cls(**change_fields(present, changes))

    return back_or_default


def change_fields(plain: dict[str, Any], changes: Mapping[str, Convert]) -> dict[str, Any]:
    """Convert the fields that need it, in place."""
    for name, convert in changes.items():
        if name in plain:
            plain[name] = convert(plain[name])
    return plain


def _changed(expression: str, name: str, changes: Mapping[str, Convert]) -> str:
    return f"change_{name}({expression})" if name in changes else expression


def _compile(source: str, changes: Mapping[str, Convert], scope: dict[str, Any]) -> Convert:
    scope = {f"change_{name}": convert for name, convert in changes.items()} | scope
    made: Convert = eval(source, {"__builtins__": {}, **scope})  # noqa: S307  # only identifiers of Python classes are in it, checked below
    return made


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        assert name.isidentifier(), name
        assert not keyword.iskeyword(name), name


def _positional_parameters(cls: type) -> tuple[str, ...]:
    parameters = inspect.signature(cls).parameters.values()
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return tuple(one.name for one in parameters if one.kind is plain)
