"""Presence as an object: the people who share it, each with a name and a status."""

from __future__ import annotations

from typing import ClassVar, Protocol

import msgspec

from quicksilver.live.codec import STATE_BYTES_MAX, UPDATE_BYTES_MAX, Codec
from quicksilver.live.components.interfaces import ChannelWithParticipants
from quicksilver.live.components.shared_object import SharedByParticipants
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

TEXT_MAX = 1000


class Person(msgspec.Struct, frozen=True):
    """One who is there."""

    participant: str
    name: str
    status: str


class PresenceRequests(Protocol):
    """Events that users send to a presence."""

    def announce(self, name: str, status: str) -> None:
        """Be seen by all, from now on, with this name and status."""


class PresenceNews(Protocol):
    """Events that a presence sends to its users."""

    def present(self, people: list[Person]) -> None:
        """Take all who announced themselves and are there, in the order they came."""


@component("quicksilver.presence", type_name="Presence")
@live_object(title="Presence")
class Presence(SharedByParticipants[Person, list[Person]]):
    """who is there: names and statuses of all participants that announced themselves

    Whoever closes its proxy, crashes or is cut off disappears for all others at the
    same place among the changes; who comes back is announced again by itself.
    """

    updates: ClassVar = Codec[Person](Person, "an announcement", UPDATE_BYTES_MAX)
    states: ClassVar = Codec[list[Person]](list[Person], "a list of people", STATE_BYTES_MAX)

    presence = endpoint(PresenceRequests, PresenceNews, name="Presence")

    def __init__(self, channel: Given[Ref[ChannelWithParticipants]]) -> None:
        super().__init__(channel)
        self._people: dict[str, Person] = {}
        self._mine: tuple[str, str] | None = None

    # The state

    def load(self, state: list[Person] | None) -> None:
        """Begin with these people; users are told when the participants are known."""
        self._people = {person.participant: person for person in state or []}

    def save(self) -> list[Person]:
        return list(self._people.values())

    def apply(self, update: Person) -> None:
        """Let a participant be seen."""
        if self._people.get(update.participant) != update:
            self._people[update.participant] = update
            self._tell()

    def handle_participants(self, there: set[str], is_renamed: bool) -> None:
        """Forget who has gone, and announce ourselves again under another name."""
        self._people = {who: one for who, one in self._people.items() if who in there}
        if is_renamed:
            self._say()
        self._tell()

    def _say(self) -> None:
        if self._mine is not None and self.me:
            self.submit(Person(self.me, *self._mine))

    def _tell(self) -> None:
        self.presence.present(list(self._people.values()))

    # Users

    def presence_connected(self) -> None:
        if self.is_ready:
            self._tell()

    def presence_announce(self, name: str, status: str) -> None:
        if len(name) > TEXT_MAX or len(status) > TEXT_MAX:
            raise ValueError(f"name and status have at most {TEXT_MAX} characters each")
        self._mine = (name, status)
        self._say()
