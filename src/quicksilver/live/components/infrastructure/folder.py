"""A shared folder of references: what external references lead through (2.1.5 B)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from quicksilver.live.components.infrastructure.replicated import Replicated
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.references.model import Reference
from quicksilver.live.references.standard import ANY_OBJECT, FOLDER_ENDPOINT
from quicksilver.live.references.xml import parse, write
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.folders import FolderAnswers, FolderRequests
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

NAME_MAX = 255
ITEMS_MAX = 100_000


class Put(msgspec.Struct, frozen=True, array_like=True):
    """A name's new reference, as XML; None: it is removed."""

    name: str
    xml: bytes | None


_PUTS = msgspec.msgpack.Decoder(Put)
_STATES = msgspec.msgpack.Decoder(dict[str, bytes])


class EditRequests(Protocol):
    """What a shared folder takes from who edits it."""

    def put(self, name: str, reference: Ref[ANY_OBJECT]) -> None:  # type: ignore[valid-type]
        """Keep a reference under a name, in place of what was there."""

    def remove(self, name: str) -> None:
        """Keep nothing under a name."""

    def list(self) -> None:
        """Ask for all names; answered when the state is here."""


class EditNews(Protocol):
    """What a shared folder tells who edits it."""

    def names(self, names: list[str]) -> None:
        """Answer ``list``: all names, sorted."""

    def changed(self, name: str) -> None:
        """What is kept under a name is another now, or nothing."""


@component("quicksilver.folder", type_name="SharedFolder")
@live_object(title="SharedFolder")
class SharedFolder:
    """a folder of references that all who open it share, over a checkpointed channel"""

    context: Context
    folder = endpoint(FolderRequests, FolderAnswers, name=FOLDER_ENDPOINT)
    editing = endpoint(EditRequests, EditNews, name="editing")

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        self._channel = channel
        self._items: dict[str, bytes] = {}
        """References as XML, by name: every one was read when it came."""
        self._state = Replicated(
            self.context,
            initialize=self._initialize,
            receive=self._receive,
            capture=lambda: msgspec.msgpack.encode(self._items),
        )

    async def start(self) -> None:
        """Open the channel."""
        await self._state.open(self._channel)

    # The channel

    def _initialize(self, state: bytes | None) -> None:
        before = self._items
        self._items = {} if state is None else _STATES.decode(state)
        for name in sorted(before.keys() | self._items.keys()):
            if before.get(name) != self._items.get(name):
                self.editing.changed(name)

    def _receive(self, update: bytes) -> None:
        put = _PUTS.decode(update)
        if put.xml is None:
            if self._items.pop(put.name, None) is None:
                return
        elif put.name in self._items or len(self._items) < ITEMS_MAX:
            self._items[put.name] = put.xml
        else:
            return
        self.editing.changed(put.name)

    # Users

    def folder_get(self, name: str) -> None:
        self._state.when_ready(lambda: self._answer(name))

    def _answer(self, name: str) -> None:
        xml = self._items.get(name)
        if xml is None:
            self.folder.missing(name)
        else:
            self.folder.item(name, parse(xml).reference)

    def editing_put(self, name: str, reference: Reference) -> None:
        if not name or len(name) > NAME_MAX:
            raise ValueError(f"a name in a folder has from 1 to {NAME_MAX} characters")
        xml = write(reference).encode()
        parse(xml)  # others must be able to read it
        self._state.send(msgspec.msgpack.encode(Put(name, xml)))

    def editing_remove(self, name: str) -> None:
        self._state.send(msgspec.msgpack.encode(Put(name, None)))

    def editing_list(self) -> None:
        self._state.when_ready(lambda: self.editing.names(sorted(self._items)))
