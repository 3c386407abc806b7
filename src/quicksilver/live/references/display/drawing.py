"""A reference as a drawing: one SVG file that needs nothing else.

Components are boxes with their endpoints at the sides, connections are lines,
exports leave to the left. What a reference says in words (where an external one
is kept, what a template is given) stands in the box.
"""

from __future__ import annotations

from typing import assert_never

from quicksilver.live.references.catalogue import Catalogue
from quicksilver.live.references.display.layout import (
    LINE,
    PAD,
    ROW,
    Box,
    Inside,
    arrange,
    measure,
    measure_gutter,
    place,
    shorten,
)
from quicksilver.live.references.display.notation import show_type
from quicksilver.live.references.model import (
    Composite,
    External,
    Parameterized,
    Primitive,
    Reference,
    ReferenceArgument,
    Template,
    TypeArgument,
    Use,
    ValueArgument,
    find_library,
    is_registry,
)
from quicksilver.live.references.values import from_value
from quicksilver.live.references.xml.elements import escape_attribute, escape_text

MARGIN = 16.0
_STYLE = """
svg { font: 12px ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.paper { fill: #ffffff; }
.box { fill: #f7f9fc; stroke: #7386a5; stroke-width: 1.2; }
.composite, .template { fill: #ffffff; stroke: #405674; }
.template { stroke-dasharray: 6 3; }
.external { fill: #fff9ec; stroke: #b98a2f; }
.primitive, .registry { fill: #eef7f1; stroke: #4b8a63; }
.use { fill: #f6f0fb; stroke: #8460a8; stroke-dasharray: 4 3; }
.name { font-weight: 600; fill: #1d2a3d; }
.note { fill: #4d5b70; }
.label { fill: #6b7890; font-style: italic; }
.port { fill: #ffffff; stroke: #2f5fb3; stroke-width: 1.6; }
.portname { fill: #2a4a80; }
.wire { fill: none; stroke: #2f5fb3; stroke-width: 1.6; }
.export { fill: none; stroke: #2f5fb3; stroke-width: 1.4; stroke-dasharray: 5 3; }
.pill { fill: #e6eefb; stroke: #2f5fb3; }
""".strip()


def draw(reference: Reference, catalogue: Catalogue | None = None) -> str:
    """Return the drawing of a reference; a catalogue adds the titles of primitives."""
    box = _make_box(reference, "", catalogue)
    measure(box)
    place(box, MARGIN, MARGIN)
    width, height = box.width + 2 * MARGIN, box.height + 2 * MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape_text(reference.title or box.lines[0])}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    _paint(box, parts)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


# --- what the boxes say --------------------------------------------------------------


def _make_box(reference: Reference, name: str, catalogue: Catalogue | None) -> Box:
    head = [line for line in (name, reference.title) if line]
    declared = [f"as {show_type(reference.declared)}"] if reference.declared is not None else []
    if find_library(reference) is not None:
        return Box([*head, *describe(reference, catalogue), *declared], "primitive")
    match reference:
        case Composite():
            box = Box([*(head or ["composite"]), *declared], "composite")
            boxes = {
                one.name: _make_box(one.reference, one.name, catalogue)
                for one in reference.components
            }
            box.inside = arrange(reference, boxes)
            return box
        case Parameterized():
            lines = [*head, *describe(reference.template, catalogue), *declared]
            box = Box(lines, _kind_of(reference.template))
            for argument in reference.arguments:
                content = argument.content
                if isinstance(content, ReferenceArgument):
                    inner = _make_box(content.reference, "", catalogue)
                    box.panels.append((f"{argument.name} =", inner))
                else:
                    box.lines.append(f"{argument.name} = {_show_content(content)}")
            return box
        case Template():
            wanted = [f"{one.name}: {one.kind}" for one in reference.parameters]
            box = Box([*head, f"template ({', '.join(wanted)})", *declared], "template")
            box.panels.append(("body", _make_box(reference.body, "", catalogue)))
            return box
        case External() | Primitive() | Use():
            return Box([*head, *describe(reference, catalogue)], _kind_of(reference))
        case _:
            assert_never(reference)


