"""A text that many people edit at once.

An edit is seen at once where it is made and merged everywhere else, whatever was
edited there meanwhile. There are two forms with one face: over a reliable channel
(Code 2.2), where replicas ask each other for what they missed, and over a
checkpointed channel, which brings newcomers up to date itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import msgspec

from quicksilver.live.components.applications.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
)
from quicksilver.live.components.applications.crdt import TextDocument
from quicksilver.live.components.applications.replica import end_with_channel
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    CheckpointedChannel,
    CheckpointedDeliveries,
    CheckpointedRequests,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref


class TextRequests(Protocol):
    """What a shared text takes."""

    def edit(self, position: int, removed: int, inserted: str) -> None:
        """Replace characters; the position is within the text last said by ``changed``."""


class TextChanges(Protocol):
    """What a shared text gives those who only look at it."""

    def changed(self, text: str) -> None:
        """Take the whole text: at the beginning, and after any change, also one's own."""


class EditorChanges(TextChanges, Protocol):
    """What a shared text gives an editor."""

    def edited(self, position: int, removed: int, inserted: str) -> None:
        """Follow an edit that was not made here; it comes before ``changed``."""

    def refused(self, reason: str) -> None:
        """Hear that an edit was not carried out."""


_PROMISES = (("delivery", "causal"),)


class TextReplica(ABC):
    """What both forms share: the user's side and the document.

    There are two endpoints for users, and either or both may be connected: one that
    says the text, as in Code 2.2, and one that says single edits as well.
    """

    context: Context
    text = endpoint(TextRequests, TextChanges, provides=_PROMISES, name="Text")
    editor = endpoint(TextRequests, EditorChanges, provides=_PROMISES, name="Editor")

    def __init__(self, channel: Reference) -> None:
        self._reference = channel
        # Yjs allows 53 bits for the number of a replica.
        self.document = TextDocument(unique_number(self.context) >> 9)
        self.bad_updates = 0
        """Updates that came in and were dropped."""

    @abstractmethod
    def send_update(self, update: bytes) -> None:
        """Send an edit to the others."""

    # The user

    def text_edit(self, position: int, removed: int, inserted: str) -> None:
        """Edit here at once, and everywhere soon; an edit that is refused changes nothing."""
        try:
            self._edit(position, removed, inserted)
        except BadMessageError:
            self.text.changed(self.document.text)
            return
        self.editor.edited(position, removed, inserted)
        self._say()

    def editor_edit(self, position: int, removed: int, inserted: str) -> None:
        """Edit here at once, and everywhere soon."""
        try:
            self._edit(position, removed, inserted)
        except BadMessageError as error:
            self.editor.refused(str(error))
            return
        self._say()

    def text_connected(self) -> None:
        """Begin with the text so far."""
        self.text.changed(self.document.text)

    def editor_connected(self) -> None:
        """Begin with the text so far."""
        self.editor.changed(self.document.text)

    def _edit(self, position: int, removed: int, inserted: str) -> None:
        update = self.document.edit(position, removed, inserted)
        if removed or inserted:
            self.send_update(update)

    def _say(self) -> None:
        self.editor.changed(self.document.text)
        self.text.changed(self.document.text)

    # The others

    def merge(self, update: bytes) -> None:
        """Take an update and tell the user what it did; raises BadMessageError."""
        edits = self.document.merge(update)
        for one in edits:
            self.editor.edited(one.position, one.removed, one.inserted)
        if edits:
            self._say()


class Edited(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An update over the checkpointed channel."""

    update: bytes


_EDITS = Codec[Edited](Edited, "an edit", STATE_BYTES_MAX)


@component("quicksilver.text", type_name="SharedText")
@live_object(title="SharedText")
class CheckpointedText(TextReplica):
    """a text that many people edit, over a checkpointed channel

    At most 1,000,000 characters.
    """

    channel = endpoint(
        CheckpointedDeliveries,
        CheckpointedRequests,
        requires=[("delivery", "exactly once and total")],
        name=CHECKPOINTED,
        inner=True,
    )

    states: ClassVar = Codec[Edited](Edited, "a text", STATE_BYTES_MAX)

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)  # type: ignore[arg-type]  # Ref annotates references
        # What the channel has delivered, and nothing else. The user's document is ahead of it
        # by edits on their way: in a checkpoint, they could outlive a crash that nobody else
        # heard of them before.
        self._delivered = TextDocument(0)
        self._is_ready = False

    async def start(self) -> None:
        """Open the channel."""
        await self.context.attach(self.channel, self._reference, "channel")

    def send_update(self, update: bytes) -> None:
        """Send an edit; before the first checkpoint, it goes with the rest then."""
        if self._is_ready:
            self.channel.send(_EDITS.encode(Edited(update)))

    @property
    def is_settled(self) -> bool:
        """Whether the channel has all that was edited here."""
        return self._is_ready or self.document.digest() == self._delivered.digest()

    def channel_initialize(self, state: bytes | None) -> None:
        """Take what there is, and send what was edited here without it."""
        self._delivered = TextDocument(0)
        if state is not None:
            update = self.states.decode(state).update
            self._delivered.merge(update)
            self.merge(update)
        self._is_ready = True
        if self.document.digest() != self._delivered.digest():
            self.send_update(self.document.missing(self._delivered.vector()))

    def channel_receive(self, message: bytes) -> None:
        """Take an edit; one's own comes as well."""
        try:
            update = _EDITS.decode(message).update
            self._delivered.merge(update)
            self.merge(update)
        except BadMessageError:
            self.bad_updates += 1

    def channel_capture(self, ticket: int) -> None:
        """Give the text as the channel delivered it."""
        self.channel.checkpoint(ticket, self.states.encode(Edited(self._delivered.state())))

    def channel_disconnected(self) -> None:
        """End with the channel."""
        end_with_channel(self.context)
