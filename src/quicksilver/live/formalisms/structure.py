"""What a formula may talk about: the mechanical part of a type (2.1.3).

Endpoints and events by name, and whether an event comes in or goes out. Two
endpoints that are connected see the same event from opposite sides, so the
structure of one can be flipped: formulas of both are then about one side.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from quicksilver.live.types.model import (
    NONE,
    EndpointType,
    EventType,
    ObjectType,
    Parameter,
)

Direction: TypeAlias = Literal["in", "out", ""]
"""As its owner sees an event; connecting and disconnecting have no direction."""

CONNECT = "connect"
DISCONNECT = "disconnect"

_OPPOSITE: dict[Direction, Direction] = {"in": "out", "out": "in", "": ""}


class Place(msgspec.Struct, frozen=True, order=True):
    """A kind of event: of which endpoint ("" is the only one), which way, its name."""

    endpoint: str
    direction: Direction
    name: str

    def __str__(self) -> str:
        endpoint = f"{self.endpoint}." if self.endpoint else ""
        direction = f"{self.direction}." if self.direction else ""
        return f"{endpoint}{direction}{self.name}"


class Structure(msgspec.Struct, frozen=True):
    """The events that formulas of one type may name, seen from one side."""

    events: dict[Place, EventType]
    endpoints: tuple[str, ...]
    """Names of an object's endpoints; empty when formulas are about one endpoint."""
    key: bytes
    """The same for the same structure: formulas are kept under it."""
    flipped: bool = False

    def find(self, endpoint: str, direction: Direction, name: str) -> list[Place]:
        """Return the kinds of events that a formula means by a name, on the side we see it from."""
        if name in {CONNECT, DISCONNECT} and not direction:
            return [Place(endpoint, "", name)]
        wanted: tuple[Direction, ...] = (direction,) if direction else ("in", "out")
        return [
            self.seen(place)
            for way in wanted
            if (place := Place(endpoint, way, name)) in self.events
        ]

    def seen(self, place: Place) -> Place:
        """Return a place of the owner as it is called from the side we look from."""
        if not self.flipped:
            return place
        return Place(place.endpoint, _OPPOSITE[place.direction], place.name)

    def event_at(self, place: Place) -> EventType:
        """Return the type of the event at a place that ``find`` returned."""
        if place.direction == "":
            return EventType(place.name, NONE)
        return self.events[self.seen(place)]

    @property
    def names(self) -> list[str]:
        """Return what can be named, sorted, for messages."""
        return sorted({str(Place(p.endpoint, "", p.name)) for p in self.events})


def endpoint_structure(type_: EndpointType, *, flipped: bool = False) -> Structure:
    """Return what constraints of an endpoint type may talk about."""
    events = _events_of("", type_)
    return Structure(events, (), type_.digest + bytes([flipped]), flipped)


def object_structure(type_: ObjectType) -> Structure:
    """Return what constraints of an object type may talk about: events of all its endpoints."""
    events: dict[Place, EventType] = {}
    for endpoint in type_.endpoints:
        if not isinstance(endpoint.type, Parameter):
            events |= _events_of(endpoint.name, endpoint.type)
    return Structure(events, tuple(one.name for one in type_.endpoints), type_.digest)


def _events_of(endpoint: str, type_: EndpointType) -> dict[Place, EventType]:
    incoming = {Place(endpoint, "in", event.name): event for event in type_.inputs}
    outgoing = {Place(endpoint, "out", event.name): event for event in type_.outputs}
    return incoming | outgoing
