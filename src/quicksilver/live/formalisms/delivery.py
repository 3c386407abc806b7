"""How messages are delivered, as a lattice of known facts (2.1.3, last paragraphs).

A formula is a conjunction of properties: ``total and at most once``. Facts say
which properties imply which; together with them a set of properties stands for
all that follows from it, and one formula implies another when everything the
other says follows. So the formulas form a lattice: ``and`` is its meet, what two
formulas have in common its join, ``best effort`` its top.

The facts built in follow the dissertation: a total order also satisfies who asks
for FIFO (2.1.2), and "a virtually synchronous channel is also best-effort and
ordered". Libraries add properties and facts of their own.

    formula  := property { ("and" | "&" | ",") property }
    property := word { ["-"] word }          spaces, hyphens and underscores are the same

Monitors watch deliveries: repeated, overtaken, or in another order elsewhere. A
delivery property is about messages, and an endpoint shows values. Two equal
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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Formalism, Monitor, Observed
from quicksilver.live.formalisms.structure import Structure
from quicksilver.live.formalisms.tokens import Cursor
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


Property: TypeAlias = str
Properties: TypeAlias = frozenset[Property]
"""A formula: all of these properties hold."""


class Fact(msgspec.Struct, frozen=True):
    """Whatever has all the properties of ``given`` also has ``then``."""

    given: Properties
    then: Property


BEST_EFFORT = "best effort"
STANDARD_PROPERTIES = (
    BEST_EFFORT,
    "at most once",
    "at least once",
    "exactly once",
    "fifo",
    "causal",
    "total",
    "atomic",
    "virtually synchronous",
    "transactional",
)
STANDARD_FACTS = (
    (("at most once", "at least once"), "exactly once"),
    (("exactly once",), "at most once"),
    (("exactly once",), "at least once"),
    (("causal",), "fifo"),
    (("total",), "fifo"),
    (("virtually synchronous",), "atomic"),
    (("virtually synchronous",), "fifo"),
    (("virtually synchronous",), "at most once"),
    (("transactional",), "atomic"),
    (("transactional",), "total"),
    (("transactional",), "at most once"),
)


class Delivery(Formalism[Properties]):
    """The formalism ``delivery``."""

    identifier = "delivery"

    def __init__(self) -> None:
        self._properties: set[Property] = set(STANDARD_PROPERTIES)
        self._facts = [Fact(frozenset(given), then) for given, then in STANDARD_FACTS]

    @property
    def properties(self) -> tuple[Property, ...]:
        """Return all known properties, sorted."""
        return tuple(sorted(self._properties))

    def add_property(self, name: str, *, implies: Iterable[str] = ()) -> None:
        """Make a property known, and what follows from it."""
        self._properties.add(_normalise(name))
        self.revision += 1
        for then in implies:
            self.add_fact([name], then)

    def add_fact(self, given: Iterable[str], then: str) -> None:
        """State that whatever has all of ``given`` also has ``then``."""
        names = [_normalise(name) for name in (*given, then)]
        for name in names:
            if name not in self._properties:
                raise ValueError(f"no delivery property is called {name!r}: add it first")
        self._facts.append(Fact(frozenset(names[:-1]), names[-1]))
        self.revision += 1

    def parse(self, text: str, structure: Structure) -> Properties:
        """Read a conjunction of properties."""
        cursor = Cursor(self.identifier, text)
        found = {self._parse_property(cursor)}
        while cursor.accept("and", "&", "&&", ","):
            found.add(self._parse_property(cursor))
        cursor.expect_end()
        return frozenset(found)

    def _parse_property(self, cursor: Cursor) -> Property:
        first = cursor.expect_kind("word", "a property")
        words = [first.text]
        while True:
            cursor.accept("-")
            if cursor.token.kind != "word" or cursor.is_at("and"):
                break
            words.append(cursor.take().text)
        name = _normalise(" ".join(words))
        if name not in self._properties:
            cursor.fail(f"no property {name!r}; known: {', '.join(self.properties)}", first)
        return name

    def closure(self, formula: Properties) -> Properties:
        """Return everything that follows from a formula."""
        closed = {*formula, BEST_EFFORT}
        grown = True
        while grown:
            found = {fact.then for fact in self._facts if fact.given <= closed} - closed
            grown = bool(found)
            closed |= found
        return frozenset(closed)

    def implies(self, stronger: Properties, weaker: Properties) -> bool:
        """Say whether all that ``weaker`` says follows from ``stronger``."""
        return weaker <= self.closure(stronger)

    def conjoin(self, formulas: Sequence[Properties]) -> Properties:
        """Return the meet: everything that any of them says."""
        return frozenset[Property]().union(*formulas)

    def join(self, one: Properties, other: Properties) -> Properties:
        """Return the strongest formula that both imply."""
        return self.closure(one) & self.closure(other)

    def explain(self, stronger: Properties, weaker: Properties) -> str:
        """Name the properties that do not follow."""
        missing = sorted(weaker - self.closure(stronger))
        return f"{', '.join(missing)} does not follow from {' and '.join(sorted(stronger))}"

    def monitor(self, formula: Properties) -> Monitor | None:
        """Return a monitor of what messages can show that say who sent them."""
        closed = self.closure(formula)
        return DeliveryMonitor(closed) if closed & _WATCHED else None


_WATCHED = frozenset({"at most once", "fifo", "total"})


def _normalise(name: str) -> Property:
    return " ".join(name.replace("-", " ").replace("_", " ").lower().split())
