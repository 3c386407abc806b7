"""Groups as a service to live objects: join by name, hear messages and views, send, leave.

Many objects of one process use groups, often the same ones, and a desktop opens
a thousand of them at once. So one hub stands between objects and the node:

- users of the same group share one membership, and each hears everything that
  is sent to it, also what they send themselves;
- joins and leaves are collected while a request is under way and go to the GMS
  together in the next one, so that opening many groups takes few requests;
- what is sent before a group is joined waits here, up to a limit.

A node that only listens in, such as a debugging ``quicksilver sub``, must not be taken for one
that takes part: objects would wait for its answers. So nodes with live objects are in one more
group, ``RUNTIMES``, and the views that objects are told have only nodes that are in it.

All methods are called on the executor and all callbacks come there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import msgspec

from quicksilver.live.runtime.executors import Executor
from quicksilver.membership.directory import Directory
from quicksilver.membership.directory import GroupView as DirectoryView
from quicksilver.membership.names import check_group_name
from quicksilver.stdx.errors import QuicksilverError
from quicksilver.wire.packets import MESSAGE_BYTES_MAX

RUNTIMES = "quicksilver.live.runtimes"
"""The group of all nodes that have live objects; joined with, or before, their first group."""

WAITING_BYTES_MAX = 16 << 20
"""What may wait for one group to be joined …"""
WAITING_MESSAGES_MAX = 100_000
"""… and how many messages that may be."""


class GroupView(msgspec.Struct, frozen=True):
    """Who is in a group: one numbered view."""

    number: int
    """Grows from view to view."""
    members: tuple[int, ...]
    """Nodes, in the same order everywhere."""
    me: int
    """This node; another number after it was counted out and came back."""


class RuntimeNodes:
    """The nodes that have live objects, as a directory has them; it knows a batch as a whole, so
    whoever comes with an object's group is known before the object is told."""

    def __init__(self) -> None:
        self._view: DirectoryView | None = None
        self._members: frozenset[int] = frozenset()

    def among(self, members: Iterable[int], directory: Directory) -> tuple[int, ...]:
        """Return those of a group's members that may take part."""
        before = self._view
        view = None if before is None else directory.groups.get(before.id)
        if view is None:
            # Rare: at the beginning, and when this node was counted out.
            view = next((v for v in directory.groups.values() if v.name == RUNTIMES), None)
        if view is not before:
            self._view = view
            self._members = frozenset(map(int, () if view is None else view.members))
        known = self._members
        return tuple(int(member) for member in members if member in known)


OnMessage = Callable[[int, bytes], None]
"""Takes the sending node and the message."""
OnView = Callable[[GroupView], None]
OnEnd = Callable[[Exception], None]
"""Takes why nothing more will come."""


class GroupsError(QuicksilverError):
    """A group could not do what it was asked."""


