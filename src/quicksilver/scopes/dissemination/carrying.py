"""A node's part in channels: which begin and end here, and where their other ends are.

Whoever works the source of a channel asks where the target is. Where the target cannot be
dialled it is the other way round: it asks where the source is, and comes by itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    Event,
    MechanismClosed,
    MechanismOpened,
    SourceAwaited,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.management.locating import (
    ChannelKey,
    EndKey,
    Found,
    Locator,
    key_of,
)
from quicksilver.scopes.management.messages import Medium, Orders, Source, Target
from quicksilver.scopes.routing import Channel

Key = ChannelKey

__all__ = ["Carrier", "Key", "key_of"]


@dataclass(slots=True)
class _Carried:
    """A channel whose source this node works."""

    source: Source
    opened: Channel | None = None
    """As it was opened; None while it is asked where its target is."""


@dataclass(slots=True)
class _Taken:
    """A channel whose target this node works."""

    target: Target
    opened: Channel | None = None


class Carrier:
    """Channels that begin or end at one node, and mechanisms that it uses."""

    def __init__(self, locator: Locator, events: deque[Event]) -> None:
        """What is to be told goes into the manager's own queue."""
        self._locator = locator
        self._events = events
        self._carried: dict[ChannelKey, _Carried] = {}
        self._taken: dict[ChannelKey, _Taken] = {}
        self._by_topic: dict[str, Orders] = {}

    def handle_orders(self, orders: Orders, now: float) -> None:
        """This node has these ends of channels for a topic, and no others."""
        before = self._by_topic.pop(orders.topic, Orders(orders.topic, (), ()))
        if orders.sources or orders.targets or orders.media:
            self._by_topic[orders.topic] = orders
        self._handle_sources(before.sources, orders.sources, now)
        self._handle_targets(before.targets, orders.targets, now)
        self._handle_media(orders.topic, before.media, orders.media)

    def orders_of(self, topic: str) -> Orders:
        """Return the ends that this node has for a topic."""
        return self._by_topic.get(topic, Orders(topic, (), ()))

    def handle_found(self, found: Found) -> None:
        """The other end of a channel was found."""
        assert isinstance(found.wanted, EndKey)
        assert isinstance(found.question, say.RequestChannel)
        key, of_source = found.wanted
        channel, where = found.question.channel, found.where
        if not of_source:
            carried = self._carried[key]
            carried.opened = channel
            source = carried.source
            self._events.append(SourceOpened(channel, source.filters, where, source.waits))
        elif isinstance(where, Link):
            self._taken[key].opened = channel
            self._events.append(TargetOpened(channel, where))

    def handle_link_lost(self, channel: Channel, now: float) -> None:
        """A channel does not reach its other end: ask anew where that is."""
        key = key_of(channel)
        carried, taken = self._carried.get(key), self._taken.get(key)
        if carried is not None and self._locator.handle_lost(EndKey(key, of_source=False), now):
            self._close_source(carried)
        if taken is not None and self._locator.handle_lost(EndKey(key, of_source=True), now):
            self._close_target(taken)

    def state_of(self, key: ChannelKey, *, of_source: bool) -> str:
        """Return how it stands with an end that this node works, in a few words."""
        if of_source:
            carried = self._carried.get(key)
            is_open = carried is not None and carried.opened is not None
        else:
            taken = self._taken.get(key)
            is_open = taken is not None and taken.opened is not None
        problem = self._locator.problem(EndKey(key, not of_source))
        return "open" if is_open else f"searching: {problem}" if problem else "searching"

    # Ends

    def _handle_sources(
        self, before: tuple[Source, ...], now_wanted: tuple[Source, ...], now: float
    ) -> None:
        wanted = {key_of(source.channel): source for source in now_wanted}
        for key in [key_of(source.channel) for source in before]:
            if key in self._carried and wanted.get(key) != self._carried[key].source:
                self._locator.forget(EndKey(key, of_source=False))
                self._close_source(self._carried.pop(key))
        for key, source in wanted.items():
            if key in self._carried:
                continue
            carried = self._carried[key] = _Carried(source)
            if source.address:
                self._locator.find(say.RequestChannel(source.channel), source.address, now)
            else:
                carried.opened = source.channel
                self._events.append(SourceAwaited(source.channel, source.filters, source.waits))

    def _close_source(self, carried: _Carried) -> None:
        if carried.opened is not None:
            self._events.append(SourceClosed(carried.opened))
            carried.opened = None

    def _handle_targets(
        self, before: tuple[Target, ...], now_wanted: tuple[Target, ...], now: float
    ) -> None:
        wanted = {key_of(target.channel): target for target in now_wanted}
        for key in [key_of(target.channel) for target in before]:
            if key not in self._taken:
                continue
            old, new = self._taken[key].target, wanted.get(key)
            # Whoever works the source may change: then the target is only told anew.
            if new is None or (new.channel.target, new.address) != (
                old.channel.target,
                old.address,
            ):
                self._locator.forget(EndKey(key, of_source=True))
                self._close_target(self._taken.pop(key))
        for key, target in wanted.items():
            taken = self._taken.get(key)
            if taken is not None and (taken.target == target or target.address):
                taken.target = target
                continue
            self._taken[key] = _Taken(target)
            if target.address:
                question = say.RequestChannel(target.channel, of_source=True)
                self._locator.find(question, target.address, now)
            else:
                self._taken[key].opened = target.channel
                self._events.append(TargetOpened(target.channel))

    def _close_target(self, taken: _Taken) -> None:
        if taken.opened is not None:
            self._events.append(TargetClosed(taken.opened))
            taken.opened = None

    def _handle_media(
        self, topic: str, before: tuple[Medium, ...], wanted: tuple[Medium, ...]
    ) -> None:
        scopes = {medium.scope for medium in wanted}
        for medium in before:
            if medium.scope not in scopes:
                self._events.append(MechanismClosed(topic, medium.scope))
        for medium in wanted:
            if medium not in before:
                self._events.append(
                    MechanismOpened(topic, medium.scope, medium.where, medium.path, medium.to)
                )
