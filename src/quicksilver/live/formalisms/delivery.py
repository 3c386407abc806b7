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
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Formalism, Monitor
from quicksilver.live.formalisms.delivery_monitor import DeliveryMonitor
from quicksilver.live.formalisms.reading import Cursor
from quicksilver.live.formalisms.structure import Structure

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
