"""A library that describes a channel: msgspec structs, English names."""

from __future__ import annotations

import enum
from typing import Generic, Protocol, TypeVar

import msgspec

from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

M = TypeVar("M")


class Priority(enum.Enum):
    """How urgent a note is."""

    LOW = "low"
    HIGH = "high"


class Author(msgspec.Struct, frozen=True):
    """Who wrote a note."""

    name: str
    tags: tuple[str, ...] = ()


class Note(msgspec.Struct, frozen=True):
    """What the channel carries."""

    text: str
    author: Author
    priority: Priority = Priority.LOW
    replies: tuple[Note, ...] = ()


class Sender(Protocol[M]):
    """What a channel can be asked."""

    def send(self, message: M) -> None:
        """Send to everybody."""


class Receiver(Protocol[M]):
    """What a channel tells."""

    def receive(self, sender: str, message: M) -> None:
        """Somebody sent this."""

    def closed(self) -> None:
        """Nothing more will come."""


@live_object
class Registry:
    """Where channels are found."""

    registry = endpoint(None, Receiver[str])


@live_object(provides=[("cardinality", "at most 9 instances of channel")])
class Channel(Generic[M]):
    """A reliable channel of messages of one type."""

    channel = endpoint(
        Sender[M],
        Receiver[M],
        provides=[("delivery", "total and at-most-once")],
        requires=[("temporal", "send -> once connect")],
    )

    def __init__(self, registry: Given[Ref[Registry]]) -> None:
        self.found_in = registry


class NoteChannel(Channel[Note]):
    """A channel of notes."""
