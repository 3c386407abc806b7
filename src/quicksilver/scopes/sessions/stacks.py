"""The stack of one session of a topic at a node, and what the node keeps of the topic.

Of the four elements of Figure 3.22 the forwarder and the agents are shared by all sessions:
messages of a sender are numbered through, and repaired as long as one of the sessions that are not
retired wants that. Each session has its own ordering and its own key.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.messages import Flavour
from quicksilver.scopes.sessions.ordering import TotalOrder

RETIRED_MAX = 8
"""Retired sessions that are remembered, for messages that come very late."""

HELD_BYTES_MAX = 16 << 20
"""Messages of a topic that wait for their session to be installed here."""

OUTBOX_BYTES_MAX = 1 << 20
"""Messages that wait to be published: past it there is no room for more."""


@dataclass(slots=True)
class Stack:
    """One session."""

    number: int
    flavour: Flavour
    own_first: int
    """The node's own messages in it have numbers from this one …"""
    own_stop: int | None = None
    """… to this one; None: it still sends in it."""
    order: TotalOrder | None = None
    is_flushing: bool = False
    is_flushed: bool = False
    """True: the manager was told that all of it is delivered."""
    is_retired: bool = False
    is_unreadable: bool = False
    """True: the application was told that this node has no key for it."""
    queue: deque[Packet | Gap] = field(default_factory=deque)
    """Messages that wait until the order of an earlier session is over."""

    def is_settled(self) -> bool:
        """Whether messages of later sessions may be delivered."""
        return self.order is None or self.order.is_over


@dataclass(slots=True)
class TopicStacks:
    """All sessions of one topic."""

    stacks: dict[int, Stack] = field(default_factory=dict)
    """Those that are installed, and some that are retired; the oldest first."""
    newest: int = 0
    last: dict[Sender, int] = field(default_factory=dict)
    """In which session the last message of a sender was."""
    following: dict[int, set[Sender]] = field(default_factory=dict)
    """Senders of whom messages of an earlier session came before those of a session."""
    ends: dict[Sender, tuple[int, int]] = field(default_factory=dict)
    """The last session that a sender has ended, and the number after its last message."""
    held: deque[Packet | Gap] = field(default_factory=deque)
    """Messages of sessions that are not installed here yet."""
    held_bytes: int = 0
    outbox: deque[tuple[list[bytes], dict[str, str] | None]] = field(default_factory=deque)
    """What the applications publish while there is no session, or no key for it."""
    outbox_count: int = 0
    outbox_bytes: int = 0
    is_closed: bool = False
    """True: somebody was told that there is no room to publish."""
    is_joining: bool = True
    """True: the node is not in any session of the topic yet."""
    quiet: dict[Sender, tuple[int, float]] = field(default_factory=dict)
    """Streams whose senders have not said where they end: how far they are, and since when."""

    def living(self) -> list[Stack]:
        return [stack for stack in self.stacks.values() if not stack.is_retired]

    def repairs(self) -> bool:
        """Whether what is missing is recovered."""
        return not self.stacks or any(s.flavour.reliability == "repair" for s in self.living())

    def retire(self, number: int) -> None:
        """A session is over; those that were retired long ago are forgotten.

        A session without a key is forgotten at once after a change to one with a key: nobody is
        to pass off an open message as a late one.
        """
        stack = self.stacks.get(number)
        if stack is None:
            return
        stack.is_retired = True
        has_key = bool(self.stacks[self.newest].flavour.key)
        retired = [s for s in self.stacks.values() if s.is_retired and s.is_settled()]
        for place, old in enumerate(retired):
            is_open = has_key and not old.flavour.key
            has_rest = old.queue or (old.order is not None and old.order.out)
            if not has_rest and (is_open or place < len(retired) - RETIRED_MAX):
                self.following.pop(old.number, None)
                del self.stacks[old.number]
