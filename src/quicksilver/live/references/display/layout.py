"""Where the boxes of a drawing go: layers of components, each as far from the exports as it is.

Components that are exported stand in the first column, their neighbours in the
second, and so on; an endpoint faces the column it is connected to. Because the
columns are distances, a connection never has to pass a box.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from quicksilver.live.references.model import Composite, Endpoint

LINE = 17.0
PAD = 12.0
ROW = 22.0
COLUMN_GAP = 84.0
ROW_GAP = 20.0
GUTTER = 34.0
CHARACTERS_MAX = 58


@dataclass(slots=True)
class Box:
    """A rectangle with lines of text, ports at its sides, and other boxes inside."""

    lines: list[str]
    """What it says: the first line is its name."""

    kind: str
    panels: list[tuple[str, Box]] = field(default_factory=list)
    inside: Inside | None = None
    left: dict[str, int] = field(default_factory=dict)
    """Ports on this side: their names, and how far from the top they are."""

    right: dict[str, int] = field(default_factory=dict)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    @property
    def head(self) -> float:
        """Height of the lines."""
        return PAD + LINE * len(self.lines) + PAD / 2

    def port(self, name: str, *, is_left: bool) -> tuple[float, float]:
        """Return where a port is."""
        index = (self.left if is_left else self.right)[name]
        x = self.x if is_left else self.x + self.width
        return x, self.y + self.head + ROW * (index + 0.5)


@dataclass(slots=True)
class Inside:
    """What a composite holds, in columns."""

    boxes: dict[str, Box]
    columns: list[list[str]]
    wires: list[tuple[Endpoint, bool, Endpoint, bool]]
    """Connections: each end with whether it leaves to the left."""

    exports: list[tuple[str, Endpoint]]
    """Outer names and inner endpoints; these leave to the left."""


def arrange(composite: Composite, boxes: dict[str, Box]) -> Inside:
    """Put components into columns and endpoints on the sides of their boxes."""
    neighbours: dict[str, set[str]] = {name: set() for name in boxes}
    wired = [
        (one.one, one.other)
        for one in composite.connections
        if one.one.component in boxes and one.other.component in boxes and one.one != one.other
    ]
    for one, other in wired:
        neighbours[one.component].add(other.component)
        neighbours[other.component].add(one.component)
    exports = [
        (one.name, one.endpoint) for one in composite.exports if one.endpoint.component in boxes
    ]
    layer = _measure_distances(neighbours, [end.component for _, end in exports])
    columns = _order(neighbours, layer)
    inside = Inside(boxes, columns, [], exports)
    for _, end in exports:
        _add_port(boxes[end.component].left, end.name)
    for one, other in wired:
        here, there = layer[one.component], layer[other.component]
        one_left, other_left = here > there, there > here
        for end, is_left in ((one, one_left), (other, other_left)):
            box = boxes[end.component]
            _add_port(box.left if is_left else box.right, end.name)
        inside.wires.append((one, one_left, other, other_left))
    return inside


def _add_port(side: dict[str, int], name: str) -> None:
    side.setdefault(name, len(side))


def _measure_distances(neighbours: dict[str, set[str]], first: list[str]) -> dict[str, int]:
    layer: dict[str, int] = {}
    # Whatever the exports do not reach gets a first column of its own part.
    for start in [*dict.fromkeys(first), *neighbours]:
        if start in layer:
            continue
        roots = list(dict.fromkeys(first)) if start in first else [start]
        for root in roots:
            layer.setdefault(root, 0)
        pending = deque(roots)
        while pending:
            name = pending.popleft()
            for other in sorted(neighbours[name]):
                if other not in layer:
                    layer[other] = layer[name] + 1
                    pending.append(other)
    return layer


def _order(neighbours: dict[str, set[str]], layer: dict[str, int]) -> list[list[str]]:
    """Sort each column by where the neighbours in the column before stand."""
    columns: list[list[str]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for name in neighbours:
        columns[layer[name]].append(name)
    for before, column in pairwise(columns):
        rank = {name: index for index, name in enumerate(before)}

        def middle(name: str, rank: dict[str, int] = rank) -> tuple[float, str]:
            seen = [rank[other] for other in neighbours[name] if other in rank]
            return (sum(seen) / len(seen) if seen else len(rank), name)

        column.sort(key=middle)
    return columns


def measure(box: Box) -> None:
    """Set the size of a box and of all inside it."""
    width = max([measure_text(line) for line in box.lines] or [0.0]) + 2 * PAD
    rows = max(len(box.left), len(box.right))
    sides = [max([measure_text(name) for name in side] or [0.0]) for side in (box.left, box.right)]
    if rows:
        width = max(width, sum(sides) + 3 * PAD)
    height = box.head + ROW * rows + PAD / 2
    for label, panel in box.panels:
        measure(panel)
        width = max(width, panel.width + 2 * PAD, measure_text(label) + 2 * PAD)
        height += LINE + panel.height + PAD
    if box.inside is not None:
        inner_width, inner_height = _measure_inside(box.inside)
        width = max(width, inner_width + 2 * PAD)
        height += inner_height + PAD
    box.width, box.height = max(width, 120.0), height


def _measure_inside(inside: Inside) -> tuple[float, float]:
    for box in inside.boxes.values():
        measure(box)
    widths = [max(inside.boxes[name].width for name in column) for column in inside.columns]
    heights = [_measure_height(inside, column) for column in inside.columns]
    gutter = measure_gutter(inside)
    width = gutter + sum(widths) + COLUMN_GAP * max(len(widths) - 1, 0) + GUTTER
    return width, max(heights, default=0.0)


def measure_gutter(inside: Inside) -> float:
    """Return the width that the names of exports need at the left."""
    names = [measure_text(name) for name, _ in inside.exports]
    return max(names) + GUTTER + PAD if names else 0.0


def place(box: Box, x: float, y: float) -> None:
    """Set the position of a box and of all inside it."""
    box.x, box.y = x, y
    below = y + box.head + ROW * max(len(box.left), len(box.right)) + PAD / 2
    for _, panel in box.panels:
        panel.width = box.width - 2 * PAD
        place(panel, x + PAD, below + LINE)
        below += LINE + panel.height + PAD
    if box.inside is None:
        return
    inside = box.inside
    height = max((_measure_height(inside, column) for column in inside.columns), default=0.0)
    at = x + PAD + measure_gutter(inside)
    for column in inside.columns:
        width = max(inside.boxes[name].width for name in column)
        top = below + (height - _measure_height(inside, column)) / 2
        for name in column:
            child = inside.boxes[name]
            child.width = width
            place(child, at, top)
            top += child.height + ROW_GAP
        at += width + COLUMN_GAP


def _measure_height(inside: Inside, column: list[str]) -> float:
    return sum(inside.boxes[name].height for name in column) + ROW_GAP * (len(column) - 1)


def measure_text(text: str) -> float:
    """Estimate the width of a text; wide characters count double."""
    shown = shorten(text)
    return sum(13.0 if unicodedata.east_asian_width(one) in "WF" else 6.9 for one in shown)


def shorten(text: str) -> str:
    """Return a text that fits, cut if need be."""
    return text if len(text) <= CHARACTERS_MAX else text[: CHARACTERS_MAX - 1] + "…"
