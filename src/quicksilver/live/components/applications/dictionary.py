"""Keys and values that many people put and remove."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol, TypeAlias, assert_never

import msgspec

from quicksilver.live.codec import (
    STATE_BYTES_MAX,
    UPDATE_BYTES_MAX,
    BadMessageError,
    Codec,
    Packed,
    check_plain,
)
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

ENTRIES_MAX: Final = 100_000
ENTRIES_BYTES_MAX: Final = 8 << 20
KEY_CHARACTERS_MAX: Final = 1000


class DictionaryRequests(Protocol):
    """Events that users send to a dictionary."""

    def put(self, key: str, value: Any) -> None:
        """Set a key to plain data; of two puts the later one counts, in one order for all."""

    def remove(self, key: str) -> None:
        """Remove a key; nothing happens if it is not there."""

    def clear(self) -> None:
        """Remove all keys."""


class DictionaryChanges(Protocol):
    """Events that a dictionary sends to its users."""

    def snapshot(self, entries: dict[str, Any]) -> None:
        """Take everything: at the beginning, and when the channel starts anew."""

    def changed(self, key: str, value: Any) -> None:
        """Hear that a key was set."""

    def removed(self, key: str) -> None:
        """Hear that a key was removed."""

    def cleared(self) -> None:
        """Hear that all keys were removed."""

    def refused(self, reason: str) -> None:
        """Hear that a request was not carried out."""


class Put(Packed, frozen=True, tag="put"):
    """Set a key."""

    key: str
    value: Any


class Removed(Packed, frozen=True, tag="remove"):
    """Remove a key."""

    key: str


class Cleared(Packed, frozen=True, tag="clear"):
    """Remove all keys."""


Update: TypeAlias = Put | Removed | Cleared


@component("quicksilver.dictionary", type_name="Dictionary")
@live_object(title="Dictionary")
class Dictionary(SharedObject[Update, dict[str, Any]]):
    """keys and values that many people put and remove

    Values are plain data. At most 100,000 keys and 8 MiB; what would go past that
    is refused by every participant alike.
    """

    updates: ClassVar = Codec[Update](Update, "a change", UPDATE_BYTES_MAX)
    states: ClassVar = Codec[dict[str, Any]](dict[str, Any], "a dictionary", STATE_BYTES_MAX)

    dictionary = endpoint(
        DictionaryRequests, DictionaryChanges, provides=[("delivery", "total")], name="Dictionary"
    )

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self._entries: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    # The user

    def dictionary_put(self, key: str, value: Any) -> None:
        """Set a key for everybody."""
        try:
            _check_entry(key, value)
        except BadMessageError as error:
            self.refuse(str(error))
            return
        self.submit(Put(key, value))

    def dictionary_remove(self, key: str) -> None:
        """Remove a key for everybody."""
        self.submit(Removed(key))

    def dictionary_clear(self) -> None:
        """Remove all keys for everybody."""
        self.submit(Cleared())

    def dictionary_connected(self) -> None:
        """Begin with all that is there."""
        if self.is_ready:
            self.announce()

    # The state

    def load(self, state: dict[str, Any] | None) -> None:
        self._empty()
        for key, value in (state or {}).items():
            self._set(key, value)

    def save(self) -> dict[str, Any]:
        return self._entries

    def apply(self, update: Update) -> None:
        match update:
            case Put(key, value):
                self._set(key, value)
                self.dictionary.changed(key, value)
            case Removed(key):
                if key in self._entries:
                    del self._entries[key]
                    self._bytes -= self._sizes.pop(key)
                    self.dictionary.removed(key)
            case Cleared():
                self._empty()
                self.dictionary.cleared()
            case _:
                assert_never(update)

    def announce(self) -> None:
        self.dictionary.snapshot(dict(self._entries))

    def refuse(self, reason: str) -> None:
        self.dictionary.refused(reason)

    def _empty(self) -> None:
        self._entries.clear()
        self._sizes.clear()
        self._bytes = 0

    def _set(self, key: str, value: Any) -> None:
        _check_entry(key, value)
        size = len(msgspec.msgpack.encode((key, value)))
        grown = self._bytes + size - self._sizes.get(key, 0)
        if grown > ENTRIES_BYTES_MAX or (
            len(self._entries) >= ENTRIES_MAX and key not in self._entries
        ):
            raise BadMessageError("the dictionary", "is full")
        self._bytes = grown
        self._sizes[key] = size
        self._entries[key] = value


def _check_entry(key: str, value: Any) -> None:
    if len(key) > KEY_CHARACTERS_MAX:
        raise BadMessageError("a key", f"has more than {KEY_CHARACTERS_MAX} characters")
    check_plain(value)
