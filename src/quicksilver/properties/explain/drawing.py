"""The data flow of a plan as a drawing: one SVG file that needs nothing else.

Levels are bands, the whole system at the top, the application at the bottom; a property is a
column. Arrows between levels lead up at the left of a box and down at its right; those within a
level are arcs. Each arrow wears the label of its rule; a legend below says what the rules do.
"""

from __future__ import annotations

from textwrap import wrap
from xml.sax.saxutils import escape

from quicksilver.properties.explain.flow import Arrow, Box, Flow, Level, describe, find_flow
from quicksilver.properties.plan import Plan

BOX_WIDTH, BOX_HEIGHT = 118.0, 34.0
COLUMN, BAND, MARGIN, LEFT = 168.0, 132.0, 20.0, 120.0
LINE = 17.0
_LETTER = 7.0
_BANDS = {
    Level.TOP: ("the whole", "system"),
    Level.DOMAIN: ("domains",),
    Level.NODE: ("nodes",),
    Level.APPLICATION: ("application",),
}
_STYLE = """
svg { font: 12px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.paper { fill: #ffffff; }
.band { fill: #f5f7fa; }
.title { font-size: 16px; font-weight: 600; fill: #1d2a3d; }
.level { fill: #4d5b70; font-weight: 600; }
.box { fill: #ffffff; stroke: #405674; stroke-width: 1.3; }
.event { fill: #eef7f1; stroke: #4b8a63; stroke-width: 1.3; }
.name { fill: #1d2a3d; font-weight: 600; }
.up { stroke: #00796b; } .down { stroke: #c25e00; } .here { stroke: #2f5fb3; }
.arrow { fill: none; stroke-width: 1.5; }
.tag { fill: #ffffff; opacity: 0.88; }
.label { fill: #1d2a3d; font-size: 11px; }
.legend { fill: #37474f; }
""".strip()
_HEADS = {"up": "#00796b", "down": "#c25e00", "here": "#2f5fb3"}


def draw(of: Plan) -> str:
    """Return the drawing of a plan."""
    return _Drawing(of, find_flow(of)).render()


