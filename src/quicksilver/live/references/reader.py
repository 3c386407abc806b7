"""What all reading of elements shares: places, known attributes and children, typed refusals."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from quicksilver.live.references.elements import Element
from quicksilver.live.references.errors import (
    BadTypeTextError,
    MalformedReferenceError,
    Place,
    UnfitReferenceError,
)
from quicksilver.live.references.names import show_name
from quicksilver.live.types.errors import LiveTypeError

_T = TypeVar("_T")
_P = ParamSpec("_P")
_INTEGER = re.compile(r"-?[0-9]{1,80}")
_REAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")


class Reader:
    """Walks one document; every refusal names the element it is about."""

    def __init__(self, source: str = "") -> None:
        self.source = source
        self.places: dict[str, Place] = {}
        self._namesakes: dict[str, int] = {}

    def enter(self, element: Element, path: str) -> str:
        """Note where a part was found; returns its path, numbered if another has the same."""
        unique = path
        if path in self.places:
            count = self._namesakes[path] = self._namesakes.get(path, 1) + 1
            unique = f"{path}#{count}"
        self.places[unique] = Place(unique, element.line, element.column, self.source)
        return unique

    def fail(self, element: Element, path: str, problem: str) -> MalformedReferenceError:
        """Return the error that says what is wrong with this element."""
        return MalformedReferenceError(
            Place(path, element.line, element.column, self.source), problem
        )

    def take(
        self, element: Element, path: str, required: Iterable[str], optional: Iterable[str] = ()
    ) -> dict[str, str]:
        """Return the attributes; each must be known and those required present."""
        given = element.attributes
        required = tuple(required)
        for name in required:
            if name not in given:
                raise self.fail(element, path, f"<{element.tag}> lacks the attribute {name!r}")
        for name in given:
            if name not in required and name not in optional:
                raise self.fail(
                    element, path, f"<{element.tag}> has no attribute {name.split(' ')[-1]!r}"
                )
        return given

    def children(self, element: Element, path: str, allowed: Iterable[str] = ()) -> list[Element]:
        """Return the children; each must be allowed, with nothing but space between them."""
        if element.text and not element.text.isspace():
            shown = " ".join(element.text.split())[:40]
            raise self.fail(element, path, f"<{element.tag}> holds the text {shown!a}")
        allowed = tuple(allowed)
        for child in element.children:
            if child.tag not in allowed:
                expected = f"; expected {' or '.join(allowed)}" if allowed else ""
                raise self.fail(
                    child, path, f"<{child.tag}> does not belong into <{element.tag}>{expected}"
                )
        return element.children

    def only(self, element: Element, path: str, allowed: Iterable[str], what: str) -> Element:
        """Return the one child."""
        found = self.children(element, path, allowed)
        if len(found) != 1:
            raise self.fail(element, path, f"<{element.tag}> needs one {what}, not {len(found)}")
        return found[0]

    def distinct(self, elements: Iterable[Element], path: str, what: str) -> None:
        """Refuse the second of two elements of one name."""
        seen: set[str] = set()
        for element in elements:
            name = element.attributes.get("name", "")
            if name in seen:
                raise self.fail(element, path, f"two {what}s are called {show_name(name)!r}")
            seen.add(name)

    def text(self, element: Element, path: str) -> str:
        """Return the text of an element that holds nothing else."""
        if element.children:
            raise self.fail(element, path, f"<{element.tag}> holds text alone")
        return element.text

    def make(
        self,
        element: Element,
        path: str,
        build: Callable[_P, _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Build a value; what its constructor refuses is wrong with this element."""
        try:
            return build(*args, **kwargs)
        except (UnfitReferenceError, BadTypeTextError, LiveTypeError, ValueError) as error:
            raise self.fail(element, path, str(error)) from None


def parse_integer(text: str) -> int:
    """Return a whole number written in decimal; raises ValueError."""
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(f"{text.strip()[:40]!a} is no whole number")
    return int(text)


def parse_real(text: str) -> float:
    """Return a number written in decimal; raises ValueError."""
    if not _REAL.fullmatch(text.strip()):
        raise ValueError(f"{text.strip()[:40]!a} is no number")
    return float(text)


def parse_flag(text: str) -> bool:
    """Return true or false; raises ValueError."""
    match text.strip():
        case "true":
            return True
        case "false":
            return False
        case other:
            raise ValueError(f"{other[:40]!a} is neither true nor false")


def parse_binary(text: str) -> bytes:
    """Return the bytes that base64 says; raises ValueError."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the text is no base64") from None
