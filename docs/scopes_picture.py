"""Draw the picture of docs/scopes.md: one topic across three networks.

python docs/scopes_picture.py > docs/figures/scopes.svg
"""

from __future__ import annotations

INK, PALE, DATA, REPAIR, CONTROL = "#37474f", "#eceff1", "#00796b", "#ef6c00", "#90a4ae"
WIDTH, HEIGHT = 760, 330
DOTTED = 'stroke-dasharray="2 4"'


def text(x: float, y: float, words: str, size: int = 12) -> str:
    """Some words, centred at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="{size}">{words}</text>'


def node(x: float, y: float) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="9" fill="white" stroke="{INK}"/>'


def manager(x: float, y: float, name: str) -> str:
    """A scope's manager, with the name of the scope."""
    box = f'<rect x="{x - 62:g}" y="{y - 14:g}" width="124" height="28" rx="5" fill="white" '
    return box + f'stroke="{CONTROL}"/>' + text(x, y + 4, name)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, style: str = "") -> str:
    head = f' marker-end="url(#{colour[1:]})"' if colour == DATA else ""
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" '
        f'stroke="{colour}" stroke-width="2"{head} {style}/>'
    )


def network(x: float, name: str, policy: str, recovery: str) -> str:
    frame = f'<rect x="{x - 112:g}" y="96" width="224" height="188" rx="12" fill="{PALE}" '
    return (
        frame
        + f'stroke="{CONTROL}"/>'
        + manager(x, 122, name)
        + text(x, 252, policy, 11)
        + text(x, 270, recovery, 11)
    )


def draw() -> str:
    """The whole picture."""
    places = [(-70, 175), (0, 165), (70, 175), (-40, 225), (40, 225)]
    left, middle, right = 125.0, 380.0, 635.0
    nodes = {x: [(x + dx, y) for dx, y in places] for x in (left, middle, right)}
    parts = [
        network(left, "campus/cafeteria", "IP multicast", "repair: requests"),
        network(middle, "campus/library", "a tree of members", "repair: a tree"),
        network(right, "campus/lab", "QSM and its GMS", "repair: token rings"),
        manager(380, 34, "campus"),
        *(line(380, 48, x, 108, CONTROL, DOTTED) for x in (left, middle, right)),
    ]
    # Inside of the networks: one multicast, a tree, and regions.
    start = nodes[left][3]
    parts += [line(*start, x, y, DATA) for x, y in nodes[left] if (x, y) != start]
    tree = nodes[middle]
    parts += [line(*tree[a], *tree[b], DATA) for a, b in ((3, 0), (3, 1), (1, 2), (1, 4))]
    start = nodes[right][3]
    parts += [line(*start, x, y, DATA) for x, y in nodes[right] if (x, y) != start]
    # Between them: one link each.
    parts += [
        line(*nodes[left][4], *nodes[middle][3], DATA, 'stroke-dasharray="8 3"'),
        line(*nodes[middle][4], *nodes[right][3], DATA, 'stroke-dasharray="8 3"'),
    ]
    parts += [node(x, y) for each in nodes.values() for x, y in each]
    parts.append(text(WIDTH / 2, 312, "dotted: management; no message passes through a manager"))
    head = (
        f'<marker id="{DATA[1:]}" viewBox="0 0 8 8" refX="15" refY="4" markerWidth="6" '
        f'markerHeight="6" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{DATA}"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" fill="{INK}"><rect width="{WIDTH}" height="{HEIGHT}" '
        f'fill="white"/><defs>{head}</defs>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    print(draw(), end="")
