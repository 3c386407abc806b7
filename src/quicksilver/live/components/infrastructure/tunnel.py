"""The tunnel of Figure 2.4: copies messages between two channels."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from quicksilver.live.components.interfaces import (
    UNRELIABLE,
    channel_below,
    channel_for_users,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, live_object

REMEMBERED_MAX = 100_000
ECHO_S = 10.0
"""What we sent and have not heard back after this was lost on the way."""


class _Memory:
    """Digests of messages and when they were seen, oldest first; bounded."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[bytes, int], float] = OrderedDict()
        self._counts: dict[bytes, list[int]] = {}
        self._next = 0

    def add(self, digest: bytes, now: float) -> None:
        self._next += 1
        self._seen[digest, self._next] = now
        self._counts.setdefault(digest, []).append(self._next)
        if len(self._seen) > REMEMBERED_MAX:
            self._drop_oldest()

    def forget_before(self, when: float) -> None:
        while self._seen and next(iter(self._seen.values())) < when:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        (digest, number), _ = self._seen.popitem(last=False)
        self._drop_count(digest, number)

    def _drop_count(self, digest: bytes, number: int) -> None:
        numbers = self._counts[digest]
        numbers.remove(number)
        if not numbers:
            del self._counts[digest]

    def take(self, digest: bytes) -> bool:
        """Forget one of a message; False if it was not there."""
        numbers = self._counts.get(digest)
        if not numbers:
            return False
        number = numbers[0]
        del self._seen[digest, number]
        self._drop_count(digest, number)
        return True

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._counts


@component("quicksilver.tunnel")
@live_object(title="Tunnel")
class Tunnel:
    """copies messages between two channels, and is a channel itself (Figure 2.4)

    A channel gives back what is sent to it, so the tunnel drops as many copies of
    a message from a side as it sent there in the last ten seconds: one tunnel makes
    no loop. Where several tunnels make a ring, give ``window_s``, longer than a
    round takes: a message with the same bytes is then copied once in that time,
    and who wants two equal messages to pass must tell them apart.
    """

    context: Context
    left = channel_below(UNRELIABLE, name="Left")
    right = channel_below(UNRELIABLE, name="Right")
    channel = channel_for_users(UNRELIABLE)

    def __init__(self, window_s: Given[float] = 0.0) -> None:
        self._window_s = window_s
        self._sent_left = _Memory()
        self._sent_right = _Memory()
        self._copied = _Memory()

    def left_receive(self, message: bytes) -> None:
        if self._is_new(message, self._sent_left):
            self._note(self._sent_right, message)
            self.right.send(message)
            self.channel.receive(message)

    def right_receive(self, message: bytes) -> None:
        if self._is_new(message, self._sent_right):
            self._note(self._sent_left, message)
            self.left.send(message)
            self.channel.receive(message)

    def channel_send(self, message: bytes) -> None:
        digest = self._digest(message)
        if self._window_s > 0:
            self._copied.add(digest, self.context.now())
        self._note(self._sent_left, message)
        self._note(self._sent_right, message)
        self.left.send(message)
        self.right.send(message)
        self.channel.receive(message)

    def _note(self, memory: _Memory, message: bytes) -> None:
        now = self.context.now()
        memory.forget_before(now - ECHO_S)
        memory.add(self._digest(message), now)

    def _is_new(self, message: bytes, sent: _Memory) -> bool:
        """Whether a message is neither our own nor, in a ring, one that was here."""
        now = self.context.now()
        digest = self._digest(message)
        sent.forget_before(now - ECHO_S)
        if sent.take(digest):
            return False
        if self._window_s > 0:
            self._copied.forget_before(now - self._window_s)
            if digest in self._copied:
                return False
            self._copied.add(digest, now)
        return True

    @staticmethod
    def _digest(message: bytes) -> bytes:
        return blake2b(message, digest_size=16).digest()
