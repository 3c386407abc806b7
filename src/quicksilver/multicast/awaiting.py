"""Messages that came before the news of the views they were sent to."""

from __future__ import annotations

from quicksilver.wire.packets import Messages

AWAITING_BYTES = 64
"""What a message that waits costs besides its bytes."""


class AwaitingMessages:
    """Messages of views that the GMS has not told this node of yet, in order of arrival."""

    def __init__(self, bytes_max: int) -> None:
        self.lost_batch = -1
        """The newest batch of which messages found no room: who is in a group since then,
        or before, may lack some of them."""
        self._messages: list[Messages] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def add(self, messages: Messages) -> None:
        """Keep messages; past the limit all that is kept is given up."""
        self._bytes += sum(map(len, messages.payloads)) + AWAITING_BYTES * len(messages.payloads)
        self._messages.append(messages)
        if self._bytes > self._bytes_max:
            self.lost_batch = max(self.lost_batch, *(each.batch for each in self.take()))

    @property
    def bytes(self) -> int:
        """What is kept takes so much."""
        return self._bytes

    def take(self) -> list[Messages]:
        """Return all that is kept; what must still wait is added again."""
        messages, self._messages, self._bytes = self._messages, [], 0
        return messages

    def clear(self) -> None:
        """The incarnation is over: nothing is owed to the next one."""
        self.take()
        self.lost_batch = -1
