"""Watching deliveries: repeated, overtaken, or in another order elsewhere.

A delivery property is about messages, and an endpoint shows values. Two equal
values need not be one message: two people may say the same. So only messages
that say who sent them and which of the sender's messages they are can show
anything: events with the fields ``sender`` and ``number``, where a sender counts
its messages upwards and uses no number twice. Of these,

- the same sender and number twice at one instance breaks *at most once*;
- a smaller number after a larger one of the same sender breaks *fifo*;
- two messages that two instances get in opposite orders break *total*.

Nothing else is reported. What is remembered is bounded, and what is forgotten
is not reported either.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Monitor, Observed
from quicksilver.live.formalisms.structure import Structure
from quicksilver.live.types.model import ANY, Scalar, StructOf, ValueType

REMEMBERED_MAX = 10_000
"""Messages that are remembered for each instance."""
INSTANCES_MAX = 16
"""Instances whose orders are compared; their number squared is what an event costs."""

Message: TypeAlias = tuple[Any, int]
"""Who sent it, and its number there."""


class _Instance:
    """What one instance was given by one kind of event."""

    def __init__(self) -> None:
        self.seen: OrderedDict[Message, tuple[int, Observed]] = OrderedDict()
        self.latest: OrderedDict[Any, tuple[int, Observed]] = OrderedDict()
        """The largest number of each sender."""
        self.count = 0
        self.furthest: dict[int, tuple[int, Message]] = {}
        """For each other instance: how far along there the messages are that were given here."""


class DeliveryMonitor(Monitor):
    """Watches for what breaks these properties; see the module for what can be shown."""

    def __init__(self, properties: frozenset[str]) -> None:
        self._is_once = "at most once" in properties
        self._is_fifo = "fifo" in properties
        self._is_total = "total" in properties
        self._instances: dict[tuple[str, str, str], _Instance] = {}

    def can_judge(self, structure: Structure) -> bool:
        """Whether any event that is delivered may say who sent it."""
        return any(
            place.direction == self.way and _may_identify(event.value)
            for place, event in structure.events.items()
        )

    def handle_event(self, event: Observed) -> Broken | None:
        """Take the next event; say whether it broke a property."""
        if event.direction != self.way:
            return None
        message = _identify(event.value)
        if message is None:
            return None
        key = (event.endpoint, event.name, event.instance)
        instance = self._instances.get(key)
        if instance is None:
            if len(self._instances) >= INSTANCES_MAX:
                return None
            instance = self._instances[key] = _Instance()
        broken = self._judge(instance, message, event)
        self._remember(instance, message, event)
        return broken

    def _judge(self, instance: _Instance, message: Message, event: Observed) -> Broken | None:
        sender, number = message
        before = instance.seen.get(message)
        if before is not None:
            if self._is_once:
                return Broken((before[1], event), f"message {number} of {sender!r} came twice")
            return None
        latest = instance.latest.get(sender)
        if self._is_fifo and latest is not None and number < latest[0]:
            reason = f"message {number} of {sender!r} came after its message {latest[0]}"
            return Broken((latest[1], event), reason)
        return self._compare(instance, message, event) if self._is_total else None

    def _compare(self, instance: _Instance, message: Message, event: Observed) -> Broken | None:
        """Look for a message that came before this one here, and after it elsewhere."""
        broken: Broken | None = None
        for other in self._others(event):
            there = other.seen.get(message)
            if there is None:
                continue
            furthest = instance.furthest.get(id(other))
            if furthest is None or furthest[0] < there[0]:
                instance.furthest[id(other)] = (there[0], message)
                continue
            later = furthest[1]
            if broken is None and later in instance.seen and later in other.seen:
                events = (
                    there[1],
                    other.seen[later][1],
                    instance.seen[later][1],
                    event,
                )
                reason = f"{_say(message)} and {_say(later)} came in two orders"
                broken = Broken(events, reason)
        return broken

    def _others(self, event: Observed) -> list[_Instance]:
        return [
            other
            for (endpoint, name, instance), other in self._instances.items()
            if (endpoint, name) == (event.endpoint, event.name) and instance != event.instance
        ]

    @staticmethod
    def _remember(instance: _Instance, message: Message, event: Observed) -> None:
        sender, number = message
        if message not in instance.seen:
            instance.seen[message] = (instance.count, event)
            instance.count += 1
            if len(instance.seen) > REMEMBERED_MAX:
                instance.seen.popitem(last=False)
        latest = instance.latest.get(sender)
        if latest is None or number > latest[0]:
            instance.latest[sender] = (number, event)
            if len(instance.latest) > REMEMBERED_MAX:
                instance.latest.popitem(last=False)


def _may_identify(type_: ValueType) -> bool:
    if isinstance(type_, StructOf):
        return {"sender", "number"} <= type_.by_name.keys()
    return not isinstance(type_, Scalar) or type_ == ANY


def _identify(value: Any) -> Message | None:
    """Return who sent a message and its number, if it says so."""
    if isinstance(value, Mapping):
        sender, number = value.get("sender"), value.get("number")
    elif isinstance(value, msgspec.Struct):
        sender, number = getattr(value, "sender", None), getattr(value, "number", None)
    else:
        return None
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if sender is None or not is_number or not isinstance(sender, str | int | bytes):
        return None
    assert isinstance(number, int)
    return sender, number


def _say(message: Message) -> str:
    return f"message {message[1]} of {message[0]!r}"
