"""How much a node may publish: at most a window of messages that others lack.

The window of a topic closes when so many bytes of the node's own messages are not known to be
everywhere, and opens again when half of them are. Where the topic has recovery, a message is
everywhere when it is stable: all who are waited for have it. Without recovery nothing becomes
stable. There what counts is the node's own channels: a message counts until every channel of
the topic that begins here has taken it, that is until it was handed to the channel's link.
Channels that lose messages, whose targets are not waited for or have not answered yet do not
count, and a channel that fell behind (``outlets``) closes the window until it has caught up.
So without recovery a slow node further away holds up nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.holdings import Holdings
from quicksilver.scopes.dissemination.outlets import Outlets
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.posts import DomainId
from quicksilver.stdx.ranges import VALUE_MAX


@dataclass(slots=True)
class _Window:
    """The node's own messages to a topic that were not stable when last looked at."""

    packets: deque[tuple[int, int]] = field(default_factory=deque)
    """The number after each packet, and its bytes."""
    bytes: int = 0


class Windows:
    """The windows of one node's topics."""

    def __init__(self, own: Sender, holdings: Holdings, outlets: Outlets, bytes_max: int) -> None:
        self._own = own
        self._holdings = holdings
        self._outlets = outlets
        self._bytes_max = bytes_max
        self._served: dict[tuple[DomainId, str], tuple[str, ...]] = {}
        """Topics that agents here recover messages of, by domain and member."""
        self._recovered: dict[str, int] = {}
        """How many agents here serve a topic."""
        self._windows: dict[str, _Window] = {}
        self._unrepaired: set[str] = set()
        """Topics whose sessions want nothing repaired."""
        self._closed: dict[str, None] = {}
        """Topics that somebody wanted to publish to, and could not."""

    def handle_posted(self, domain: DomainId, member: str, topics: tuple[str, ...]) -> None:
        """An agent here serves these topics, and no others; none: there is no such agent."""
        for topic in self._served.pop((domain, member), ()):
            self._recovered[topic] -= 1
            if not self._recovered[topic]:
                del self._recovered[topic]
                self._windows.pop(topic, None)
        if topics:
            self._served[domain, member] = topics
            for topic in topics:
                self._recovered[topic] = self._recovered.get(topic, 0) + 1

    def is_recovered(self, topic: str) -> bool:
        """Whether messages of a topic that are missing here are recovered."""
        return topic in self._recovered and topic not in self._unrepaired

    def has_agents(self, topic: str) -> bool:
        """Whether agents here serve a topic."""
        return topic in self._recovered

    def is_unrepaired(self, topic: str) -> bool:
        """Whether the sessions of a topic want nothing repaired."""
        return topic in self._unrepaired

    def set_repaired(self, topic: str, *, is_repaired: bool) -> bool:
        """Say whether they do; return whether that is news."""
        if is_repaired != (topic in self._unrepaired):
            return False
        if is_repaired:
            self._unrepaired.discard(topic)
        else:
            self._unrepaired.add(topic)
        return True

    def handle_published(self, topic: str, stop: int, size: int) -> None:
        """The node has made a packet of its own messages."""
        if topic in self._recovered:
            window = self._windows.setdefault(topic, _Window())
            window.packets.append((stop, size))
            window.bytes += size

    def handle_left(self, topic: str) -> None:
        self._windows.pop(topic, None)
        self._closed.pop(topic, None)

    def may_publish(self, topic: str, pending: int) -> bool:
        """Whether there is room; if not, ``poll_opened`` says when there is again.

        ``pending``: bytes that were published and are in no packet yet.
        """
        if pending + self._waiting_bytes(topic) < self._bytes_max:
            return True
        self._closed[topic] = None
        return False

    def is_any_closed(self) -> bool:
        return bool(self._closed)

    def poll_opened(self) -> str | None:
        """Return a topic whose window was closed and is open again, or None."""
        for topic in self._closed:
            if self._waiting_bytes(topic) <= self._bytes_max // 2:
                del self._closed[topic]
                return topic
        return None

    def stable_mark(self, topic: str, sender: Sender | None = None) -> int:
        """Return below which number a sender's messages are everywhere; None: the node's own."""
        sender = sender or self._own
        if topic not in self._recovered:
            return self._outlets.taken_mark(topic, sender)
        stream = self._holdings.find(topic, sender)
        return VALUE_MAX if stream is None else stream.stable

    def pending_bytes(self, topics: Iterable[str]) -> int:
        """Return how much of the node's own messages in packets is not known to be everywhere."""
        return sum(map(self._waiting_bytes, topics))

    def _waiting_bytes(self, topic: str) -> int:
        if topic not in self._recovered:
            return self._outlets.waiting_bytes(topic)
        window = self._windows.get(topic)
        if window is None:
            return 0
        stable = self.stable_mark(topic)
        while window.packets and window.packets[0][0] <= stable:
            window.bytes -= window.packets.popleft()[1]
        return window.bytes
