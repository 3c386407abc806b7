"""Messages between application threads and the core, without a lock.

Application threads put, the core takes. Every put is one call of a ``deque``
method, which no other thread can interrupt. A lane with a single group holds
bare payloads; with several, each payload is preceded by the group it is for.

A bare payload costs 50 ns to queue where a ``(group, payload)`` tuple costs 80,
and nothing made by one thread has to be freed by another. In whole runs the
difference was lost in the machine's noise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quicksilver.multicast.lanes import GroupSender


class Outbox:
    """The queue of one lane."""

    __slots__ = ("append", "extend", "is_single", "items", "primary")

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.append: Callable[[bytes], None] = self.items.append
        """Queues a payload for ``primary``; only while ``is_single``."""
        self.extend: Callable[[tuple[GroupSender, bytes]], None] = self.items.extend
        """Queues a payload for any group."""
        self.primary: GroupSender | None = None
        self.is_single = False
        """True while no group but ``primary`` uses the lane."""

    def attach(self, sender: GroupSender) -> None:
        """A group begins to use the lane."""
        if self.primary is None:
            self.primary = sender
            self.is_single = True
        elif sender is not self.primary:
            self.is_single = False

    def put(self, sender: GroupSender, payload: bytes) -> None:
        """Queue one message; what ``send`` does, for callers that need no speed."""
        if self.is_single:
            self.append(payload)
        else:
            self.extend((sender, payload))

    def __bool__(self) -> bool:
        return bool(self.items)

    def count(self) -> int:
        """Return how many messages wait; walks them all."""
        return sum(1 for item in list(self.items) if type(item) is bytes)

    def head(self) -> GroupSender:
        """Return the group of the next message."""
        first = self.items[0]
        if type(first) is bytes:
            assert self.primary is not None
            return self.primary
        return first  # type: ignore[no-any-return]  # a group precedes its payload

    def take(self, count: int) -> tuple[list[GroupSender] | None, list[bytes]]:
        """Remove up to ``count`` messages; without groups if all are the primary's."""
        items = self.items
        popleft = items.popleft
        if self.is_single:
            return None, [popleft() for _ in range(min(count, len(items)))]
        taken = [popleft() for _ in range(min(2 * count, len(items)))]
        groups, payloads = taken[::2], taken[1::2]
        # A group is always followed by its payload, so where every other item is
        # a group there is no bare payload among them.
        if len(groups) == len(payloads) and bytes not in set(map(type, groups)):
            return groups, payloads
        return self._sort_out(taken)

    def _sort_out(self, taken: list[Any]) -> tuple[list[GroupSender], list[bytes]]:
        """Read items one by one: the lane has just gone from one group to several.

        A thread that saw ``is_single`` may still append a bare payload after it
        has changed: it is the primary's.
        """
        groups: list[GroupSender] = []
        payloads: list[bytes] = []
        owner: GroupSender | None = None
        for item in taken:
            if type(item) is not bytes:
                owner = item
                continue
            group = owner or self.primary
            assert group is not None
            groups.append(group)
            payloads.append(item)
            owner = None
        if owner is not None:
            # The payload that follows is still in the queue.
            self.items.appendleft(owner)
        return groups, payloads

    def put_back(self, groups: list[GroupSender] | None, payloads: list[bytes]) -> None:
        """Return messages to the front, in their order."""
        if groups is None or self.is_single:
            self.items.extendleft(reversed(payloads))
            return
        pairs = zip(reversed(payloads), reversed(groups), strict=True)
        self.items.extendleft(item for pair in pairs for item in pair)
