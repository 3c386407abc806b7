"""Filters: which messages a channel carries.

"At runtime, each filter decides whether to forward and might optionally tag the message in
transit" (dissertation, Figure 3.12). A filter is a value: it comes from another scope's
manager over the network, so it is data, never code, and its size is bounded. Before use it
is compiled into a function that looks at one message.

A filter that draws lots does so from the message's number, so the same message is judged
alike wherever the same filter is, and again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, assert_never

import msgspec

from quicksilver.stdx.errors import QuicksilverError

DEPTH_MAX = 16
PARTS_MAX = 256
"""How deep filters may be nested, and how many one filter may consist of."""

TEXT_BYTES_MAX = 255
"""Names and values of attributes and tags."""

_MASK = (1 << 64) - 1


class Facts(NamedTuple):
    """What filters know of a message."""

    number: int
    """Its number among the messages of its sender to the topic."""
    attributes: Mapping[str, str]
    """What its sender says of it; and tags, once a filter has set some."""


class All(msgspec.Struct, frozen=True, tag="all"):
    """Every message."""


class Modulo(msgspec.Struct, frozen=True, tag="modulo"):
    """Every ``n``-th message: those whose number leaves ``remainder``."""

    n: int
    remainder: int


class Chance(msgspec.Struct, frozen=True, tag="chance"):
    """A part of the messages, drawn by lot. Filters with other salts draw other messages."""

    part: float
    salt: int = 0


class Attribute(msgspec.Struct, frozen=True, tag="attribute"):
    """Messages whose attribute has one of some values."""

    name: str
    values: tuple[str, ...]


class Both(msgspec.Struct, frozen=True, tag="both"):
    """Messages that pass all of several filters."""

    filters: tuple[Filter, ...]


class Tagged(msgspec.Struct, frozen=True, tag="tagged"):
    """Those that pass a filter, marked for filters that come after."""

    filter: Filter
    name: str
    value: str


Filter = All | Modulo | Chance | Attribute | Both | Tagged

ALL = All()


class BadFilterError(QuicksilverError, ValueError):
    """A filter that makes no sense, or that is too large."""


Passed = Mapping[str, str] | None
"""The attributes of a message that passes, tags included; None: it does not pass."""

Compiled = Callable[[Facts], Passed]


def compile_filter(rule: Filter) -> Compiled:
    """Return a function that says whether a message passes, and with which attributes.

    Raises ``BadFilterError``.
    """
    if _count(rule, 1) > PARTS_MAX:
        raise BadFilterError(f"a filter has more than {PARTS_MAX} parts")
    return _compile(rule)


def _count(rule: Filter, depth: int) -> int:
    """Return how many parts a filter has, each of which makes sense."""
    if depth > DEPTH_MAX:
        raise BadFilterError(f"a filter is nested more than {DEPTH_MAX} deep")
    match rule:
        case Modulo(n, remainder):
            if n < 1 or not 0 <= remainder < n:
                raise BadFilterError(f"modulo {n} leaves no remainder {remainder}")
        case Chance(part):
            if not 0.0 <= part <= 1.0:
                raise BadFilterError(f"a part of messages is between 0 and 1, not {part}")
        case Attribute(name, values):
            _check_texts(name, *values)
            return 1 + len(values)
        case Both(filters):
            return 1 + sum(_count(inner, depth + 1) for inner in filters)
        case Tagged(inner, name, value):
            _check_texts(name, value)
            return 1 + _count(inner, depth + 1)
        case All():
            pass
        case _:
            assert_never(rule)
    return 1


def _check_texts(*texts: str) -> None:
    for text in texts:
        if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
            raise BadFilterError(f"a name or value has more than {TEXT_BYTES_MAX} bytes")


def _compile(rule: Filter) -> Compiled:
    match rule:
        case All():
            return _pass
        case Modulo(n, remainder):
            return lambda facts: facts.attributes if facts.number % n == remainder else None
        case Chance(part, salt):
            limit = int(part * (1 << 64))
            mixed = _mix(salt & _MASK)
            return lambda facts: facts.attributes if _mix(facts.number ^ mixed) < limit else None
        case Attribute(name, values):
            wanted = frozenset(values)
            return lambda facts: facts.attributes if facts.attributes.get(name) in wanted else None
        case Both(filters):
            return _compile_both(tuple(map(_compile, filters)))
        case Tagged(inner, name, value):
            return _compile_tagged(_compile(inner), name, value)
        case _:
            assert_never(rule)


def _pass(facts: Facts) -> Passed:
    return facts.attributes


def _compile_both(filters: tuple[Compiled, ...]) -> Compiled:
    def passed(facts: Facts) -> Passed:
        attributes: Passed = facts.attributes
        for each in filters:
            if attributes is not facts.attributes:
                assert attributes is not None
                facts = Facts(facts.number, attributes)
            attributes = each(facts)
            if attributes is None:
                return None
        return attributes

    return passed


def _compile_tagged(inner: Compiled, name: str, value: str) -> Compiled:
    def passed(facts: Facts) -> Passed:
        attributes = inner(facts)
        return None if attributes is None else {**attributes, name: value}

    return passed


def _mix(number: int) -> int:
    """Return 64 bits that look random (the finish of splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)
