"""A text that many people edit at once.

An edit is seen at once where it is made and merged everywhere else, whatever was
edited there meanwhile. There are two forms with one face: over a reliable channel
(Code 2.2), where participants ask each other for what they missed, and over a
checkpointed channel, which brings newcomers up to date itself.

A reliable channel brings nobody up to date, so participants do it for each other. Each asks
when it starts, and again from time to time, with a summary of what it has. Those
who have another text answer after a random wait, unless somebody was quicker.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final, Protocol, TypeAlias, assert_never

from quicksilver.live.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
    Packed,
)
from quicksilver.live.components.applications.crdt import TextDocument
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    RELIABLE,
    CheckpointedChannel,
    ReliableChannel,
    channel_below,
)
from quicksilver.live.components.shared_object import ChannelUser
from quicksilver.live.references.names import SHARED_TEXT
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.executors import Timer
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref


class TextRequests(Protocol):
    """Events that users send to a shared text."""

    def edit(self, position: int, removed: int, inserted: str) -> None:
        """Replace characters; the position is within the text last said by ``changed``."""


class TextChanges(Protocol):
    """Events that a shared text sends to those who only look at it."""

    def changed(self, text: str) -> None:
        """Take the whole text: at the beginning, and after any change, also one's own."""


class EditorChanges(TextChanges, Protocol):
    """Events that a shared text sends to an editor."""

    def edited(self, position: int, removed: int, inserted: str) -> None:
        """Follow an edit that was not made here; it comes before ``changed``."""

    def refused(self, reason: str) -> None:
        """Hear that an edit was not carried out."""


_PROMISES = (("delivery", "causal"),)


class EditableText(ChannelUser):
    """What both forms share: the user's side and the document.

    There are two endpoints for users, and either or both may be connected: one that
    says the text, as in Code 2.2, and one that says single edits as well.
    """

    text = endpoint(TextRequests, TextChanges, provides=_PROMISES, name="Text")
    editor = endpoint(TextRequests, EditorChanges, provides=_PROMISES, name="Editor")

    def __init__(self, channel: Any) -> None:
        super().__init__(channel)
        # Yjs allows 53 bits for the number of a copy.
        self.document = TextDocument(unique_number(self.context) >> 9)

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


class Edited(Packed, frozen=True, tag="edit"):
    """An edit."""

    update: bytes


_EDITS = Codec[Edited](Edited, "an edit", STATE_BYTES_MAX)


@component("quicksilver.text", type_name="SharedText")
@live_object(title="SharedText")
class CheckpointedText(EditableText):
    """a text that many people edit, over a checkpointed channel

    At most 1,000,000 characters.
    """

    channel = channel_below(CHECKPOINTED, inner=True)

    states: ClassVar = Codec[Edited](Edited, "a text", STATE_BYTES_MAX)

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        # What the channel has delivered, and nothing else. The user's document is ahead of it
        # by edits on their way: in a checkpoint, they could outlive a crash that nobody else
        # heard of them before.
        self._delivered = TextDocument(0)
        self._is_ready = False

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

    def handle_message(self, message: bytes) -> None:
        """Take an edit; one's own comes as well."""
        update = _EDITS.decode(message).update
        self._delivered.merge(update)
        self.merge(update)

    def channel_capture(self, ticket: int) -> None:
        """Give the text as the channel delivered it."""
        self.channel.checkpoint(ticket, self.states.encode(Edited(self._delivered.state())))


FIRST_ASKS_S: Final = (0.0, 0.3, 1.0, 3.0)
"""When a newcomer asks; a channel may take a while until it reaches anybody."""

ASK_EVERY_S: Final = 10.0
ANSWER_WITHIN_S: Final = 0.1
ANSWERS_WAITING_MAX: Final = 100


class Asked(Packed, frozen=True, tag="ask"):
    """Somebody wants what they lack."""

    asker: int
    number: int
    vector: bytes
    digest: bytes


class Answered(Packed, frozen=True, tag="answer"):
    """What somebody lacked; it does others no harm."""

    asker: int
    number: int
    update: bytes


Message: TypeAlias = Edited | Asked | Answered

_MESSAGES = Codec[Message](Message, "a message", STATE_BYTES_MAX)


@component(SHARED_TEXT)
@live_object(title="Text")
class ReliableText(EditableText):
    """a text that many people edit, over a reliable channel

    At most 1,000,000 characters.
    """

    channel = channel_below(RELIABLE, inner=True)

    def __init__(self, Channel: Given[Ref[ReliableChannel]]) -> None:  # noqa: N803  # Code 2.2 says it so
        super().__init__(Channel)
        self._me = unique_number(self.context)
        self._asks = 0
        self._answers: dict[int, tuple[int, Timer]] = {}

    async def start(self) -> None:
        """Open the channel and ask what there is."""
        await super().start()
        for wait in FIRST_ASKS_S:
            self.context.call_later(wait, self._ask)
        self._ask_again()

    def send_update(self, update: bytes) -> None:
        self.channel.send(_MESSAGES.encode(Edited(update)))

    # Catching up

    def _ask_again(self) -> None:
        wait = ASK_EVERY_S * (0.5 + self.context.rng.uniform())

        def ask() -> None:
            self._ask()
            self._ask_again()

        self.context.call_later(wait, ask)

    def _ask(self) -> None:
        self._asks += 1
        document = self.document
        message = Asked(self._me, self._asks, document.vector(), document.digest())
        self.channel.send(_MESSAGES.encode(message))

    def _handle_ask(self, ask: Asked) -> None:
        before = self._answers.pop(ask.asker, None)
        if before is not None:
            before[1].cancel()
        if ask.asker == self._me or ask.digest == self.document.digest():
            return
        self.document.missing(ask.vector)  # a vector that cannot be read is refused here
        if len(self._answers) >= ANSWERS_WAITING_MAX:
            return
        wait = ANSWER_WITHIN_S * self.context.rng.uniform()
        timer = self.context.call_later(wait, lambda: self._answer(ask))
        self._answers[ask.asker] = (ask.number, timer)

    def _answer(self, ask: Asked) -> None:
        self._answers.pop(ask.asker, None)
        update = self.document.missing(ask.vector)
        self.channel.send(_MESSAGES.encode(Answered(ask.asker, ask.number, update)))

    def _handle_answer(self, answer: Answered) -> None:
        waiting = self._answers.get(answer.asker)
        if waiting is not None and waiting[0] == answer.number:
            del self._answers[answer.asker]
            waiting[1].cancel()
        self.merge(answer.update)

    # The channel

    def handle_message(self, message: bytes) -> None:
        """Take an edit, a question or an answer."""
        received = _MESSAGES.decode(message)
        match received:
            case Edited(update):
                self.merge(update)
            case Asked():
                self._handle_ask(received)
            case Answered():
                self._handle_answer(received)
            case _:
                assert_never(received)
