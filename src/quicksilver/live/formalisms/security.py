"""Who may have sent an event and who may read it.

    formula   := clause { ("and" | "&" | ";") clause }
    clause    := [event ":"] guarantee
    guarantee := "authenticated" ["from" names] | "signed" ["by" names]
               | "confidential" ["to" names] | "intact" | "fresh"
    names     := name { ("or" | ",") name }

A guarantee without an event holds for all events. ``signed`` is authentication
that can be shown to others, so it implies ``authenticated``; both imply
``intact``. Fewer names say more: from alice implies from alice or bob.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Formalism
from quicksilver.live.formalisms.structure import Place, Structure
from quicksilver.live.formalisms.tokens import Cursor

Guarantee: TypeAlias = Literal["authenticated", "signed", "confidential", "intact", "fresh"]

_FOLLOWS: dict[Guarantee, tuple[Guarantee, ...]] = {
    "signed": ("signed", "authenticated", "intact"),
    "authenticated": ("authenticated", "intact"),
    "confidential": ("confidential",),
    "intact": ("intact",),
    "fresh": ("fresh",),
}
_NAMES_AFTER: dict[Guarantee, str] = {
    "authenticated": "from",
    "signed": "by",
    "confidential": "to",
}


class Clause(msgspec.Struct, frozen=True):
    """A guarantee for one kind of event, or for all; ``names`` None is anybody."""

    guarantee: Guarantee
    event: Place | None = None
    names: frozenset[str] | None = None

    def implies(self, weaker: Clause) -> bool:
        """Say whether this clause alone gives what the weaker one asks for."""
        if weaker.guarantee not in _FOLLOWS[self.guarantee]:
            return False
        if self.event is not None and self.event != weaker.event:
            return False
        if weaker.names is None:
            return True
        return self.names is not None and self.names <= weaker.names

    def __str__(self) -> str:
        event = f"{self.event}: " if self.event else ""
        if self.names is None:
            return f"{event}{self.guarantee}"
        names = " or ".join(sorted(self.names)) or "nobody"
        return f"{event}{self.guarantee} {_NAMES_AFTER[self.guarantee]} {names}"


Clauses: TypeAlias = frozenset[Clause]


class Security(Formalism[Clauses]):
    """The formalism ``security``."""

    identifier = "security"

    def parse(self, text: str, structure: Structure) -> Clauses:
        """Read clauses joined by ``and``."""
        cursor = Cursor(self.identifier, text)
        clauses = set(_parse_clause(cursor, structure))
        while cursor.accept("and", "&", ";"):
            clauses |= _parse_clause(cursor, structure)
        cursor.expect_end()
        return self.conjoin([frozenset(clauses)])

    def implies(self, stronger: Clauses, weaker: Clauses) -> bool:
        """Say whether every weaker clause follows from a stronger one."""
        return not self._missing(stronger, weaker)

    def conjoin(self, formulas: Sequence[Clauses]) -> Clauses:
        """Return all clauses; names of the same guarantee for the same events are intersected."""
        met: dict[tuple[Guarantee, Place | None], Clause] = {}
        for clause in (one for formula in formulas for one in formula):
            key = (clause.guarantee, clause.event)
            before = met.get(key)
            if before is None or before.names is None:
                met[key] = clause
            elif clause.names is not None:
                met[key] = Clause(clause.guarantee, clause.event, before.names & clause.names)
        return frozenset(met.values())

    def explain(self, stronger: Clauses, weaker: Clauses) -> str:
        """Name the clauses that do not follow."""
        missing = sorted(map(str, self._missing(stronger, weaker)))
        return f"nothing there gives {'; '.join(missing)}"

    @staticmethod
    def _missing(stronger: Clauses, weaker: Clauses) -> list[Clause]:
        return [w for w in weaker if not any(s.implies(w) for s in stronger)]


def _parse_clause(cursor: Cursor, structure: Structure) -> set[Clause]:
    events: list[Place | None] = [None]
    if cursor.peek().text in {":", "."} and cursor.token.kind == "word":
        events = [*_parse_event(cursor, structure)]
        cursor.expect(":")
    token = cursor.expect(*_FOLLOWS)
    guarantee = msgspec.convert(token.text.lower(), Guarantee)
    names: frozenset[str] | None = None
    if guarantee in _NAMES_AFTER and cursor.accept(_NAMES_AFTER[guarantee]):
        found = {_parse_name(cursor)}
        while cursor.accept("or", ","):
            found.add(_parse_name(cursor))
        names = frozenset(found)
    return {Clause(guarantee, event, names) for event in events}


def _parse_event(cursor: Cursor, structure: Structure) -> list[Place]:
    first = cursor.expect_kind("word", "an event")
    endpoint, name = "", first.text
    if cursor.accept("."):
        endpoint, name = name, cursor.expect_kind("word", "an event").text
    places = structure.find(endpoint, "", name)
    if not places:
        cursor.fail(f"no event {name!r}; there is {', '.join(structure.names) or 'none'}", first)
    return places


def _parse_name(cursor: Cursor) -> str:
    if cursor.token.kind not in {"word", "text"}:
        cursor.fail(f"expected a name, found {cursor.token}")
    return cursor.take().text
