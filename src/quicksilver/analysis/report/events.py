"""One run as it happened: who lost what, who repaired it, tokens, views, failures.

Out of millions of records a person can read some thousands. Rare events are all kept;
of the others the busiest stretch is chosen, so that a recovery is seen whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STRETCH_S = 2.0
SENTENCES_MAX = 200
RARE = frozenset({"ViewInstalled", "ViewRetired", "NodesFailed", "WasExcluded"})
LOSSES = frozenset({"PacketsMissed", "PacketsResent", "RepairsSent"})
SHOWN = RARE | LOSSES


@dataclass(frozen=True, slots=True)
class Event:
    """A record that a person is shown."""

    at: float
    node: int
    kind: str
    sentence: str
    other: int | None = None
    """The node it is also about: who was repaired."""
    packets: int = 0
    failed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """A token that came back."""

    at: float
    level: int
    seconds: float


def tell(row: Mapping[str, Any]) -> Event | None:
    """Return a record as a sentence; None for kinds that are not told."""
    kind, node, at = row["kind"], row["node"], row["at"]
    packets = int(row.get("packets") or 0)
    many = f"{packets} packet{'s' if packets != 1 else ''}"
    match kind:
        case "ViewInstalled":
            text = f"is in view {row['view']} of region {row['region']}, of {row['members']} nodes"
        case "ViewRetired":
            text = f"has finished view {row['view']} of region {row['region']}"
        case "PacketsMissed":
            text = f"lacks {many} of node {row['sender']} and asks for them"
            return Event(at, node, kind, text, row["sender"], packets)
        case "RepairsSent":
            text = f"sends node {row['to']} {many} of node {row['sender']}"
            return Event(at, node, kind, text, row["to"], packets)
        case "PacketsResent":
            text = f"repeats {many} for region {row['region']}"
        case "NodesFailed":
            failed = tuple(row["failed"] or ())
            names = ", ".join(str(name) for name in failed)
            text = f"hears that {'node' if len(failed) == 1 else 'nodes'} {names} failed"
            return Event(at, node, kind, text, None, 0, failed)
        case "WasExcluded":
            text = f"was counted as failed: {row['reason']}"
        case _:
            return None
    return Event(at, node, kind, text, None, packets)


def busiest_stretch(times: Sequence[float], stretch_s: float = STRETCH_S) -> tuple[float, float]:
    """Return the stretch of time with the most events; of the whole run if it is short."""
    ordered = sorted(times)
    if not ordered:
        return 0.0, 0.0
    if ordered[-1] - ordered[0] <= stretch_s:
        return ordered[0], ordered[-1]
    best, begin, first = 0, ordered[0], 0
    for place, at in enumerate(ordered):
        while at - ordered[first] > stretch_s:
            first += 1
        if place - first + 1 > best:
            best, begin = place - first + 1, ordered[first]
    return begin, begin + stretch_s


FAILURES = frozenset({"NodesFailed", "WasExcluded"})
BEFORE_S = 1.0
CLOSE_S = 0.08
"""A loss is asked for, repaired and acknowledged in some rounds of tokens."""


def choose_stretches(
    events: Sequence[Event], stretch_s: float = STRETCH_S
) -> list[tuple[str, float, float]]:
    """Return what to show event by event: a first failure, the most losses, one of them
    close up. Where the first two are the same time, it is shown once."""
    found: list[tuple[str, float, float]] = []
    failures = [event.at for event in events if event.kind in FAILURES]
    if failures:
        first = min(failures)
        found.append(
            ("A failure, and how the others go on", first - BEFORE_S, first + stretch_s - BEFORE_S)
        )
    losses = [event.at for event in events if event.kind in LOSSES]
    if losses:
        start, end = busiest_stretch(losses, stretch_s)
        if not any(a <= start and end <= b for _, a, b in found):
            found.append(("The most losses", start, max(end, start + 0.01)))
        start, end = busiest_stretch(losses, CLOSE_S)
        # A little room, so that the first mark and the last are not on the edge.
        found.append(("One recovery, close up", start - CLOSE_S / 4, end + CLOSE_S / 4))
    if not found and events:
        start, end = busiest_stretch([event.at for event in events], stretch_s)
        found.append(("Views", start, max(end, start + 0.01)))
    return found


def choose_sentences(
    events: Iterable[Event],
    limit: int = SENTENCES_MAX,
    stretches: Sequence[tuple[str, float, float]] = (),
) -> list[Event]:
    """Return the events to be told, in order.

    Rare ones before losses; of these, first what the stretches that are drawn show.
    """

    def is_drawn(event: Event) -> bool:
        return any(start <= event.at <= end for _, start, end in stretches)

    ordered = sorted(events, key=lambda event: (event.at, event.node))
    rare = [event for event in ordered if event.kind in RARE]
    losses = [event for event in ordered if event.kind in LOSSES]
    # Sorting is stable: drawn ones come first, and stay in order.
    for some in (rare, losses):
        some.sort(key=lambda event: not is_drawn(event))
    kept = rare[: limit // 2 if losses else limit]
    kept += losses[: limit - len(kept)]
    return sorted(kept, key=lambda event: (event.at, event.node))
