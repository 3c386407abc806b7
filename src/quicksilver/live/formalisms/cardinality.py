"""How many instances of an endpoint are connected at any one time (2.1.3).

    formula := clause { "and" clause }
    clause  := ("at most" | "at least" | "exactly") number
               ["instance" | "instances"] ["of" endpoint] [["can"] "be"] ["connected"]

A constraint of an object names the endpoint, one of an endpoint means its own. A
formula is an interval for each endpoint; it implies another when its intervals
lie inside the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Formalism, Monitor, Observed
from quicksilver.live.formalisms.structure import CONNECT, DISCONNECT, Structure
from quicksilver.live.formalisms.tokens import Cursor

EVENTS_KEPT_MAX = 64


class Interval(msgspec.Struct, frozen=True):
    """From ``least`` to ``most`` instances; ``most`` None is no limit."""

    endpoint: str
    least: int = 0
    most: int | None = None

    @property
    def is_empty(self) -> bool:
        """Say whether no number lies in it."""
        return self.most is not None and self.most < self.least

    def is_inside(self, other: Interval) -> bool:
        """Say whether all numbers of this interval lie in the other."""
        if self.is_empty:
            return True
        if self.least < other.least:
            return False
        return other.most is None or (self.most is not None and self.most <= other.most)

    def meet(self, other: Interval) -> Interval:
        """Return the numbers in both."""
        limits = [most for most in (self.most, other.most) if most is not None]
        most = min(limits) if limits else None
        return Interval(self.endpoint, max(self.least, other.least), most)

    def __str__(self) -> str:
        of = f" of {self.endpoint}" if self.endpoint else ""
        upper = "any number" if self.most is None else str(self.most)
        return f"{self.least} to {upper}{of}"


Intervals: TypeAlias = tuple[Interval, ...]
"""A formula: one interval for each endpoint named, sorted by name."""


class Cardinality(Formalism[Intervals]):
    """The formalism ``cardinality``."""

    identifier = "cardinality"

    def parse(self, text: str, structure: Structure) -> Intervals:
        """Read clauses joined by ``and``."""
        cursor = Cursor(self.identifier, text)
        clauses = [_parse_clause(cursor, structure)]
        while cursor.accept("and", ",", "&"):
            clauses.append(_parse_clause(cursor, structure))
        cursor.expect_end()
        return self.conjoin([(clause,) for clause in clauses])

    def implies(self, stronger: Intervals, weaker: Intervals) -> bool:
        """Say whether every interval of ``weaker`` holds one of ``stronger``."""
        if any(interval.is_empty for interval in stronger):
            return True
        known = {interval.endpoint: interval for interval in stronger}
        return all(known.get(w.endpoint, Interval(w.endpoint)).is_inside(w) for w in weaker)

    def conjoin(self, formulas: Sequence[Intervals]) -> Intervals:
        """Return the common part of the intervals of each endpoint."""
        met: dict[str, Interval] = {}
        for interval in (one for formula in formulas for one in formula):
            before = met.get(interval.endpoint)
            met[interval.endpoint] = interval if before is None else before.meet(interval)
        return tuple(met[endpoint] for endpoint in sorted(met))

    def explain(self, stronger: Intervals, weaker: Intervals) -> str:
        """Name the number that one allows and the other does not."""
        known = {interval.endpoint: interval for interval in stronger}
        for wanted in weaker:
            given = known.get(wanted.endpoint, Interval(wanted.endpoint))
            if not given.is_inside(wanted):
                return f"{given} does not lie within {wanted}"
        return ""

    def monitor(self, formula: Intervals) -> Monitor:
        """Return a monitor that counts connected instances."""
        return _Counter(formula)


def _parse_clause(cursor: Cursor, structure: Structure) -> Interval:
    if cursor.accept("exactly"):
        bound = "exactly"
    else:
        cursor.expect("at")
        bound = cursor.expect("most", "least").text.lower()
    token = cursor.expect_kind("number", "a number of instances")
    if not token.text.isdigit():
        cursor.fail("a number of instances is whole and not negative", token)
    number = int(token.text)
    cursor.accept("instance", "instances")
    endpoint = _parse_endpoint(cursor, structure) if cursor.accept("of") else ""
    if structure.endpoints and not endpoint:
        cursor.fail(f"say of which endpoint: {', '.join(structure.endpoints)}")
    if cursor.accept("can"):
        cursor.expect("be")
    else:
        cursor.accept("is", "are", "be")
    cursor.accept("connected")
    least = 0 if bound == "most" else number
    most = None if bound == "least" else number
    return Interval(endpoint, least, most)


def _parse_endpoint(cursor: Cursor, structure: Structure) -> str:
    token = cursor.token
    if token.kind not in {"word", "text"}:
        cursor.fail(f"expected the name of an endpoint, found {token}")
    cursor.take()
    if token.text not in structure.endpoints:
        known = ", ".join(structure.endpoints) or "only this one, without 'of'"
        cursor.fail(f"no endpoint {token.text!r}; there is {known}", token)
    return token.text


class _Counter(Monitor):
    """Counts instances between ``connect`` and ``disconnect``.

    Too few is only said of an endpoint that once had enough: while the first
    instances are still connecting, nothing is broken.
    """

    def __init__(self, formula: Intervals) -> None:
        self._intervals = {interval.endpoint: interval for interval in formula}
        self._connected: dict[str, dict[str, Observed]] = {one: {} for one in self._intervals}
        self._was_enough = dict.fromkeys(self._intervals, False)

    def handle_event(self, event: Observed) -> Broken | None:
        interval = self._intervals.get(event.endpoint)
        if interval is None or event.name not in {CONNECT, DISCONNECT}:
            return None
        connected = self._connected[event.endpoint]
        if event.name == CONNECT:
            connected[event.instance] = event
        else:
            connected.pop(event.instance, None)
        number = len(connected)
        too_many = interval.most is not None and number > interval.most
        too_few = number < interval.least and self._was_enough[event.endpoint]
        self._was_enough[event.endpoint] |= number >= interval.least
        if not (too_many and event.name == CONNECT) and not too_few:
            return None
        proof = list(connected.values())
        if event.name == DISCONNECT:
            proof.append(event)
        kept = tuple(proof[-EVENTS_KEPT_MAX:])
        reason = f"{number} instances are connected, allowed are {interval}"
        return Broken(kept, reason, len(proof) - len(kept))
