"""Which of the events before a broken formula are needed to see that it is broken."""

from __future__ import annotations

from quicksilver.live.formalisms.base import Observed
from quicksilver.live.formalisms.structure import Place
from quicksilver.live.formalisms.temporal.automaton import Automaton, Values

EVENTS_TRIED_MAX = 64


def shorten_proof(automaton: Automaton, values: Values, events: list[Observed]) -> list[Observed]:
    """Leave out events one by one as long as the last still breaks the formula, and no other does.

    Events that carry other values, and those too far back to be tried, are left in
    only if it takes them.
    """
    if not _breaks_last(automaton, values, events):
        return events  # what broke it began before the events that were kept
    near = [one for one in events[:-1] if automaton.carries(one, values)] + events[-1:]
    kept = events
    for fewer in (near[-EVENTS_TRIED_MAX:], near, events[-EVENTS_TRIED_MAX:]):
        if _breaks_last(automaton, values, fewer):
            kept = fewer
            break
    place = 0
    while place < len(kept) - 1 and len(kept) <= EVENTS_TRIED_MAX:
        shorter = kept[:place] + kept[place + 1 :]
        if _breaks_last(automaton, values, shorter):
            kept = shorter
        else:
            place += 1
    return kept


def _breaks_last(automaton: Automaton, values: Values, events: list[Observed]) -> bool:
    """Say whether the formula holds at all events but the last."""
    state = automaton.start(values)
    instances: dict[str, int] = {}
    for event in events:
        number = instances.setdefault(event.instance, len(instances))
        place = Place(event.endpoint, event.direction, event.name)
        state, holds = automaton.step(state, number, automaton.letter(place, event.value, values))
        if not holds:
            return event is events[-1]
    return False
