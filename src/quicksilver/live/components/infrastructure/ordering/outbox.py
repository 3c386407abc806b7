"""What a replica says to all others, and when it says it again."""

from __future__ import annotations

from collections import deque
from typing import Final

from quicksilver.live.components.infrastructure.ordering.events import Transmit
from quicksilver.live.components.infrastructure.ordering.ledger import Former, Ledger, Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    NO_EPOCH,
    Ack,
    Hello,
    Member,
    Message,
    Need,
    Refresh,
    Request,
    encode,
)

RETRY_S: Final = 0.25
"""What was asked for and has not come is asked for again after this."""
NEED_ENTRIES: Final = 1000
"""How much of the log is asked for at a time."""


class Outbox:
    """Messages to everybody, in the order they are to be sent."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._transmits: deque[Transmit] = deque()
        self._own_sent_at = 0.0

    def say(self, message: Message, *, is_later: bool = False) -> None:
        """Send a message, or send it after everything else under way on this node."""
        self._transmits.append(Transmit(encode(message), is_later))

    def poll_transmit(self) -> Transmit | None:
        """Return the next message to send, if there is one."""
        return self._transmits.popleft() if self._transmits else None

    def clear(self) -> None:
        """Say nothing of what was to be said."""
        self._transmits.clear()

    # What all members say

    def say_hello(self, kept: Former | Saved | None) -> Hello:
        """Ask for a state; ``kept`` is an old one that we have."""
        ledger = self._ledger
        epoch, index = (NO_EPOCH, 0) if kept is None else (kept.epoch, kept.index)
        hello = Hello(ledger.me, ledger.author, epoch, index, ledger.is_passive)
        self.say(hello)
        return hello

    def say_ack(self) -> int:
        """Say how far we are, and return that."""
        ledger = self._ledger
        self.say(Ack(ledger.epoch, ledger.me, ledger.log.top))
        return ledger.log.top

    def ask_missing(self) -> None:
        """Ask the leader for what comes after the end of our log."""
        ledger, log = self._ledger, self._ledger.log
        leader: Member = ledger.epoch[1:]
        last = max(log.ahead, default=log.top + 1)
        self.say(Need(ledger.me, leader, log.top + 1, max(last, log.top + NEED_ENTRIES)))

    def ask_refresh(self) -> None:
        """Ask for a newer state than ours, which has a long tail."""
        self.say(Refresh(self._ledger.me))

    # Our user's updates

    def send_update(self, number: int, payload: bytes, now: float) -> None:
        """Send an update of the user's."""
        own = self._ledger.own
        if len(own) == 1:
            self._own_sent_at = now
        self.say(Request(self._ledger.author, number, payload, own.floor))

    def send_own(self, now: float) -> None:
        """Send those of our updates again that are not in the log."""
        self._own_sent_at = now
        own, author = self._ledger.own, self._ledger.author
        for number, payload in own.after(self._ledger.own_done):
            self.say(Request(author, number, payload, own.floor))

    def is_own_overdue(self, now: float) -> bool:
        """Whether updates of ours are not on all members although they were sent a while ago."""
        return bool(self._ledger.own) and now - self._own_sent_at >= 4 * RETRY_S
