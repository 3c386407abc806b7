"""Another library that describes the same channel: dataclasses, its own names and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from quicksilver.live.types.declare import endpoint, live_object


class Verfasser(NamedTuple):
    """Who wrote it."""

    name: str
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notiz:
    """What is carried."""

    author: Verfasser
    text: str
    replies: list[Notiz] = field(default_factory=list)
    priority: Literal["low", "high"] = "low"


class Hoerer(Protocol):
    """What comes in."""

    def receive(self, message: Notiz, sender: str) -> None:
        """Take what somebody sent."""

    def closed(self) -> None:
        """Stop."""


class Sprecher(Protocol):
    """What goes out."""

    def send(self, notiz: Notiz) -> None:
        """Send to all."""


@live_object
class Brett:
    """Shows notes; wants a channel."""

    channel = endpoint(
        Hoerer,
        Sprecher,
        provides=[("temporal", "once connect")],
        requires=[("delivery", "fifo")],
    )
