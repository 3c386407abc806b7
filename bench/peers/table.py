"""Rounds in, one table out: medians, spreads and ratios (ours / peer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.result import PeerResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One system over all rounds."""

    name: str
    version: str = ""
    messages_per_second: float | None = None
    """Median of the rounds; None where the system could not be measured."""

    lowest: float | None = None
    highest: float | None = None
    lost: int = 0
    """Sum over all rounds."""

    ratio: float | None = None
    """Ours / this one: the median of the ratios within each round, where both ran."""

    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one system did in one round: a result, or why there is none."""

    result: PeerResult | None = None
    problem: str = ""


def make_row(name: str, outcomes: Sequence[Outcome], ours: Sequence[Outcome]) -> Row:
    """Summarize one system. ``outcomes`` and ``ours`` have one entry a round."""
    results = [outcome.result for outcome in outcomes if outcome.result is not None]
    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    if not results:
        return Row(name=name, note=problems[-1] if problems else "not measured")
    rates = [result.messages_per_second for result in results]
    # The machine drifts between rounds more than within one: compare within a round.
    ratios = [
        mine.result.messages_per_second / theirs.result.messages_per_second
        for mine, theirs in zip(ours, outcomes, strict=True)
        if mine.result is not None and theirs.result is not None
    ]
    note = results[-1].note
    if problems:
        note += f"; {len(problems)} of {len(outcomes)} rounds failed: {problems[-1]}"
    return Row(
        name=name,
        version=results[-1].version,
        messages_per_second=median(rates),
        lowest=min(rates),
        highest=max(rates),
        lost=sum(result.lost for result in results),
        ratio=median(ratios) if ratios else None,
        note=note,
    )


def format_table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    header = ("system", "version", "messages/s", "lowest-highest", "lost", "ours / it", "note")
    cells = [header, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in (header, rule, *cells[1:])
    )


def _cells(row: Row) -> tuple[str, ...]:
    if row.messages_per_second is None or row.lowest is None or row.highest is None:
        return (row.name, "-", "-", "-", "-", "-", row.note)
    return (
        row.name,
        row.version,
        _thousands(row.messages_per_second),
        f"{_thousands(row.lowest)}-{_thousands(row.highest)}",
        str(row.lost),
        "-" if row.ratio is None else f"{row.ratio:.2f}",
        row.note,
    )


def _thousands(rate: float) -> str:
    return f"{rate / 1000:.1f} k" if rate < 10_000 else f"{rate / 1000:.0f} k"
