"""What a channel is made of: where its messages go in the end.

"We define a channel as one of the following: an address/protocol pair, a reference to an
external multicast mechanism, or a set of sub-channels accompanied by filters" (dissertation
3.2.4, Figures 3.10 to 3.12). Whoever sends along a channel asks the filters, from the root
down, and is left with the places that this message goes to.

A description comes from another scope and is bounded in depth and size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from quicksilver.scopes.dissemination.filters import BadFilterError, Facts, Filter, compile_filter
from quicksilver.scopes.names import Address, Name
from quicksilver.stdx.errors import QuicksilverError

DEPTH_MAX = 16
PLACES_MAX = 1024
"""How deep channels may be nested, and to how many places one may lead."""


class Link(msgspec.Struct, frozen=True, tag="link"):
    """A node, and how to reach it: ``tcp``, ``127.0.0.1:7402``."""

    protocol: Name
    address: Address
    node: Name
    """The name of the node, which it must prove."""


class External(msgspec.Struct, frozen=True, tag="external"):
    """A mechanism of its own that reaches all who listen: ``qsm`` and a group, for example."""

    mechanism: Name
    name: Address


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A sub-channel, and which messages it carries."""

    filter: Filter
    channel: Description


class Split(msgspec.Struct, frozen=True, tag="split"):
    """Sub-channels; a message goes along each whose filter it passes."""

    parts: tuple[Part, ...]


Description = Link | External | Split
Place = Link | External


class BadChannelError(QuicksilverError, ValueError):
    """A description of a channel that makes no sense, or that is too large."""


Sent = tuple[Place, Mapping[str, str]]
"""Where a message goes, and the attributes that it has there."""

Compiled = Callable[[Facts], list[Sent]]


def compile_channel(description: Description) -> Compiled:
    """Return a function that says where a message goes. Raises ``BadChannelError``.

    A place that several sub-channels lead to gets a message once, with the attributes of the
    first of them.
    """
    places = count_places(description)
    if places > PLACES_MAX:
        raise BadChannelError(f"a channel leads to {places} places, {PLACES_MAX} are allowed")
    if isinstance(description, Link | External):
        place = description
        return lambda facts: [(place, facts.attributes)]
    try:
        collect = _compile_split(description)
    except BadFilterError as error:
        raise BadChannelError(f"a filter of a channel is wrong: {error}") from None

    def choose(facts: Facts) -> list[Sent]:
        found: dict[Place, Mapping[str, str]] = {}
        collect(facts, found)
        return list(found.items())

    return choose


def count_places(description: Description, depth: int = 1) -> int:
    """Return to how many places a channel leads, the same one counted each time."""
    if depth > DEPTH_MAX:
        raise BadChannelError(f"a channel is nested more than {DEPTH_MAX} deep")
    if not isinstance(description, Split):
        return 1
    if not description.parts:
        raise BadChannelError("a channel that is split has no parts")
    return sum(count_places(part.channel, depth + 1) for part in description.parts)


Found = dict[Place, Mapping[str, str]]


def _compile_split(split: Split) -> Callable[[Facts, Found], None]:
    parts = [(compile_filter(part.filter), _compile_part(part.channel)) for part in split.parts]

    def collect(facts: Facts, found: Found) -> None:
        for passes, go in parts:
            attributes = passes(facts)
            if attributes is None:
                continue
            if attributes is facts.attributes:
                go(facts, found)
            else:
                go(Facts(facts.number, attributes), found)

    return collect


def _compile_part(channel: Description) -> Callable[[Facts, Found], None]:
    if isinstance(channel, Split):
        return _compile_split(channel)
    place = channel

    def collect(facts: Facts, found: Found) -> None:
        found.setdefault(place, facts.attributes)

    return collect
