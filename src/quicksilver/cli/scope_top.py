"""``quicksilver top`` where the manager of a scope answers: members, topics, rates and lags.

What is shown managers tell, that of the scope and those below it (``scope_view``): nodes count
their own messages, and a rate is the difference between two looks.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from quicksilver.cli.scope_view import NOT_ASKED, Told, look
from quicksilver.stdx.units import format_rate

if TYPE_CHECKING:
    from rich.console import RenderableType

RATES = {
    "published": "published_per_second",
    "delivered": "delivered_per_second",
    "forwarded": "forwarded_per_second",
    "repaired": "repaired_per_second",
    "gaps": "gaps_per_second",
}
"""Counts that are shown as rates, and what they are called then."""

LEVELS = ("unstable", "early")
"""Counts that are shown as they are: a node's own messages that others may lack, and others'
messages that wait for a missing one."""

NODES_MAX = 200
TOPICS_MAX = 20
"""Rows of the tables; JSON has all."""


class ScopeMeter:
    """Looks at a tree of scopes again and again."""

    def __init__(self, manager: str) -> None:
        self._manager = manager
        self._before: dict[str, tuple[float, dict[str, int]]] = {}
        self.rates: dict[str, dict[str, float]] = {}
        """By scope, once it was looked at twice."""

    def look(self) -> Told:
        """Return the scopes as they are now. Raises ``InspectError``."""
        top = asyncio.run(look(self._manager))
        now = time.monotonic()
        before, self._before, self.rates = self._before, {}, {}
        for _, told in top.walk():
            counts = counts_of(told)
            self._before[told.name] = now, counts
            if counts and told.name in before:
                then, old = before[told.name]
                self.rates[told.name] = {
                    # A node that has started again counts from the beginning.
                    each: max(0, counts.get(each, 0) - old.get(each, 0)) / max(now - then, 1e-3)
                    for each in RATES
                }
        return top


def counts_of(told: Told) -> dict[str, int]:
    """Return what a node has counted; what is no number counts nothing."""
    rows = [row for row in told.rows if row.kind == "traffic"]
    return {
        name: int(text[:18])
        for row in rows
        for name, text in row.facts.items()
        if text.isascii() and text.isdigit()
    }


def as_dict(top: Told, meter: ScopeMeter) -> dict[str, Any]:
    """Return what the tables show as plain data."""
    return {
        "scope": top.name,
        "facts": top.facts,
        "owners": [{"name": row.name, **row.facts} for row in _rows(top, "owner")],
        "members": [
            {
                "name": told.name,
                "parent": told.parent,
                "address": told.address,
                "problem": told.problem,
                "facts": told.facts,
                **{name: counts_of(told).get(name, 0) for name in LEVELS},
                **{
                    name: round(meter.rates.get(told.name, {}).get(count, 0.0), 1)
                    for count, name in RATES.items()
                },
            }
            for depth, told in top.walk()
            if depth
        ],
        "topics": [{"name": row.name, **row.facts} for row in _rows(top, "topic")],
    }


def render(top: Told, meter: ScopeMeter) -> RenderableType:
    """Return the tables that people see."""
    from quicksilver.cli.screen import SafeTable, stack, styled

    members = [each for each in top.walk() if each[0]]
    facts = top.facts
    head = styled(
        f"scope {top.name}  {facts.get('state', '?')}  members {facts.get('members', '?')}  "
        f"topics {facts.get('topics', '?')}  scopes and nodes below {len(members)}",
        "bold",
    )
    for owner in _rows(top, "owner"):
        state = owner.facts.get("state", "?")
        style = "not bold" if state == "connected" else "red"
        head.append(f"\nowner {owner.name} at {owner.facts.get('address', '?')}: {state}", style)
    table = SafeTable(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="reverse")
    table.add_column("member", overflow="ellipsis", no_wrap=True)
    for heading in ("topics", "pub/s", "recv/s", "fwd/s", "fixed/s", "unstable", "early"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for depth, told in members[:NODES_MAX]:
        table.add_row("  " * (depth - 1) + told.name, *_cells(told, meter), _state(told, meter))
    if len(members) > NODES_MAX:
        table.add_row(f"… and {len(members) - NODES_MAX} more")
    return stack(head, table, _topic_table(top))


def _cells(told: Told, meter: ScopeMeter) -> list[str]:
    rates, counts = meter.rates.get(told.name), counts_of(told)
    shown = [told.facts.get("topics", "")]
    for count in ("published", "delivered", "forwarded", "repaired"):
        rate = "" if rates is None else format_rate(rates[count], "")
        shown.append(rate.removesuffix("/s").replace(" ", ""))
    return shown + [f"{counts[level]:,}" if level in counts else "" for level in LEVELS]


def _state(told: Told, meter: ScopeMeter) -> Any:
    from quicksilver.cli.screen import styled

    if told.problem:
        return styled(told.problem, "yellow" if told.problem == NOT_ASKED else "red")
    if meter.rates.get(told.name, {}).get("gaps"):
        return styled("misses messages", "red")
    away = [row for row in _rows(told, "owner") if row.facts.get("state") != "connected"]
    if away:
        return styled("a manager is away", "yellow")
    state = told.facts.get("state", "ok")
    return styled("ok", "green") if state == "at work" else styled(state, "yellow")


def _topic_table(top: Told) -> RenderableType:
    from quicksilver.cli.screen import SafeTable

    table = SafeTable(box=None, pad_edge=False, header_style="reverse")
    for heading in ("topic", "publishers", "subscribers", "policy", "recovery", "session"):
        right = heading in ("publishers", "subscribers")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    topics = _rows(top, "topic")
    for row in topics[:TOPICS_MAX]:
        facts = row.facts
        waits = f", waits for {facts['waits_for']}" if "waits_for" in facts else ""
        waits += f"; refused: {facts['refused']}" if "refused" in facts else ""
        table.add_row(
            row.name,
            *(facts.get(each, "") for each in ("publishers", "subscribers", "policy", "recovery")),
            facts.get("sessions", "") + waits,
        )
    if len(topics) > TOPICS_MAX:
        table.add_row(f"… and {len(topics) - TOPICS_MAX} more")
    return table


def _rows(told: Told, kind: str) -> list[Any]:
    return [row for row in told.rows if row.kind == kind]
