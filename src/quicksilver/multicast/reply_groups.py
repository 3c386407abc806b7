"""Answers on their way: the reply groups of others that a node has open.

A requester has a private group with itself as the only member, and whoever answers opens it. That
takes a round trip to the GMS, and a requester may be slow to take its answers. Answers wait here
meanwhile, those of each requester by themselves: nobody who serves waits for another's.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from quicksilver.multicast.sending.group import GroupSender

REPLY_GROUPS_MAX = 256
"""Requesters whose reply groups a server keeps open, those that asked last."""

WAITING_BYTES_MAX = 1 << 20
"""Answers that may wait for one requester before whoever makes more of them has to wait."""

Change = Callable[[str, tuple[str, ...]], None]
"""Opens one group and closes others; ``handle_ready`` or ``handle_gone`` says what came of it."""

Send = Callable[[GroupSender, bytes], object]


class _ReplyGroup:
    """The reply group of one requester."""

    __slots__ = ("bytes", "is_told", "on_room", "sender", "waiting")

    def __init__(self) -> None:
        self.sender: GroupSender | None = None
        """None until the group is open."""
        self.waiting: deque[bytes] = deque()
        self.bytes = 0
        self.is_told = False
        """True while the lane is to say when it has room."""
        self.on_room: deque[Callable[[], None]] = deque()
        """Called, each once, when no more waits than may."""


class ReplyGroups:
    """Reply groups that are open or being opened, those last that were used last."""

    def __init__(self, change: Change, send: Send, count_max: int = REPLY_GROUPS_MAX) -> None:
        self.count_max = count_max
        """How many may be open at once."""
        self.dropped = 0
        """Answers whose reply groups could not be opened, or were closed before they were sent."""
        self._change = change
        self._send = send
        self._groups: OrderedDict[str, _ReplyGroup] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    # Application verbs

    def answer(self, name: str, payload: bytes) -> None:
        """Send an answer to a reply group, when it is open and has room."""
        group = self._groups.get(name)
        is_new = group is None
        if group is None:
            group = self._groups[name] = _ReplyGroup()
        self._groups.move_to_end(name)
        group.waiting.append(payload)
        group.bytes += len(payload)
        if is_new:
            self._change(name, self._take_excess())
        self._pump(group)

    def find_open(self, name: str) -> GroupSender | None:
        """Return how to send the next answer at once, or None where it has to wait.

        Any thread may ask: most answers go straight into the lane, as other messages do.
        """
        group = self._groups.get(name)
        if group is None or group.sender is None or group.waiting or group.sender.lane.room < 0:
            return None
        with suppress(KeyError):  # it was closed in this moment
            self._groups.move_to_end(name)
        return group.sender

    def is_full(self, name: str) -> bool:
        """Whether more waits for a requester than may; the answer is taken nevertheless."""
        group = self._groups.get(name)
        return group is not None and group.bytes > WAITING_BYTES_MAX

    def call_with_room(self, name: str, call: Callable[[], None]) -> None:
        """Call when a reply group is not full any more, or gone."""
        group = self._groups.get(name)
        if group is None:
            call()
        else:
            group.on_room.append(call)
            self._pump(group)

    def close_all(self) -> tuple[str, ...]:
        """Forget all groups; return their names, which are to be closed."""
        names = tuple(self._groups)
        for name in names:
            self.handle_gone(name)
        return names

    # Inputs

    def handle_ready(self, name: str, sender: GroupSender) -> None:
        """A group is open."""
        group = self._groups.get(name)
        if group is not None:
            group.sender = sender
            self._pump(group)

    def handle_view(self, name: str) -> None:
        """A group has a new view: it may have another lane, with room."""
        group = self._groups.get(name)
        if group is not None:
            group.is_told = False
            self._pump(group)

    def handle_gone(self, name: str) -> None:
        """A group could not be opened, or was closed: it is opened again for the next answer."""
        group = self._groups.pop(name, None)
        if group is not None:
            self._drop(group)

    def _drop(self, group: _ReplyGroup) -> None:
        self.dropped += len(group.waiting)
        group.waiting.clear()
        group.bytes = 0
        while group.on_room:
            group.on_room.popleft()()

    def _take_excess(self) -> tuple[str, ...]:
        """Forget groups past the limit, first those for which nothing waits; return their names."""
        excess = len(self._groups) - self.count_max
        if excess <= 0:
            return ()
        others = list(self._groups)[:-1]
        idle = [name for name in others if not self._groups[name].waiting]
        busy = [name for name in others if self._groups[name].waiting]
        names = tuple([*idle, *busy][:excess])
        for name in names:
            self.handle_gone(name)
        return names

    def _pump(self, group: _ReplyGroup) -> None:
        """Send what there is room for."""
        sender, waiting = group.sender, group.waiting
        if sender is not None:
            while waiting and sender.lane.room >= 0:
                payload = waiting.popleft()
                group.bytes -= len(payload)
                self._send(sender, payload)
            if waiting and not group.is_told:
                group.is_told = True
                sender.lane.on_room.append(partial(self._handle_room, group))
        while group.on_room and group.bytes <= WAITING_BYTES_MAX:
            group.on_room.popleft()()

    def _handle_room(self, group: _ReplyGroup) -> None:
        group.is_told = False
        self._pump(group)