class _Drawing:
    def __init__(self, of: Plan, flow: Flow) -> None:
        self._plan = of
        self._flow = flow
        columns = [each.name for each in of.properties]
        self._column = {name: float(at) for at, name in enumerate(columns)}
        events = sorted(
            {box.name for box in flow.boxes if box.level is Level.APPLICATION}, key=self._middle
        )
        count = max(len(columns), len(events), 1)
        offset = (count - len(events)) / 2
        self._event = {name: at + offset for at, name in enumerate(events)}
        self._width = max(LEFT + count * COLUMN + MARGIN, 560.0)
        self._legend = [
            (label if at == 0 else "", line)
            for label, text in describe(of)
            for at, line in enumerate(
                wrap(text, int((self._width - 90) / 6.4), subsequent_indent="  ")
            )
        ]
        self._labels: list[tuple[float, float, float]] = []

    def _middle(self, event: str) -> float:
        """Return about where the properties are that an event has to do with."""
        columns = [
            self._column[box.name]
            for arrow in self._flow.arrows
            for box in (arrow.origin, arrow.target)
            if event in {arrow.origin.name, arrow.target.name} and box.level is Level.NODE
        ]
        return sum(columns) / len(columns) if columns else 0.0

    def render(self) -> str:
        bottom = 44 + 4 * BAND
        height = bottom + MARGIN + LINE * (len(self._legend) + 1)
        size = f'width="{self._width:g}" height="{height:g}"'
        box = f"{self._width:g} {height:g}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {box}" role="img">',
            f"<title>{escape(self._plan.name)}: data flow</title>",
            f"<style>{_STYLE}</style>",
            "<defs>",
            *(
                f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/>'
                "</marker>"
                for name, colour in _HEADS.items()
            ),
            "</defs>",
            f'<rect class="paper" width="{self._width:g}" height="{height:g}"/>',
            f'<text class="title" x="{MARGIN}" y="28">{escape(self._plan.name)}</text>',
        ]
        parts += [self._band(level) for level in _BANDS]
        arrows = [self._arrow(arrow, at) for at, arrow in enumerate(self._merged())]
        parts += [path for path, _ in arrows]
        parts += [self._box(box) for box in self._flow.boxes]
        parts += [label for _, label in arrows]
        for at, (label, text) in enumerate(self._legend):
            y = bottom + MARGIN + LINE * (at + 1)
            parts.append(
                f'<text class="legend" x="{MARGIN}" y="{y:g}" font-weight="600">'
                f"{escape(label)}</text>"
                f'<text class="legend" x="{MARGIN + 62}" y="{y:g}" xml:space="preserve">'
                f"{escape(text)}</text>"
            )
        return "\n".join([*parts, "</svg>", ""])

    def _merged(self) -> list[Arrow]:
        """Return one arrow for all rules that lead from one box to another in one way."""
        found: dict[tuple[Box, Box, str], list[str]] = {}
        for arrow in self._flow.arrows:
            found.setdefault((arrow.origin, arrow.target, arrow.how), []).append(arrow.label)
        return [
            Arrow(origin, target, ", ".join(dict.fromkeys(labels)), how)
            for (origin, target, how), labels in found.items()
        ]

    def _band(self, level: Level) -> str:
        y = self._y(level) - BAND / 2 + 6
        words = "".join(
            f'<tspan x="{MARGIN}" dy="{15 if at else 0}">{word}</tspan>'
            for at, word in enumerate(_BANDS[level])
        )
        return (
            f'<rect class="band" x="10" y="{y:g}" width="{self._width - 20:g}" '
            f'height="{BAND - 12:g}" rx="6"/>'
            f'<text class="level" x="{MARGIN}" y="{self._y(level):g}">{words}</text>'
        )

    def _box(self, box: Box) -> str:
        x, y = self._place(box)
        style = "event" if box.level is Level.APPLICATION else "box"
        name = box.name if len(box.name) <= 15 else box.name[:14] + "…"
        return (
            f'<rect class="{style}" x="{x - BOX_WIDTH / 2:g}" y="{y - BOX_HEIGHT / 2:g}" '
            f'width="{BOX_WIDTH:g}" height="{BOX_HEIGHT:g}" rx="5"/>'
            f'<text class="name" x="{x:g}" y="{y + 4:g}" text-anchor="middle">{escape(name)}</text>'
        )

    def _arrow(self, arrow: Arrow, at: int) -> tuple[str, str]:
        """Return the path of an arrow and its label."""
        x, y = self._place(arrow.origin)
        to_x, to_y = self._place(arrow.target)
        rise = arrow.target.level - arrow.origin.level
        # Arrows that end side by side do not lie on each other.
        shift = (at % 3 - 1) * 7.0
        if rise == 0:
            kind, way, middle = self._arc(x, to_x, y, shift)
        else:
            kind = "up" if rise > 0 else "down"
            side = -24.0 if rise > 0 else 24.0
            start = y - rise * BOX_HEIGHT / 2
            end = to_y + rise * BOX_HEIGHT / 2
            a, b = x + side + shift, to_x + side + shift
            half = (end - start) / 2
            way = f"M{a:g},{start:g} C{a:g},{start + half:g} {b:g},{end - half:g} {b:g},{end:g}"
            middle = ((a + b) / 2, (start + end) / 2)
        path = f'<path class="arrow {kind}" d="{way}" marker-end="url(#{kind})"/>'
        return path, self._label(arrow, *middle)

    def _arc(
        self, x: float, to_x: float, y: float, shift: float
    ) -> tuple[str, str, tuple[float, float]]:
        if x == to_x:  # onto itself
            side = x + BOX_WIDTH / 2
            out = side + 30
            way = f"M{side:g},{y - 8:g} C{out:g},{y - 18:g} {out:g},{y + 18:g} {side:g},{y + 8:g}"
            return "here", way, (side + 24, y)
        right = to_x > x
        a = x + (BOX_WIDTH / 2 if right else -BOX_WIDTH / 2)
        b = to_x - (BOX_WIDTH / 2 if right else -BOX_WIDTH / 2)
        if abs(to_x - x) <= COLUMN:
            height = y + shift
            return "here", f"M{a:g},{height:g} L{b:g},{height:g}", ((a + b) / 2, height - 9)
        # Over the boxes between, or under them if it leads back.
        lift = -(BOX_HEIGHT / 2 + 16 + abs(shift)) if right else BOX_HEIGHT / 2 + 16 + abs(shift)
        start = y + (-BOX_HEIGHT / 2 if right else BOX_HEIGHT / 2)
        a, b = x + (30 if right else -30), to_x - (30 if right else -30)
        way = f"M{a:g},{start:g} C{a:g},{y + lift * 1.5:g} {b:g},{y + lift * 1.5:g} {b:g},{start:g}"
        return "here", way, ((a + b) / 2, y + lift * 1.25)

    def _label(self, arrow: Arrow, x: float, y: float) -> str:
        text = arrow.label + (f": {arrow.how}" if arrow.how else "")
        width = _LETTER * len(text) * 0.86 + 6
        for _ in range(8):  # labels make room for each other
            crowded = any(
                abs(x - other) < (width + wide) / 2 and abs(y - high) < 14
                for other, high, wide in self._labels
            )
            if not crowded:
                break
            y += 14
        self._labels.append((x, y, width))
        return (
            f'<rect class="tag" x="{x - width / 2:g}" y="{y - 8:g}" width="{width:g}" height="14" '
            f'rx="3"/><text class="label" x="{x:g}" y="{y + 3:g}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )

    def _place(self, box: Box) -> tuple[float, float]:
        if box.level is Level.APPLICATION:
            column = self._event[box.name]
        else:
            column = self._column[box.name]
        return LEFT + (column + 0.5) * COLUMN, self._y(box.level)

    def _y(self, level: Level) -> float:
        return 44 + (Level.TOP - level + 0.5) * BAND
