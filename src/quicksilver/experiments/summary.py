"""The table of a sweep, the papers' claim, and what the numbers say about it."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Column, Experiment, Row

VERDICTS = {True: "holds", False: "**does not hold**", None: ""}


def order_rows(rows: Sequence[Row], axes: Sequence[str]) -> list[Row]:
    """Rows by place and by the sweep's axes, in the order of their values."""

    def key(row: Row) -> tuple[object, ...]:
        parts: list[object] = [row["place"]]
        for axis in axes:
            value = row.get(axis)
            parts.append((isinstance(value, str), value))
        return (*parts, row["round"])

    return sorted(rows, key=key)


def table_of(
    experiment: Experiment, rows: Sequence[Row], axes: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the body of the summary's table."""
    columns = [
        *(Column(axis, axis, "{}") for axis in axes),
        Column("place", "where"),
        *experiment.columns,
    ]
    body = [[column.show(row) for column in columns] for row in order_rows(rows, axes)]
    return [column.title for column in columns], body


def render_markdown(
    experiment: Experiment, rows: Sequence[Row], axes: Sequence[str], command: str
) -> str:
    """Return ``summary.md``."""
    head, body = table_of(experiment, rows, axes)
    lines = [
        f"# {experiment.name}: {experiment.title}",
        "",
        f"Figures {experiment.figures}. `{command}`",
        "",
        f"Papers: {experiment.claim}",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(cells) + " |" for cells in body),
        "",
    ]
    findings = experiment.findings(rows)
    if findings:
        lines += ["| what | measured | |", "| --- | --- | --- |"]
        lines += [f"| {f.what} | {f.measured} | {VERDICTS[f.holds]} |" for f in findings]
        lines.append("")
    return "\n".join(lines)
