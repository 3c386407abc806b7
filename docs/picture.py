"""Draw the picture of the README: what passes between nodes, and what does not.

python docs/picture.py > docs/figures/overview.svg
"""

from __future__ import annotations

from math import cos, pi, sin

INK, PALE, DATA, REPAIR, CONTROL = "#37474f", "#eceff1", "#00796b", "#ef6c00", "#90a4ae"
WIDTH, HEIGHT = 760, 250
RADIUS = 15
DOTTED = 'stroke-dasharray="2 4" stroke-width="2"'


def text(x: float, y: float, words: str, *, anchor: str = "middle", size: int = 12) -> str:
    """Some words at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def node(x: float, y: float, name: str) -> str:
    """A node with its name in it."""
    return f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{RADIUS}" fill="white" stroke="{INK}"/>' + text(
        round(x), round(y + 4), name
    )


def arrow(way: str, colour: str, style: str = "") -> str:
    """An arrow with a head of its colour, along a path."""
    return (
        f'<path d="{way}" stroke="{colour}" stroke-width="2" '
        f'fill="none" marker-end="url(#{colour[1:]})" {style}/>'
    )


def region(x: float, names: str, groups: str) -> tuple[str, list[tuple[float, float]]]:
    """A region: its nodes on a ring, and the groups that they share."""
    angles = [2 * pi * i / len(names) - pi / 2 for i in range(len(names))]
    places = [(x + 62 * cos(angle), 118 + 52 * sin(angle)) for angle in angles]
    drawn = [
        f'<ellipse cx="{x:g}" cy="118" rx="100" ry="88" fill="{PALE}" stroke="{CONTROL}"/>',
        f'<ellipse cx="{x:g}" cy="118" rx="62" ry="52" fill="none" stroke="{CONTROL}" {DOTTED}/>',
        text(x, 122, "token"),
        text(x, 226, groups),
    ]
    drawn += [node(px, py, name) for (px, py), name in zip(places, names, strict=True)]
    return "".join(drawn), places


def draw() -> str:
    """The whole picture."""
    left, first = region(330, "ABCD", "region 1: groups prices, weather, ... 10,000 more")
    right, _ = region(610, "EFG", "region 2: groups weather, news")
    heads = "".join(
        f'<marker id="{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{colour}"/></marker>'
        for colour in (DATA, REPAIR, CONTROL)
    )
    (bx, by), (cx, cy) = first[1], first[2]
    parts = [
        left,
        right,
        node(60, 118, "S"),
        text(60, 150, "sender"),
        arrow("M76,112 L228,104", DATA),
        text(150, 128, "one packet for"),
        text(150, 143, "many messages"),
        arrow("M74,108 Q300,-60 528,66", DATA, 'opacity="0.55"'),
        arrow(f"M{bx - 8:.0f},{by + 13:.0f} L{cx + 13:.0f},{cy - 8:.0f}", REPAIR),
        text(bx - 16, by + 36, "repair", anchor="start"),
        f'<rect x="20" y="14" width="80" height="34" rx="4" fill="white" stroke="{INK}"/>',
        text(60, 36, "GMS"),
        arrow("M60,50 L60,100", CONTROL, 'stroke-dasharray="4 3"'),
        text(68, 74, "views", anchor="start"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" fill="{INK}">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><defs>{heads}</defs>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    print(draw(), end="")
