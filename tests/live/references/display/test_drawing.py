"""Drawings: sound SVG of any reference, with everything in it and nothing that escapes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from quicksilver.live.references.builder import composite, external, primitive, registry
from quicksilver.live.references.display.drawing import draw
from quicksilver.live.references.model import Composite, Reference
from quicksilver.live.references.standard import standard_catalogue
from quicksilver.live.references.xml import load
from tests.live.references.strategies import references

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "live").rglob("*.liveobject"))
SVG = "{http://www.w3.org/2000/svg}"


def chain(length: int) -> Composite:
    made = composite()
    for n in range(length):
        made.component(f"c{n}", primitive("test.box"))
    for n in range(length - 1):
        made.connect(f"c{n}.right", f"c{n + 1}.left")
    return made.export("c0.out", "out").build()


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    drawn = [
        one
        for one in ET.fromstring(svg).iter(f"{SVG}rect")
        if (one.get("class") or "").startswith("box")
    ]
    keys = ("x", "y", "width", "height")
    return [tuple(float(one.get(key) or 0) for key in keys) for one in drawn]  # type: ignore[misc]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_can_be_drawn(path: Path) -> None:
    """One file that needs nothing else: no scripts, no links, nothing to fetch."""
    svg = draw(load(path).reference, standard_catalogue())
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox")
    assert svg.count("http") == svg.count("http://www.w3.org/2000/svg") + svg.count(
        "http://www.mystuff.com"
    )
    assert not list(root.iter(f"{SVG}script"))
    assert not list(root.iter(f"{SVG}image"))


def test_connections_endpoints_and_exports_are_there() -> None:
    """A line a connection, a circle an endpoint, a name an export."""
    root = ET.fromstring(draw(chain(4)))
    kinds = [one.get("class") for one in root.iter()]
    assert kinds.count("wire") == 3
    assert kinds.count("port") == 7
    assert kinds.count("pill") == 1
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert {"c0", "c1", "c2", "c3", "out"} <= set(texts)


def test_components_stand_in_layers() -> None:
    """The exported one first, its neighbours to the right of it, and so on."""
    outer, *inner = boxes(draw(chain(5)))
    assert [x for x, *_ in inner] == sorted({x for x, *_ in inner})
    for x, y, width, height in inner:
        assert outer[0] <= x
        assert x + width <= outer[0] + outer[2]
        assert outer[1] <= y
        assert y + height <= outer[1] + outer[3]


def test_boxes_never_overlap() -> None:
    """Side by side or one inside the other."""
    star = composite()
    star.component("hub", primitive("test.hub"))
    for n in range(9):
        star.component(f"spoke{n}", chain(2)).connect(f"hub.p{n}", f"spoke{n}.out")
    drawn = boxes(draw(star.build()))
    for index, (x1, y1, w1, h1) in enumerate(drawn):
        for x2, y2, w2, h2 in drawn[index + 1 :]:
            apart = x1 + w1 <= x2 or x2 + w2 <= x1 or y1 + h1 <= y2 or y2 + h2 <= y1
            inside = x1 <= x2 and y1 <= y2 and x2 + w2 <= x1 + w1 and y2 + h2 <= y1 + h1
            assert apart or inside


def test_names_are_escaped() -> None:
    """A name is text, never markup."""
    name = "<script>alert('x')</script>&\""
    reference = composite(title=name).component(name[:40].replace(".", ""), registry()).build()
    root = ET.fromstring(draw(reference))
    assert not list(root.iter(f"{SVG}script"))
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == name


def test_long_names_are_cut_and_kept_as_hints() -> None:
    """The drawing stays readable; the whole name shows when pointed at."""
    long = "x" * 150
    svg = draw(external(long, "Channel", registry()))
    titles = [one.text or "" for one in ET.fromstring(svg).iter(f"{SVG}title")]
    assert any(long in title for title in titles)
    assert all(width < 800 for _, _, width, _ in boxes(svg))


def test_what_does_not_fit_is_still_drawn() -> None:
    """Unsound references are the ones people want to look at."""
    reference = composite().connect("a.b", "c.d").export("nobody.x").build()
    assert ET.fromstring(draw(reference)).tag == f"{SVG}svg"


@pytest.mark.slow
@settings(max_examples=100)
@given(references)
def test_anything_can_be_drawn(reference: Reference) -> None:
    """Well-formed for whatever names there are, and the same every time."""
    svg = draw(reference)
    ET.fromstring(svg)
    assert draw(reference) == svg
