"""A node's part in channels: it asks where to send, and tells when it knows.

The manager of a channel's target knows, or names the manager that does, down to a node
("X is left with a tree with filters in the internal nodes and address and protocol pairs at
the leaves", dissertation 3.2.4). Whoever does not answer is asked again later, from the top.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    Dial,
    Event,
    Purpose,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.management.messages import Message, Referral, Source
from quicksilver.scopes.names import PARTS_MAX
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
    is_asked: bool = False
    """True while an answer is waited for; False: it is asked again later."""
    tries: int = 0


@dataclass(slots=True)
class _Asking:
    """A manager that is asked."""

    conn: int | None = None
    """None while the connection is made."""
    keys: dict[Key, None] = field(default_factory=dict)
    """Channels that are asked for there, each once. With the last the connection ends."""


class Carrier:
    """Channels that begin or end at one node."""

    def __init__(
        self,
        pause_s: Callable[[int], float],
        answer_s: float,
        out: deque[tuple[int, Message]],
        closes: deque[int],
        dials: deque[Dial],
        events: deque[Event],
    ) -> None:
        """What is to be said, dialled and told goes into the manager's own queues.

        Whoever has not answered after ``answer_s`` is asked again, ``pause_s`` later.
        """
        self._pause_s = pause_s
        self._answer_s = answer_s
        self._closes = closes
        self._out = out
        self._dials = dials
        self._events = events
        self._carried: dict[Key, _Carried] = {}
        self._targets: dict[Key, Channel] = {}
        self._asking: dict[str, _Asking] = {}
        """Managers that are asked, by address …"""
        self._addresses: dict[int, str] = {}
        """… and their addresses, by connection."""
        self._timers: TimerTable[Key] = TimerTable()
        """When to ask again, or until when an answer is waited for."""

    # Inputs

    def handle_orders(
        self,
        topic: str,
        sources: tuple[Source, ...],
        targets: tuple[Channel, ...],
        now: float,
    ) -> None:
        """This node has these ends of channels for a topic, and no others."""
        wanted = {key_of(source.channel): source for source in sources}
        for key in list(self._carried):
            if key.topic == topic and wanted.get(key) != self._carried[key].source:
                self._drop(key)
        for key, source in wanted.items():
            if key not in self._carried:
                self._carried[key] = _Carried(source, source.channel, source.address)
                self._ask(key, now)
        announced = {key_of(channel): channel for channel in targets}
        for key, channel in list(self._targets.items()):
            if key.topic != topic:
                continue
            if key not in announced or announced[key].target != channel.target:
                del self._targets[key]
                self._events.append(TargetClosed(channel))
        for key, channel in announced.items():
            if self._targets.get(key) != channel:
                self._targets[key] = channel
                self._events.append(TargetOpened(channel))

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel does not reach its target: ask anew where it is."""
        key = key_of(channel)
        carried = self._carried.get(key)
        if carried is not None and carried.where is not None:
            self._events.append(SourceClosed(carried.channel))
            self._retry(key, now)

    def handle_dialled(self, address: str, conn: int | None, now: float) -> None:
        asking = self._asking.get(address)
        if asking is None or asking.conn is not None:
            if conn is not None:
                self._closes.append(conn)
        elif conn is None:
            self._handle_unreachable(address, now)
        else:
            asking.conn = conn
            self._addresses[conn] = address
            for key in asking.keys:
                self._out.append((conn, say.RequestChannel(self._carried[key].channel)))

    def handle_closed(self, conn: int, now: float) -> None:
        address = self._addresses.get(conn)
        if address is not None:
            self._handle_unreachable(address, now)

    def handle_message(self, conn: int, message: Message, now: float) -> bool:
        """Take an answer; False: it is none that this node waits for."""
        if not isinstance(message, say.OfferChannel | say.ChannelRefused):
            return False
        address = self._addresses.get(conn)
        key = key_of(message.channel)
        if address is None or key not in self._asking[address].keys:
            return False
        if isinstance(message, say.ChannelRefused):
            self._retry(key, now)
            return True
        return self._handle_offer(key, message.channel, message.where, now)

    def handle_timeout(self, now: float) -> None:
        for key in self._timers.pop_due(now):
            if self._carried[key].is_asked:
                self._retry(key, now)
            else:
                self._ask(key, now)

    def next_timeout(self) -> float | None:
        return self._timers.next()

    # Asking

    def _ask(self, key: Key, now: float) -> None:
        carried = self._carried[key]
        carried.is_asked = True
        self._timers.set(key, now + self._answer_s)
        address = carried.address
        asking = self._asking.get(address)
        if asking is None:
            asking = self._asking[address] = _Asking()
            self._dials.append(Dial(address, Purpose.CHANNEL))
        asking.keys[key] = None
        if asking.conn is not None:
            self._out.append((asking.conn, say.RequestChannel(carried.channel)))

    def _stop_asking(self, key: Key) -> None:
        """No answer is waited for any more; whoever is not asked for anything is left alone."""
        carried = self._carried[key]
        self._timers.cancel(key)
        if not carried.is_asked:
            return
        carried.is_asked = False
        asking = self._asking[carried.address]
        del asking.keys[key]
        if not asking.keys:
            del self._asking[carried.address]
            if asking.conn is not None:
                del self._addresses[asking.conn]
                self._closes.append(asking.conn)

    def _handle_offer(
        self, key: Key, channel: Channel, where: Link | External | Referral, now: float
    ) -> bool:
        carried = self._carried[key]
        asked = carried.channel
        if channel.source != asked.source or channel.target[: len(asked.target)] != asked.target:
            return False
        if isinstance(where, Referral):
            # Each step names one more scope, and a channel names few: no referral goes on for ever.
            if not len(asked.target) < len(channel.target) <= min(len(asked.target) + 1, PARTS_MAX):
                return False
            self._stop_asking(key)
            carried.channel, carried.address = channel, where.address
            self._ask(key, now)
            return True
        self._stop_asking(key)
        carried.where, carried.tries = where, 0
        source = carried.source
        self._events.append(SourceOpened(carried.channel, source.filters, where, source.waits))
        return True

    def _retry(self, key: Key, now: float) -> None:
        """Begin again at the target itself, a little later."""
        self._stop_asking(key)
        carried = self._carried[key]
        carried.channel, carried.address = carried.source.channel, carried.source.address
        carried.where = None
        self._timers.set(key, now + self._pause_s(carried.tries))
        carried.tries += 1

    def _handle_unreachable(self, address: str, now: float) -> None:
        asking = self._asking.pop(address)
        if asking.conn is not None:
            del self._addresses[asking.conn]
        for key in asking.keys:
            self._carried[key].is_asked = False
            self._retry(key, now)

    def _drop(self, key: Key) -> None:
        self._stop_asking(key)
        carried = self._carried.pop(key)
        if carried.where is not None:
            self._events.append(SourceClosed(carried.channel))
