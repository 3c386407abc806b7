"""What a plan does, in sentences and as a drawing."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from quicksilver.properties import library
from quicksilver.properties.check.program import check
from quicksilver.properties.compile.program import compile_text
from quicksilver.properties.explain.drawing import draw
from quicksilver.properties.explain.flow import Arrow, Box, Level, describe, find_flow
from quicksilver.properties.explain.notation import Notation
from quicksilver.properties.syntax.parse import parse
from tests.properties.printed import CODE_5_1

SVG = "{http://www.w3.org/2000/svg}"


def test_values_go_up_by_r1_over_by_r2_and_down_by_r3() -> None:
    """Dissertation, Figures 5.5 and 5.6."""
    flow = find_flow(compile_text(CODE_5_1))
    how = "∩ mono, all, strict"
    stable = [Box(level, "Stable") for level in (Level.NODE, Level.DOMAIN, Level.TOP)]
    cleanup = [Box(level, "Cleanup") for level in (Level.NODE, Level.DOMAIN, Level.TOP)]
    assert set(flow.arrows) == {
        Arrow(stable[0], stable[1], "R1", how),
        Arrow(stable[1], stable[2], "R1", how),
        Arrow(stable[2], cleanup[2], "R2", ""),
        Arrow(cleanup[2], cleanup[1], "R3", "∪="),
        Arrow(cleanup[1], cleanup[0], "R3", "∪="),
        Arrow(Box(Level.APPLICATION, "Receive"), stable[0], "B1", "+="),
        Arrow(cleanup[0], Box(Level.APPLICATION, "DoCleanup"), "B2", "added"),
    }


def test_sentences_follow_the_program() -> None:
    sentences = describe(compile_text(library.text_of("cleanup")))
    assert [label for label, _ in sentences] == ["R1", "R2", "R3", "C1", "I1", "E1"]
    assert dict(sentences)["R3"] == "in nodes and domains: Cleanup ∪= parent.Cleanup"
    assert dict(sentences)["E1"] == "at last, for all a, b: a.Cleanup = b.Cleanup"


@pytest.mark.parametrize("name", library.names())
def test_expressions_are_written_as_programs_write_them(name: str) -> None:
    """What is shown can be read again, and means the same."""
    plan = compile_text(library.text_of(name))
    notation = Notation(plan)
    for rule in plan.rules:
        text = notation.render(rule.value)
        parsed = parse(f"protocol P {{ rules {{ A := {text}; }} }}")
        assert not parsed.diagnostics, text
    shown = [notation.render(each.value) for each in plan.conditions]
    conditions = "".join(f"{text};" for text in shown)
    declarations = library.text_of(name).partition("  bindings {")[0]
    again = check(f"{declarations} conditions {{ {conditions} }} }}")
    assert again.is_sound


@pytest.mark.parametrize("name", library.names())
def test_drawings_hold_every_box_within_the_picture(name: str) -> None:
    plan = compile_text(library.text_of(name))
    root = ElementTree.fromstring(draw(plan))
    width = float(root.attrib["width"])
    height = float(root.attrib["height"])
    boxes = [one for one in root.iter(f"{SVG}rect") if one.attrib["class"] in {"box", "event"}]
    assert len(boxes) == len(find_flow(plan).boxes)
    places = set()
    for box in boxes:
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        assert x >= 0
        assert x + float(box.attrib["width"]) <= width
        assert y + float(box.attrib["height"]) <= height
        places.add((x, y))
    assert len(places) == len(boxes), "no box lies on another"
    words = "".join(root.itertext())
    assert all(each.name[:14] in words for each in plan.properties)


def test_texts_of_programs_are_escaped() -> None:
    plan = compile_text(
        "protocol P { properties { int A; bool B; } rules { B := A < 3 && A > 1; } }"
    )
    assert "A &lt; 3" in draw(plan)
    assert ElementTree.fromstring(draw(plan)).tag == f"{SVG}svg"
