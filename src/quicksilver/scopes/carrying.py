"""A node's part in channels: it asks where to send, and tells when it knows.

The manager of a channel's target knows, or names the manager that does, down to a node
("X is left with a tree with filters in the internal nodes and address and protocol pairs at
the leaves", dissertation 3.2.4). Whoever does not answer is asked again later, from the top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from quicksilver.scopes import messages as say
from quicksilver.scopes.channels import External, Link
from quicksilver.scopes.events import (
    Dial,
    Event,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.messages import Message, Referral, Source
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.timers import TimerTable


class Key(NamedTuple):
    """A channel as its scope knows it, whoever works its ends."""

    scope: str
    source: str
    target: str
    topic: str
    origin: str


def key_of(channel: Channel) -> Key:
    return Key(channel.scope, channel.source[0], channel.target[0], channel.topic, channel.origin)


@dataclass(slots=True)
class _Carried:
    """A channel whose source this node works."""

    source: Source
    channel: Channel
    """As far as the target's end is known."""
    address: str
    """Of the manager that is asked now."""
    where: Link | External | None = None
    """Where its messages go; None while that is being asked."""
    tries: int = 0


class Carrier:
    """Channels that begin or end at one node."""

    def __init__(
        self,
        pause_s: Callable[[int], float],
        out: deque[tuple[int, Message]],
        dials: deque[Dial],
        events: deque[Event],
    ) -> None:
        """What is to be said, dialled and told goes into the manager's own queues."""
        self._pause_s = pause_s
        self._out = out
        self._dials = dials
        self._events = events
        self._carried: dict[Key, _Carried] = {}
        self._targets: dict[Key, Channel] = {}
        self._conns: dict[str, int | None] = {}
        """Connections to managers that are asked, by address; None while they are made."""
        self._waiting: dict[str, list[Message]] = {}
        """What is said on them as soon as they are there."""
        self._retries: TimerTable[Key] = TimerTable()

    # Inputs

    def handle_orders(
        self, topic: str, sources: tuple[Source, ...], targets: tuple[Channel, ...]
    ) -> None:
        """This node has these ends of channels for a topic, and no others."""
        wanted = {key_of(source.channel): source for source in sources}
        for key, carried in list(self._carried.items()):
            if key.topic == topic and wanted.get(key) != carried.source:
                self._drop(key)
        for key, source in wanted.items():
            if key not in self._carried:
                self._carried[key] = _Carried(source, source.channel, source.address)
                self._ask(self._carried[key])
        announced = {key_of(channel): channel for channel in targets}
        for key, channel in list(self._targets.items()):
            if key.topic == topic and announced.get(key) != channel:
                del self._targets[key]
                self._events.append(TargetClosed(channel))
        for key, channel in announced.items():
            if key not in self._targets:
                self._targets[key] = channel
                self._events.append(TargetOpened(channel))

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel does not reach its target: ask anew where it is."""
        key = key_of(channel)
        carried = self._carried.get(key)
        if carried is not None and carried.where is not None:
            self._events.append(SourceClosed(carried.channel))
            self._retry(key, carried, now)

    def handle_dialled(self, address: str, conn: int | None, now: float) -> None:
        if address not in self._conns:
            return
        waiting = self._waiting.pop(address, [])
        if conn is None:
            self._handle_unreachable(address, now)
            return
        self._conns[address] = conn
        self._out.extend((conn, message) for message in waiting)

    def handle_closed(self, conn: int, now: float) -> None:
        for address, known in list(self._conns.items()):
            if known == conn:
                self._handle_unreachable(address, now)

    def handle_message(self, conn: int, message: Message, now: float) -> bool:
        """Take an answer; False: it is none that this node waits for."""
        if conn not in self._conns.values():
            return False
        match message:
            case say.OfferChannel(channel, where):
                return self._handle_offer(channel, where)
            case say.ChannelRefused(channel):
                key = key_of(channel)
                carried = self._carried.get(key)
                if carried is not None and carried.where is None:
                    self._retry(key, carried, now)
                return True
            case _:
                return False

    def handle_timeout(self, now: float) -> None:
        for key in self._retries.pop_due(now):
            carried = self._carried.get(key)
            if carried is not None and carried.where is None:
                self._ask(carried)

    def next_timeout(self) -> float | None:
        return self._retries.next()

    # Asking

    def _ask(self, carried: _Carried) -> None:
        request = say.RequestChannel(carried.channel)
        address = carried.address
        conn = self._conns.get(address)
        if conn is not None:
            self._out.append((conn, request))
            return
        self._waiting.setdefault(address, []).append(request)
        if address not in self._conns:
            self._conns[address] = None
            self._dials.append(Dial(address))

    def _handle_offer(self, channel: Channel, where: Link | External | Referral) -> bool:
        carried = self._carried.get(key_of(channel))
        if carried is None or carried.where is not None:
            return False
        asked = carried.channel
        if channel.source != asked.source or channel.target[: len(asked.target)] != asked.target:
            return False
        if isinstance(where, Referral):
            if len(channel.target) != len(asked.target) + 1:
                return False
            carried.channel, carried.address = channel, where.address
            self._ask(carried)
            return True
        carried.where, carried.tries = where, 0
        self._events.append(SourceOpened(carried.channel, carried.source.filters, where))
        return True

    def _retry(self, key: Key, carried: _Carried, now: float) -> None:
        """Begin again at the target itself, a little later."""
        carried.channel, carried.address = carried.source.channel, carried.source.address
        carried.where = None
        self._retries.set(key, now + self._pause_s(carried.tries))
        carried.tries += 1

    def _handle_unreachable(self, address: str, now: float) -> None:
        del self._conns[address]
        self._waiting.pop(address, None)
        for key, carried in self._carried.items():
            if carried.address == address and carried.where is None:
                self._retry(key, carried, now)

    def _drop(self, key: Key) -> None:
        carried = self._carried.pop(key)
        self._retries.cancel(key)
        if carried.where is not None:
            self._events.append(SourceClosed(carried.channel))