def describe(reference: Reference, catalogue: Catalogue | None = None) -> list[str]:
    """Return in a few lines what a reference is, without what is inside composites."""
    library = find_library(reference)
    if library is not None:
        hashed = f"sha256 {library.sha256[:12]}…" if library.sha256 else "without a hash"
        return [f"library {library.url}", hashed]
    match reference:
        case External():
            source = describe(reference.source, catalogue)
            declared = f" as {show_type(reference.declared)}" if reference.declared else ""
            return [f"external “{reference.name}”{declared}", f"from {source[0]}", *source[1:]]
        case Primitive():
            if is_registry(reference):
                return ["registry"]
            known = catalogue.find(reference.identifier) if catalogue is not None else None
            title = f" ({known.title})" if known is not None else ""
            return [f"primitive {reference.identifier}{title}"]
        case Parameterized():
            given = [f"{one.name} = {_show_content(one.content)}" for one in reference.arguments]
            return [*describe(reference.template, catalogue), *given]
        case Composite():
            return [f"composite of {', '.join(one.name for one in reference.components)}"]
        case Template():
            return [f"template ({', '.join(one.name for one in reference.parameters)})"]
        case Use():
            return [f"parameter {reference.parameter}"]
        case _:
            assert_never(reference)


def _kind_of(reference: Reference) -> str:
    match reference:
        case External():
            return "external"
        case Primitive():
            return "primitive"
        case Use():
            return "use"
        case Template():
            return "template"
        case Composite() | Parameterized():
            return "composite"
        case _:
            assert_never(reference)


def _show_content(content: TypeArgument | ValueArgument | ReferenceArgument) -> str:
    match content:
        case TypeArgument(term):
            return show_type(term)
        case ValueArgument(value):
            return repr(from_value(value))
        case ReferenceArgument(reference):
            return describe(reference)[0]
        case _:
            assert_never(content)


# --- painting --------------------------------------------------------------------------


def _paint(box: Box, parts: list[str]) -> None:
    parts.append(
        f'<rect class="box {box.kind}" x="{box.x:.1f}" y="{box.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="7"/>'
    )
    for index, line in enumerate(box.lines):
        at = box.y + PAD + LINE * index + 10
        _write(parts, "name" if index == 0 else "note", box.x + PAD, at, line)
    for label, panel in box.panels:
        _write(parts, "label", panel.x, panel.y - 5, label)
        _paint(panel, parts)
    if box.inside is not None:
        _paint_inside(box, box.inside, parts)
    for is_left, names in ((True, box.left), (False, box.right)):
        for name in names:
            x, y = box.port(name, is_left=is_left)
            inward, anchor = (PAD, "start") if is_left else (-PAD, "end")
            parts.append(f'<circle class="port" cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
            _write(parts, "portname", x + inward, y + 4, name, anchor)


def _paint_inside(box: Box, inside: Inside, parts: list[str]) -> None:
    for one, one_left, other, other_left in inside.wires:
        x1, y1 = inside.boxes[one.component].port(one.name, is_left=one_left)
        x2, y2 = inside.boxes[other.component].port(other.name, is_left=other_left)
        bend = max(40.0, abs(x2 - x1) / 2)
        from_x = x1 - bend if one_left else x1 + bend
        to_x = x2 - bend if other_left else x2 + bend
        parts.append(
            f'<path class="wire" d="M{x1:.1f} {y1:.1f} C{from_x:.1f} {y1:.1f} '
            f'{to_x:.1f} {y2:.1f} {x2:.1f} {y2:.1f}">'
            f"<title>{escape_text(f'{one} – {other}')}</title></path>"
        )
    for child in inside.boxes.values():
        _paint(child, parts)
    gutter = measure_gutter(inside)
    for name, end in inside.exports:
        x, y = inside.boxes[end.component].port(end.name, is_left=True)
        length = gutter - 34.0
        parts.append(
            f'<path class="export" d="M{box.x + length:.1f} {y:.1f} L{x - 5:.1f} {y:.1f}"/>'
            f'<rect class="pill" x="{box.x - 6:.1f}" y="{y - ROW / 2 + 1:.1f}" '
            f'width="{length + 6:.1f}" height="{ROW - 2:.1f}" rx="9"/>'
        )
        _write(parts, "portname", box.x + 4, y + 4, name)


def _write(
    parts: list[str], kind: str, x: float, y: float, text: str, anchor: str = "start"
) -> None:
    shown = shorten(text)
    whole = f"<title>{escape_text(text)}</title>" if shown != text else ""
    turned = f' text-anchor="{escape_attribute(anchor)}"' if anchor != "start" else ""
    parts.append(
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{turned}>{escape_text(shown)}{whole}</text>'
    )
