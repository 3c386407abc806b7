"""What is known of a protocol instance at one place, and what members of a domain tell each other.

All of it is immutable. A ``Domain`` stands for a node as well, which is a domain without members.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quicksilver.properties.values.kinds import Value


class Version(NamedTuple):
    """How fresh a value is. Only versions of one height are compared."""

    height: int
    """Which domain computed the value: 0 for a node, 1 for the domain around it, and so on."""
    view: int
    """The view of that domain; of a node its incarnation."""
    round: int
    """The round in that view; of a node: which of its changes."""


class Certificate(NamedTuple):
    """Where a value comes from, by names (dissertation 3.2.15). The protocol never looks at one:
    simulations make them to see that guarantees hold."""

    name: str
    version: Version
    members: tuple[Certificate, ...]
    """Certificates of the values that were put together, by name."""

    def parts(self) -> Iterator[Certificate]:
        yield self
        for member in self.members:
            yield from member.parts()


class Slot(NamedTuple):
    """An instance of a property."""

    value: Value | None
    """None: absent."""
    version: Version
    certificate: Certificate | None = None


class Standing(enum.IntEnum):
    """What a domain is to the one around it."""

    UNKNOWN = 0
    """Its agent is new, and has not yet heard whether it is regular."""
    LIGHT = 1
    """It is told everything, and does not count."""
    REGULAR = 2
    """It has fulfilled the conditions, and counts."""


class Domain(NamedTuple):
    """A node, or a domain as the agent that leads it knows it."""

    name: str
    """Of a node its address; of a domain its name in the hierarchy."""
    height: int
    """0: a node."""
    address: str
    """The node itself, or the one that speaks for the domain."""
    slots: tuple[Slot, ...]
    """By the positions of the plan's properties."""
    view: int
    """Of its members; of a node its incarnation."""

    # As a member of the domain around it

    standing: Standing
    seen: tuple[int, int] = (0, 0)
    """View and round of the last word that it took."""
    above: tuple[Standing, ...] = ()
    """Standing of the domain around it, of the one around that, and so on, as last heard while
    regular."""

    # As the leader of its members; a node only counts its changes

    round: int = 0
    """The last one that was opened; of a node: its last change."""
    is_settled: bool = False
    """A round in which all took part has ended in this view."""
    is_beginning: bool = False
    """In the last round all took part, and none was regular: the protocol begins here."""
    compared: tuple[tuple[str, tuple[Value | None, ...]], ...] = ()
    """Members' addresses and values for rules between halves, as of the last round."""


class Word(NamedTuple):
    """What a leader says to the members of its domain in a round."""

    view: int
    round: int
    is_beginning: bool
    """Conditions are to be evaluated against initial values."""
    standings: tuple[Standing, ...]
    """Of this domain, and of those around it, as far as known."""
    slots: tuple[Slot, ...]
    """Of the properties that the plan announces, in its order."""
    compared: tuple[tuple[str, tuple[Value | None, ...]], ...] = ()


class Gathered(NamedTuple):
    """The values of one property that regular members gave, put together."""

    value: Value | None
    givers: int
    """How many gave one."""
    certificates: tuple[Certificate, ...] = ()


class Report(NamedTuple):
    """What some members of a domain answer. Sets of members are bits, by their places."""

    heard: int
    regular: int
    unknown: int
    latest: int
    """The latest round of this view that one of them knew of before."""
    above: tuple[Standing, ...]
    """The highest of what regular ones remember of the domain and those around it."""
    gathered: tuple[Gathered, ...]
    """By the program's aggregations."""
    is_changed: bool
    """Something is not as it was in the round before."""
    compared: tuple[tuple[str, tuple[Value | None, ...]], ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """An event to the application has happened at a node."""

    event: int
    """Position among the plan's requests."""
    arguments: tuple[Value, ...]


class Restless(msgspec.Struct, frozen=True):
    """Bindings went on changing what other bindings wait for, and were stopped."""

    properties: tuple[int, ...]
    """What still changed."""


Output = Asked | Restless
