"""Answers on their way: the reply groups of others that a node has open.

A requester has a private group with itself as the only member, and whoever answers opens it. That
takes a round trip to the GMS, and a requester may be slow to take its answers. Answers wait here
meanwhile, those of each requester by themselves: nobody who serves waits for another's.

A group that is closed may be opened again before the closing took effect, so hosts say what they
have to say of the group that they were given, not of its name: late news of one that was given up
are none of the next.
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

Send = Callable[[GroupSender, bytes], object]


class ReplyGroup:
    """The reply group of one requester, from when it is opened until it is given up."""

    __slots__ = ("bytes", "is_told", "name", "on_room", "sender", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sender: GroupSender | None = None
        """None until the group is open."""
        self.waiting: deque[bytes] = deque()
        self.bytes = 0
        self.is_told = False
        """True while the lane is to say when it has room."""
        self.on_room: deque[Callable[[], None]] = deque()
        """Called, each once, when no more waits than may."""


Open = Callable[[ReplyGroup], None]
"""Opens a group; ``handle_ready`` or ``handle_gone`` says what came of it."""

Close = Callable[[tuple[str, ...]], None]
"""Closes groups that were given up; what is opened after that, also of their names, stays."""


class ReplyGroups:
    """Reply groups that are open or being opened, those last that were used last."""

    def __init__(
        self, open_: Open, close: Close, send: Send, count_max: int = REPLY_GROUPS_MAX
    ) -> None:
        self.count_max = count_max
        """How many may be open at once."""
        self.dropped = 0
        """Answers whose reply groups could not be opened, or were closed before they were sent."""
        self.crowded_out = 0
        """Those of them that were dropped because too many others had asked."""
        self._open = open_
        self._close = close
        self._send = send
        self._groups: OrderedDict[str, ReplyGroup] = OrderedDict()

    def __len__(self) -> int:
        return len(self._groups)

    # Application verbs

    def answer(self, name: str, payload: bytes) -> None:
        """Send an answer to a reply group, when it is open and has room."""
        group = self._groups.get(name)
        is_new = group is None
        if group is None:
            group = self._groups[name] = ReplyGroup(name)
        self._groups.move_to_end(name)
        group.waiting.append(payload)
        group.bytes += len(payload)
        if is_new:
            self._close_excess()
            self._open(group)
        self._pump(group)

    def find_open(self, name: str) -> ReplyGroup | None:
        """Return a group whose sender takes the next answer at once, or None where it has to wait.

        Any thread may ask: most answers go straight into the lane, as other messages do. Whoever
        has put one there asks ``is_current`` after that.
        """
        group = self._groups.get(name)
        if group is None or group.sender is None or group.waiting or group.sender.lane.room < 0:
            return None
        with suppress(KeyError):  # it was closed in this moment
            self._groups.move_to_end(name)
        return group

    def is_current(self, group: ReplyGroup) -> bool:
        """Whether a group was not given up; any thread may ask.

        What was put into its lane after that may lie there for ever.
        """
        return self._groups.get(group.name) is group

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

    def close_unopened(self, name: str) -> None:
        """Give a group up if it is still not open, with the answers that wait for it."""
        group = self._groups.get(name)
        if group is not None and group.sender is None:
            self._close_these([group])

    def close_all(self) -> None:
        """Give all groups up."""
        self._close_these(list(self._groups.values()))

    # Inputs

    def handle_ready(self, group: ReplyGroup, sender: GroupSender) -> None:
        """A group is open."""
        if self.is_current(group):
            group.sender = sender
            self._pump(group)

    def handle_view(self, group: ReplyGroup) -> None:
        """A group has a new view: it may have another lane, with room."""
        if self.is_current(group):
            group.is_told = False
            self._pump(group)

    def handle_gone(self, group: ReplyGroup) -> None:
        """A group could not be opened, or was closed: it is opened again for the next answer."""
        if not self.is_current(group):
            return
        del self._groups[group.name]
        self.dropped += len(group.waiting)
        group.waiting.clear()
        group.bytes = 0
        while group.on_room:
            group.on_room.popleft()()

    def _close_excess(self) -> None:
        """Give groups past the limit up, first those for which nothing waits."""
        excess = len(self._groups) - self.count_max
        if excess > 0:
            others = list(self._groups.values())[:-1]
            idle = [group for group in others if not group.waiting]
            busy = [group for group in others if group.waiting]
            dropped = self.dropped
            self._close_these([*idle, *busy][:excess])
            self.crowded_out += self.dropped - dropped

    def _close_these(self, groups: list[ReplyGroup]) -> None:
        for group in groups:
            self.handle_gone(group)
        if groups:
            self._close(tuple(group.name for group in groups))

    def _pump(self, group: ReplyGroup) -> None:
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

    def _handle_room(self, group: ReplyGroup) -> None:
        group.is_told = False
        self._pump(group)
