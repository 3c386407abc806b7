"""Who is there, with a name and a status."""

from __future__ import annotations

from typing import Protocol

import msgspec

from quicksilver.live.components.infrastructure.lock import ChannelWithParticipants
from quicksilver.live.components.infrastructure.replicated import Replicated
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

TEXT_MAX = 1000


class Person(msgspec.Struct, frozen=True):
    """One who is there."""

    participant: str
    name: str
    status: str


_PEOPLE = msgspec.msgpack.Decoder(list[Person])
_PERSON = msgspec.msgpack.Decoder(Person)


class PresenceRequests(Protocol):
    """What a presence takes."""

    def announce(self, name: str, status: str) -> None:
        """Be seen by all, from now on, with this name and status."""


class PresenceNews(Protocol):
    """What a presence gives."""

    def present(self, people: list[Person]) -> None:
        """Take all who announced themselves and are there, in the order they came."""


@component("quicksilver.presence", type_name="Presence")
@live_object(title="Presence")
class Presence:
    """who is there: names and statuses of all participants that announced themselves

    Whoever closes its proxy, crashes or is cut off disappears for all others at the
    same place among the changes; who comes back is announced again by itself.
    """

    context: Context
    presence = endpoint(PresenceRequests, PresenceNews, name="Presence")

    def __init__(self, channel: Given[Ref[ChannelWithParticipants]]) -> None:
        self._channel = channel
        self._people: dict[str, Person] = {}
        self._me = ""
        self._mine: tuple[str, str] | None = None
        self._state = Replicated(
            self.context,
            initialize=self._initialize,
            receive=self._receive,
            capture=lambda: msgspec.msgpack.encode(list(self._people.values())),
            participants=self._take_participants,
        )

    async def start(self) -> None:
        """Open the channel."""
        await self._state.open(self._channel)

    # The channel

    def _initialize(self, state: bytes | None) -> None:
        people = [] if state is None else _PEOPLE.decode(state)
        self._people = {person.participant: person for person in people}

    def _receive(self, update: bytes) -> None:
        person = _PERSON.decode(update)
        if self._people.get(person.participant) != person:
            self._people[person.participant] = person
            self._tell()

    def _take_participants(self, names: list[str], me: str) -> None:
        there = set(names)
        self._people = {who: one for who, one in self._people.items() if who in there}
        if me != self._me:
            self._me = me
            self._say()
        self._tell()

    def _say(self) -> None:
        if self._mine is not None and self._me:
            self._state.send(msgspec.msgpack.encode(Person(self._me, *self._mine)))

    def _tell(self) -> None:
        self.presence.present(list(self._people.values()))

    # Users

    def presence_connected(self) -> None:
        if self._state.is_ready:
            self._tell()

    def presence_announce(self, name: str, status: str) -> None:
        if len(name) > TEXT_MAX or len(status) > TEXT_MAX:
            raise ValueError(f"name and status have at most {TEXT_MAX} characters each")
        self._mine = (name, status)
        self._say()