class WaitingFullError(GroupsError):
    """More was sent before a group was joined than may wait."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def __str__(self) -> str:
        return (
            f"group {self.group!r} is not joined yet and {WAITING_BYTES_MAX >> 20} MiB or "
            f"{WAITING_MESSAGES_MAX} messages wait for it: send less before the first view"
        )


class MessageSizeError(GroupsError):
    """A message is larger than a group carries."""

    def __init__(self, group: str, size: int) -> None:
        super().__init__(group, size)
        self.group, self.size = group, size

    def __str__(self) -> str:
        return (
            f"group {self.group!r} carries messages of at most {MESSAGE_BYTES_MAX} bytes, "
            f"not {self.size}: send it in pieces"
        )


class JoinedGroup:
    """One user's share in a group; closing it ends that share."""

    __slots__ = ("_hub", "_shared", "is_open", "is_told", "on_end", "on_message", "on_view")

    def __init__(
        self,
        hub: GroupHub,
        shared: SharedGroup,
        on_message: OnMessage | None,
        on_view: OnView | None,
        on_end: OnEnd | None,
    ) -> None:
        self._hub = hub
        self._shared = shared
        self.on_message = on_message
        self.on_view = on_view
        self.on_end = on_end
        self.is_open = True
        self.is_told = False
        """Whether it hears what comes: not before it was given the present view."""

    @property
    def name(self) -> str:
        """The name of the group."""
        return self._shared.name

    @property
    def view(self) -> GroupView | None:
        """The newest view; None before the first."""
        return self._shared.view

    @property
    def is_joined(self) -> bool:
        """Whether what is sent goes out at once."""
        return self._shared.is_joined

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits here to be sent."""
        return not self.is_open or self._hub.is_settled(self._shared)

    def send(self, message: bytes) -> None:
        """Send to all members, this one included; kept until the group is joined."""
        if self.is_open:
            self._hub.send(self._shared, message)

    def close(self) -> None:
        """Hear nothing more; the group is left when its last user is gone."""
        if self.is_open:
            self.is_open = False
            self._hub.release(self._shared, self)


class SharedGroup:
    """A group that somebody here uses."""

    __slots__ = ("is_joined", "name", "users", "view", "waiting", "waiting_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.users: list[JoinedGroup] = []
        self.is_joined = False
        self.view: GroupView | None = None
        self.waiting: deque[bytes] = deque()
        self.waiting_bytes = 0


class Groups:
    """The service that components ask for: ``self.context.service(Groups)``."""

    MISSING_HINT: ClassVar[str] = "connect a node and provide NodeGroups(node, executor)"

    def join(
        self,
        name: str,
        on_message: OnMessage | None = None,
        on_view: OnView | None = None,
        on_end: OnEnd | None = None,
    ) -> JoinedGroup:
        """Use a group; raises ValueError for a name that no group can have."""
        raise NotImplementedError

    @property
    def requests(self) -> int:
        """How many requests were made to the membership service."""
        raise NotImplementedError


class GroupHub(Groups):
    """What all implementations share; they say how to subscribe and transmit."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._groups: dict[str, SharedGroup] = {}
        self._to_join: dict[str, None] = {}
        self._to_leave: dict[str, None] = {}
        self._is_asking = False
        """A request is under way, or about to be made."""
        self._requests = 0
        self._end: Exception | None = None

    @property
    def requests(self) -> int:
        """How many requests were made to the membership service."""
        return self._requests

    # To be given by implementations

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Make one request; ``handle_subscribed`` must be called when it is done."""
        raise NotImplementedError

    def transmit(self, name: str, message: bytes) -> None:
        """Send to a group that is joined."""
        raise NotImplementedError

    # Users

    def join(
        self,
        name: str,
        on_message: OnMessage | None = None,
        on_view: OnView | None = None,
        on_end: OnEnd | None = None,
    ) -> JoinedGroup:
        """Use a group; raises ValueError for a name that no group can have."""
        check_group_name(name)
        if self._end is not None:
            raise self._end
        shared = self._groups.get(name)
        if shared is None:
            shared = self._groups[name] = SharedGroup(name)
            self._to_join[name] = None
            self._plan_request()
        user = JoinedGroup(self, shared, on_message, on_view, on_end)
        shared.users.append(user)
        if shared.view is not None:
            self._executor.post(lambda: self._tell_first(shared, user))
        return user

    def _tell_first(self, shared: SharedGroup, user: JoinedGroup) -> None:
        if user.is_told or not user.is_open or shared.view is None:
            return
        user.is_told = True
        if user.on_view is not None:
            user.on_view(shared.view)

    def release(self, shared: SharedGroup, user: JoinedGroup) -> None:
        """Take a user's share back."""
        shared.users.remove(user)
        if shared.users or self._groups.get(shared.name) is not shared:
            return
        del self._groups[shared.name]
        if shared.name in self._to_join:
            del self._to_join[shared.name]
        else:
            self._to_leave[shared.name] = None
            self._plan_request()

    def send(self, shared: SharedGroup, message: bytes) -> None:
        """Send for a user."""
        if len(message) > MESSAGE_BYTES_MAX:
            raise MessageSizeError(shared.name, len(message))
        if shared.is_joined:
            self.transmit(shared.name, message)
            return
        bytes_after = shared.waiting_bytes + len(message)
        if bytes_after > WAITING_BYTES_MAX or len(shared.waiting) >= WAITING_MESSAGES_MAX:
            raise WaitingFullError(shared.name)
        shared.waiting.append(message)
        shared.waiting_bytes = bytes_after

    def is_settled(self, shared: SharedGroup) -> bool:
        """Whether nothing of a group waits here to be sent."""
        return not shared.waiting

    # Requests, one at a time

    def _plan_request(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self._executor.post(self._request)

    def _request(self) -> None:
        # A name that was left and is wanted again must first be left: it waits a turn.
        join = [name for name in self._to_join if name not in self._to_leave]
        leave = list(self._to_leave)
        if self._end is not None or not (join or leave):
            self._is_asking = False
            return
        for name in join:
            del self._to_join[name]
        self._to_leave.clear()
        self._requests += 1
        self.subscribe(join, leave)

    def handle_subscribed(self) -> None:
        """The request under way is done: make the next if there is one."""
        self._is_asking = False
        if self._to_join or self._to_leave:
            self._plan_request()

    # What comes

    def handle_joined(self, name: str) -> None:
        """A group can be sent to from now on."""
        shared = self._groups.get(name)
        if shared is None or shared.is_joined or name in self._to_join:
            return
        shared.is_joined = True
        waiting, shared.waiting = shared.waiting, deque()
        shared.waiting_bytes = 0
        for message in waiting:
            self.transmit(name, message)

    def handle_view(self, name: str, view: GroupView) -> None:
        """A group has a new view."""
        shared = self._groups.get(name)
        if shared is None or name in self._to_join:
            return
        shared.view = view
        for user in tuple(shared.users):
            if user.is_open:
                user.is_told = True
                if user.on_view is not None:
                    user.on_view(view)

    def handle_messages(self, name: str, sender: int, messages: Sequence[bytes]) -> None:
        """A group was sent something."""
        shared = self._groups.get(name)
        if shared is None or name in self._to_join:
            return
        users = shared.users
        if len(users) == 1:
            user = users[0]
            if user.on_message is not None and user.is_told:
                on_message = user.on_message
                for message in messages:
                    if not user.is_open:
                        return
                    on_message(sender, message)
            return
        for message in messages:
            for user in tuple(users):
                if user.on_message is not None and user.is_told and user.is_open:
                    user.on_message(sender, message)

    def handle_failed(self, names: Sequence[str], error: Exception) -> None:
        """Groups have come to an end that nobody here asked for."""
        for name in names:
            shared = self._groups.pop(name, None)
            if shared is None:
                continue
            self._to_join.pop(name, None)
            for user in tuple(shared.users):
                user.is_open = False
                if user.on_end is not None:
                    user.on_end(error)

    def end_all(self, error: Exception) -> None:
        """The node is gone: nothing works any more."""
        if self._end is None:
            self._end = error
            self.handle_failed(sorted(self._groups), error)
