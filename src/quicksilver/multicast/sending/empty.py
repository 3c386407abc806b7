"""Messages for groups that have no members, and what is done with them.

A group can be sent to before anybody has joined it, or after all have left. Whoever sends
chooses: the messages *wait* until there is a member, are *dropped*, or are an *error*. A
group in which only the sender itself is, is not empty: there its messages count as delivered.

Messages that wait are set aside here, so that they hold up no other group of their lane; when
a member comes they go back to the head of it. All groups of a node share the room for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from quicksilver.multicast.sending.group import GroupSender

Empty = Literal["wait", "drop", "error"]
"""What to do with messages to a group without members."""

EMPTY_CHOICES: tuple[str, ...] = get_args(Empty)

PER_MESSAGE_BYTES = 64
"""What a message that waits costs besides its bytes, roughly."""


class WaitingMessages:
    """What waits for members, by the name of the group; the core thread alone changes it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        """How much waits; any thread may look."""
        self.limit = bytes_max
        """How much may wait, unless it is a single message."""
        self._by_group: dict[str, list[tuple[GroupSender, bytes]]] = {}

    @property
    def count(self) -> int:
        """How many messages wait."""
        return sum(map(len, self._by_group.values()))

    def has_room(self, size: int, *, queued_bytes: int = 0, queued: int = 0) -> bool:
        """Whether a message of a size may wait, behind those that are queued before it.

        A single one always may, whatever its size.
        """
        before = self.bytes + queued_bytes + PER_MESSAGE_BYTES * queued
        return not before or before + cost(size) <= self.limit

    def holds(self, name: str) -> bool:
        """Whether messages of a group wait."""
        return name in self._by_group

    def add(self, sender: GroupSender, payload: bytes) -> None:
        """Set a message aside, behind those of its group."""
        self._by_group.setdefault(sender.name, []).append((sender, payload))
        self.bytes += cost(len(payload))

    def take(self, name: str) -> list[tuple[GroupSender, bytes]]:
        """Return what waits for a group's members, in order; nothing of it waits any more."""
        pairs = self._by_group.pop(name, [])
        self.bytes -= sum(cost(len(payload)) for _, payload in pairs)
        return pairs

    def groups(self) -> list[str]:
        """Return the groups for whose members messages wait."""
        return list(self._by_group)

    def counts(self) -> dict[str, int]:
        """Return how many messages wait, by the group's name."""
        return {name: len(waiting) for name, waiting in self._by_group.items()}


def cost(size: int) -> int:
    """Return what a message of a size takes of the room."""
    return size + PER_MESSAGE_BYTES
