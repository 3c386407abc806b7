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
            names = ", ".join(str(name) for name in row["failed"] or ())
            text = f"hears that {names} failed"
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


def choose_sentences(events: Iterable[Event], limit: int = SENTENCES_MAX) -> list[Event]:
    """Return the events to be told, in order: the rare ones first of all, then losses."""
    ordered = sorted(events, key=lambda event: (event.at, event.node))
    rare = [event for event in ordered if event.kind in RARE][:limit]
    losses = [event for event in ordered if event.kind in LOSSES][: limit - len(rare)]
    return sorted([*rare, *losses], key=lambda event: (event.at, event.node))
