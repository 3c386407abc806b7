"""A replicated dictionary of texts to bytes."""

from __future__ import annotations

from typing import Protocol

import msgspec

from quicksilver.live.components.infrastructure.replicated import Replicated
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

KEY_BYTES_MAX = 1024
VALUE_BYTES_MAX = 1 << 20
ENTRIES_MAX = 1_000_000

_STATES = msgspec.msgpack.Decoder(dict[str, bytes])


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A key's new value; None: it has none any more."""

    key: str
    value: bytes | None


_CHANGES = msgspec.msgpack.Decoder(Change)


class KeyValueRequests(Protocol):
    """What a dictionary takes."""

    def put(self, key: str, value: bytes) -> None:
        """Set a value; all replicas see changes in the same order."""

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""

    def get(self, key: str) -> None:
        """Ask for a value; answered when the state is here."""


class KeyValueNews(Protocol):
    """What a dictionary gives."""

    def loaded(self, entries: dict[str, bytes]) -> None:
        """Start from these entries; comes first, and again after this node was counted out."""

    def changed(self, key: str, value: bytes | None) -> None:
        """A value was set, or None: removed."""

    def value(self, key: str, value: bytes | None) -> None:
        """Answer ``get``: what this replica has now."""


class EntryError(ValueError):
    """A key or value that is too large."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what, self.limit = what, limit

    def __str__(self) -> str:
        return f"the {self.what} of an entry has at most {self.limit} bytes: make it shorter"


@component("quicksilver.key-value", type_name="KeyValue")
@live_object(title="KeyValue")
class KeyValue:
    """a dictionary that all who open it share, over a checkpointed channel

    Writes are ordered; the last one counts, everywhere. Reads are of this replica,
    which may not have seen the newest writes yet. At a million entries new keys
    are not taken, by any replica.
    """

    context: Context
    entries = endpoint(KeyValueRequests, KeyValueNews, name="KeyValue")

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        self._channel = channel
        self._entries: dict[str, bytes] = {}
        self._state = Replicated(
            self.context,
            initialize=self._initialize,
            receive=self._receive,
            capture=lambda: msgspec.msgpack.encode(self._entries),
        )

    async def start(self) -> None:
        """Open the channel."""
        await self._state.open(self._channel)

    # The channel

    def _initialize(self, state: bytes | None) -> None:
        self._entries = {} if state is None else _STATES.decode(state)
        self.entries.loaded(dict(self._entries))

    def _receive(self, update: bytes) -> None:
        change = _CHANGES.decode(update)
        if change.value is None:
            if self._entries.pop(change.key, None) is None:
                return
        elif change.key in self._entries or len(self._entries) < ENTRIES_MAX:
            self._entries[change.key] = change.value
        else:
            return
        self.entries.changed(change.key, change.value)

    # Users

    def entries_connected(self) -> None:
        if self._state.is_ready:
            self.entries.loaded(dict(self._entries))

    def entries_put(self, key: str, value: bytes) -> None:
        if len(key.encode()) > KEY_BYTES_MAX:
            raise EntryError("key", KEY_BYTES_MAX)
        if len(value) > VALUE_BYTES_MAX:
            raise EntryError("value", VALUE_BYTES_MAX)
        self._state.send(msgspec.msgpack.encode(Change(key, value)))

    def entries_remove(self, key: str) -> None:
        self._state.send(msgspec.msgpack.encode(Change(key, None)))

    def entries_get(self, key: str) -> None:
        self._state.when_ready(lambda: self.entries.value(key, self._entries.get(key)))
