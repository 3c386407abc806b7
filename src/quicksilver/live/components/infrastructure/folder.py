"""A shared folder of references: what external references lead through (2.1.5 B)."""

from __future__ import annotations

from typing import ClassVar, Protocol

import msgspec

from quicksilver.live.codec import Codec
from quicksilver.live.components.infrastructure.ordering.messages import (
    STATE_BYTES_MAX,
    UPDATE_BYTES_MAX,
)
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.references.model import Reference
from quicksilver.live.references.standard import ANY_OBJECT, FOLDER_ENDPOINT
from quicksilver.live.references.xml import parse, write
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.folders import FolderAnswers, FolderRequests
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

NAME_MAX = 255
ITEMS_MAX = 100_000


class Put(msgspec.Struct, frozen=True, array_like=True):
    """A name's new reference, as XML; None: it is removed."""

    name: str
    xml: bytes | None


class EditRequests(Protocol):
    """Events that editors send to a shared folder."""

    def put(self, name: str, reference: Ref[ANY_OBJECT]) -> None:  # type: ignore[valid-type]
        """Keep a reference under a name, in place of what was there."""

    def remove(self, name: str) -> None:
        """Keep nothing under a name."""

    def list(self) -> None:
        """Ask for all names; answered when the state is here."""


class EditNews(Protocol):
    """Events that a shared folder sends to its editors."""

    def names(self, names: list[str]) -> None:
        """Answer ``list``: all names, sorted."""

    def changed(self, name: str) -> None:
        """What is kept under a name is another now, or nothing."""


@component("quicksilver.folder", type_name="SharedFolder")
@live_object(title="SharedFolder")
class SharedFolder(SharedObject[Put, dict[str, bytes]]):
    """a folder of references that all who open it share, over a checkpointed channel"""

    updates: ClassVar = Codec[Put](Put, "an item", UPDATE_BYTES_MAX)
    states: ClassVar = Codec[dict[str, bytes]](dict[str, bytes], "a folder", STATE_BYTES_MAX)

    folder = endpoint(FolderRequests, FolderAnswers, name=FOLDER_ENDPOINT)
    editing = endpoint(EditRequests, EditNews, name="editing")

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self._items: dict[str, bytes] = {}
        """References as XML, by name: every one was read when it came."""

    # The state

    def load(self, state: dict[str, bytes] | None) -> None:
        """Begin with these items, and tell which are others than before."""
        before, self._items = self._items, state or {}
        for name in sorted(before.keys() | self._items.keys()):
            if before.get(name) != self._items.get(name):
                self.editing.changed(name)

    def save(self) -> dict[str, bytes]:
        return self._items

    def apply(self, update: Put) -> None:
        """Change what is kept under a name."""
        if update.xml is None:
            if self._items.pop(update.name, None) is None:
                return
        elif update.name in self._items or len(self._items) < ITEMS_MAX:
            self._items[update.name] = update.xml
        else:
            return
        self.editing.changed(update.name)

    # Users

    def folder_get(self, name: str) -> None:
        self.when_ready(lambda: self._answer(name))

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
        self.submit(Put(name, xml))

    def editing_remove(self, name: str) -> None:
        self.submit(Put(name, None))

    def editing_list(self) -> None:
        self.when_ready(lambda: self.editing.names(sorted(self._items)))
