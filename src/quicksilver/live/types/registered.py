"""Classes that have no structure of their own to read, and what they are made plain as.

A date can be text, a matrix a list of lists: a library that registers how to make
a class plain and back can use it in events, next to libraries that know only the
plain form. One registration a class is enough for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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
