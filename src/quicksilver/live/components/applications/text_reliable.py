"""The shared text of Code 2.2: edits over a reliable channel.

The channel brings nobody up to date, so replicas do it for each other. Each asks
when it starts, and again from time to time, with a summary of what it has. Those
who have another text answer after a random wait, unless somebody was quicker.
"""

from __future__ import annotations

from typing import Final, TypeAlias, assert_never

import msgspec

from quicksilver.live.components.applications.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
)
from quicksilver.live.components.applications.replica import end_with_channel
from quicksilver.live.components.applications.text import TextReplica
from quicksilver.live.components.interfaces import (
    RELIABLE,
    ChannelDeliveries,
    ChannelRequests,
    ReliableChannel,
)
from quicksilver.live.references.names import SHARED_TEXT
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.executor import Timer
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

FIRST_ASKS_S: Final = (0.0, 0.3, 1.0, 3.0)
"""When a newcomer asks; a channel may take a while until it reaches anybody."""

ASK_EVERY_S: Final = 10.0
ANSWER_WITHIN_S: Final = 0.1
ANSWERS_WAITING_MAX: Final = 100


class _Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Edited(_Message, frozen=True, tag="edit"):
    """An edit."""

    update: bytes


class Asked(_Message, frozen=True, tag="ask"):
    """Somebody wants what they lack."""

    asker: int
    number: int
    vector: bytes
    digest: bytes


class Answered(_Message, frozen=True, tag="answer"):
    """What somebody lacked; it does others no harm."""

    asker: int
    number: int
    update: bytes


Message: TypeAlias = Edited | Asked | Answered

_MESSAGES = Codec[Message](Message, "a message", STATE_BYTES_MAX)


@component(SHARED_TEXT)
@live_object(title="Text")
class ReliableText(TextReplica):
    """a text that many people edit, over a reliable channel

    At most 1,000,000 characters.
    """

    channel = endpoint(
        ChannelDeliveries,
        ChannelRequests,
        requires=[("delivery", "exactly once and fifo")],
        name=RELIABLE,
        inner=True,
    )

    def __init__(self, Channel: Given[Ref[ReliableChannel]]) -> None:  # noqa: N803  # Code 2.2 says it so
        super().__init__(Channel)  # type: ignore[arg-type]  # Ref annotates references
        self._me = unique_number(self.context)
        self._asks = 0
        self._answers: dict[int, tuple[int, Timer]] = {}

    async def start(self) -> None:
        """Open the channel and ask what there is."""
        await self.context.attach(self.channel, self._reference, "channel")
        for wait in FIRST_ASKS_S:
            self.context.call_later(wait, self._ask)
        self._ask_again()

    def send_update(self, update: bytes) -> None:
        """Send an edit."""
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

    def channel_receive(self, message: bytes) -> None:
        """Take an edit, a question or an answer; bad ones are counted and dropped."""
        try:
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
        except BadMessageError:
            self.bad_updates += 1

    def channel_disconnected(self) -> None:
        """End with the channel."""
        end_with_channel(self.context)
