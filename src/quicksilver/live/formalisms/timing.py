"""How soon one event follows another, and how surely (2.1.3).

    formula := clause { ("and" | ";") clause }
    clause  := ["in" | "at least"] number "%" ["of" ("cases" | "the time")] [","]
               event ["everywhere"] "within" number unit ("of" | "after") event
             | ... event "everywhere" "within" number unit
    unit    := "us" | "ms" | "s" | "min"

The first form bounds the time from a cause to its effect, here or at every
instance; the second the time between the first and the last instance at which
an event occurs. More percent, less time and more instances say more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Formalism, Monitor, Observed
from quicksilver.live.formalisms.structure import Place, Structure
from quicksilver.live.formalisms.tokens import Cursor, Token

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000}
WAITING_MAX = 10_000
CASES_JUDGED = 1_000


class Promise(msgspec.Struct, frozen=True):
    """In this share of cases, the effect is there within this time of the cause."""

    permyriad: int
    """The share in hundredths of a percent."""
    effect: Place
    cause: Place | None
    """What time is counted from; None: the first occurrence of the effect at any instance."""
    everywhere: bool
    within_us: int

    def implies(self, weaker: Promise) -> bool:
        """Say whether this promise alone keeps the weaker one."""
        return (
            (self.effect, self.cause) == (weaker.effect, weaker.cause)
            and self.permyriad >= weaker.permyriad
            and self.within_us <= weaker.within_us
            and (self.everywhere or not weaker.everywhere)
        )

    def __str__(self) -> str:
        where = " everywhere" if self.everywhere else ""
        cause = f" of {self.cause}" if self.cause else ""
        share = f"{self.permyriad / 100:g}"
        return f"in {share}% of cases {self.effect}{where} within {self.within_us} us{cause}"


Promises: TypeAlias = frozenset[Promise]


class Timing(Formalism[Promises]):
    """The formalism ``timing``."""

    identifier = "timing"

    def parse(self, text: str, structure: Structure) -> Promises:
        """Read promises joined by ``and``."""
        cursor = Cursor(self.identifier, text)
        promises = [_parse_promise(cursor, structure)]
        while cursor.accept("and", ";"):
            promises.append(_parse_promise(cursor, structure))
        cursor.expect_end()
        return frozenset(promises)

    def implies(self, stronger: Promises, weaker: Promises) -> bool:
        """Say whether every weaker promise is kept by a stronger one."""
        return all(any(s.implies(w) for s in stronger) for w in weaker)

    def conjoin(self, formulas: Sequence[Promises]) -> Promises:
        """Return all promises."""
        return frozenset[Promise]().union(*formulas)

    def explain(self, stronger: Promises, weaker: Promises) -> str:
        """Name the promises that nothing keeps."""
        missing = [w for w in weaker if not any(s.implies(w) for s in stronger)]
        return f"nothing there promises {'; '.join(sorted(map(str, missing)))}"

    def monitor(self, formula: Promises) -> Monitor | None:
        """Return a monitor of the promises that one instance can judge, or None."""
        local = [one for one in formula if not one.everywhere and one.cause is not None]
        return _Stopwatch(sorted(local, key=str)) if local else None


def _parse_promise(cursor: Cursor, structure: Structure) -> Promise:
    if cursor.accept("at"):
        cursor.expect("least")
    else:
        cursor.accept("in")
    percent = cursor.expect_kind("number", "a percentage")
    permyriad = Fraction(percent.text) * 100
    if not 0 < permyriad <= 10_000 or permyriad.denominator != 1:
        cursor.fail("a percentage is over 0, at most 100, with two decimals at most", percent)
    cursor.expect("%", "percent")
    if cursor.accept("of"):
        if cursor.accept("the"):
            cursor.expect("time")
        else:
            cursor.expect("cases")
    cursor.accept(",")
    effect = _parse_event(cursor, structure)
    everywhere = cursor.accept("everywhere") is not None
    cursor.expect("within")
    duration = cursor.expect_kind("number", "a duration")
    unit = cursor.expect(*_UNITS_US)
    within_us = Fraction(duration.text) * _UNITS_US[unit.text.lower()]
    if within_us <= 0 or within_us.denominator != 1:
        cursor.fail("a duration is at least a microsecond, and whole microseconds", duration)
    cause = _parse_event(cursor, structure) if cursor.accept("of", "after") else None
    if cause is None and not everywhere:
        cursor.fail(
            "expected 'of' and the event it follows: without 'everywhere' there must be one"
        )
    return Promise(int(permyriad), effect, cause, everywhere, int(within_us))


def _parse_event(cursor: Cursor, structure: Structure) -> Place:
    first = cursor.expect_kind("word", "an event")
    endpoint, name = "", first.text
    if cursor.accept("."):
        endpoint, name = name, cursor.expect_kind("word", "an event").text
    return _only(cursor, structure, endpoint, name, first)


def _only(cursor: Cursor, structure: Structure, endpoint: str, name: str, at: Token) -> Place:
    places = structure.find(endpoint, "", name)
    if not places:
        cursor.fail(f"no event {name!r}; there is {', '.join(structure.names) or 'none'}", at)
    if len(places) > 1:
        cursor.fail(f"{name!r} both comes in and goes out: it cannot be timed", at)
    return places[0]


class _Stopwatch(Monitor):
    """Times each cause until the next effect with an equal value, or any if they carry none.

    A promise of all cases is broken by the first late one; another when more of
    the last thousand cases were late than it allows.
    """

    def __init__(self, promises: list[Promise]) -> None:
        self._promises = promises
        self._waiting: list[deque[Observed]] = [deque(maxlen=WAITING_MAX) for _ in promises]
        self._late: list[deque[Observed | None]] = [deque(maxlen=CASES_JUDGED) for _ in promises]

    def handle_event(self, event: Observed) -> Broken | None:
        place = Place(event.endpoint, event.direction, event.name)
        broken: Broken | None = None
        for number, promise in enumerate(self._promises):
            late = self._find_late(number, promise, event, place)
            if late is not None:
                broken = broken or self._judge(number, promise, late, event)
            if place == promise.cause:
                self._waiting[number].append(event)
        return broken

    def _find_late(
        self, number: int, promise: Promise, event: Observed, place: Place
    ) -> Observed | None:
        """Note the case that this event ends; return a cause whose time has run out."""
        waiting = self._waiting[number]
        if place == promise.effect:
            for cause in waiting:
                if cause.instance == event.instance and _fits(cause.value, event.value):
                    waiting.remove(cause)
                    if event.time_s - cause.time_s > promise.within_us / 1e6:
                        self._late[number].append(cause)
                        return cause
                    self._late[number].append(None)
                    return None
        if waiting and event.time_s - waiting[0].time_s > promise.within_us / 1e6:
            cause = waiting.popleft()
            self._late[number].append(cause)
            return cause
        return None

    def _judge(
        self, number: int, promise: Promise, cause: Observed, event: Observed
    ) -> Broken | None:
        cases = self._late[number]
        late = [case for case in cases if case is not None]
        allowed = len(cases) * (10_000 - promise.permyriad)
        # Fewer cases than one allowed failure needs say nothing about a share.
        enough = promise.permyriad == 10_000 or (
            len(cases) * (10_000 - promise.permyriad) >= 10_000
        )
        if not enough or len(late) * 10_000 <= allowed:
            return None
        reason = f"{len(late)} of {len(cases)} cases were late: {promise}"
        return Broken((*late[-8:-1], cause, event), reason)


def _fits(cause: object, effect: object) -> bool:
    return cause is None or effect is None or cause == effect
