"""Channels in memory: what a hub is told reaches everybody who uses it.

One hub is shared by the runtimes of a test, which run on one executor. The
checkpointed channel keeps one total order and brings newcomers up to date by
asking a member for its state at the point in the order where they join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    RELIABLE,
    UNRELIABLE,
    ChannelDeliveries,
    ChannelRequests,
    CheckpointedDeliveries,
    CheckpointedRequests,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.stdx.rand import Rng


class Hub:
    """The network of a test."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = Rng(seed)
        self.loss = 0.0
        """The share of messages lost by the unreliable channel, for each receiver."""
        self.delay_s = 0.0
        """The longest wait of a message of the reliable channel, drawn for each."""
        self.groups: dict[str, list[Any]] = {}
        self.sent: list[tuple[str, bytes]] = []

    def members(self, group: str) -> list[Any]:
        return self.groups.setdefault(group, [])

    def leave(self, group: str, member: Any) -> None:
        members = self.members(group)
        if member in members:
            members.remove(member)


class _Channel:
    context: Context
    channel: Any

    def __init__(self, group: str) -> None:
        self.group = group
        self.hub: Hub = self.context.service(Hub)

    def channel_connected(self) -> None:
        self.hub.members(self.group).append(self)

    def close(self) -> None:
        self.hub.leave(self.group, self)


@component("test.unreliable")
@live_object
class MemoryUnreliable(_Channel):
    """loses, repeats and reorders"""

    channel = endpoint(
        ChannelRequests, ChannelDeliveries, provides=[("delivery", "best effort")], name=UNRELIABLE
    )

    def __init__(self, group: Given[str] = "group") -> None:
        super().__init__(group)

    def channel_send(self, message: bytes) -> None:
        hub = self.hub
        hub.sent.append((self.group, message))
        for member in list(hub.members(self.group)):
            if not hub.rng.chance(hub.loss):
                wait = hub.delay_s * hub.rng.uniform()
                member.context.call_later(wait, lambda m=member: m.channel.receive(message))


@component("test.reliable")
@live_object
class MemoryReliable(_Channel):
    """keeps each sender's order and loses nothing"""

    channel = endpoint(
        ChannelRequests,
        ChannelDeliveries,
        provides=[("delivery", "exactly once and fifo")],
        name=RELIABLE,
    )

    def __init__(self, group: Given[str] = "group") -> None:
        super().__init__(group)
        self._free: dict[int, float] = {}

    def channel_send(self, message: bytes) -> None:
        hub = self.hub
        hub.sent.append((self.group, message))
        for member in list(hub.members(self.group)):
            now = self.context.now()
            at = max(self._free.get(id(member), 0.0), now + hub.delay_s * hub.rng.uniform())
            self._free[id(member)] = at + 1e-9
            member.context.call_later(at - now, lambda m=member: m.channel.receive(message))


@component("test.checkpointed")
@live_object
class MemoryCheckpointed(_Channel):
    """one order for all, and a state for newcomers"""

    channel = endpoint(
        CheckpointedRequests,
        CheckpointedDeliveries,
        provides=[("delivery", "exactly once and total")],
        name=CHECKPOINTED,
    )

    def __init__(self, group: Given[str] = "group") -> None:
        super().__init__(group)
        self._inbox: deque[Callable[[], None]] | None = None
        self._waiting: dict[int, MemoryCheckpointed] = {}
        self._tickets = 0
        self.is_ready = False

    def channel_connected(self) -> None:
        self.context.post(self._join)

    def _join(self) -> None:
        members = self.hub.members(self.group)
        ready = [member for member in members if member.is_ready]
        members.append(self)
        if not ready:
            self.is_ready = True
            self.channel.initialize(None)
            return
        self._inbox = deque()
        self.context.call_later(1.0, self._join_again)
        ready[0].context.post(lambda: ready[0].ask(self))

    def _join_again(self) -> None:
        """The member that was asked is gone."""
        if not self.is_ready:
            self.hub.leave(self.group, self)
            self._join()

    def ask(self, newcomer: MemoryCheckpointed) -> None:
        self._tickets += 1
        self._waiting[self._tickets] = newcomer
        newcomer._inbox = deque()
        self.channel.capture(self._tickets)

    def channel_checkpoint(self, ticket: int, state: bytes) -> None:
        newcomer = self._waiting.pop(ticket)
        newcomer.context.post(lambda: newcomer.begin(state))

    def begin(self, state: bytes) -> None:
        if self.is_ready:
            return
        self.is_ready = True
        self.channel.initialize(state)
        inbox, self._inbox = self._inbox or deque(), None
        while inbox:
            inbox.popleft()()

    def channel_send(self, message: bytes) -> None:
        self.hub.sent.append((self.group, message))
        self.context.post(lambda: self._order(message))

    def _order(self, message: bytes) -> None:
        for member in list(self.hub.members(self.group)):
            member.take(message)

    def take(self, message: bytes) -> None:
        if self.is_ready:
            self.channel.receive(message)
        elif self._inbox is not None:
            self._inbox.append(lambda: self.channel.receive(message))


CHANNELS = (MemoryUnreliable, MemoryReliable, MemoryCheckpointed)
