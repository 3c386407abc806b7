"""The canonical form: same meaning, same bytes; what is written is read as it was."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from quicksilver.live.references.model import Composite, Connection, Endpoint, Reference
from quicksilver.live.references.xml import canonical, fingerprint, load, parse, write
from tests.live.references.strategies import references

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "live").rglob("*.liveobject"))

lenient = settings(max_examples=150)


@pytest.mark.slow
@lenient
@given(references)
def test_what_is_written_is_read_as_it_was(reference: Reference) -> None:
    """Nothing is lost in a file, titles and documentation included."""
    text = write(reference)
    assert parse(text).reference == reference
    assert write(parse(text).reference) == text


@pytest.mark.slow
@lenient
@given(references)
def test_the_canonical_form_is_a_fixed_point(reference: Reference) -> None:
    """Reading and writing it again gives the same bytes, and so the same fingerprint."""
    data = canonical(reference)
    again = parse(data).reference
    assert canonical(again) == data
    assert fingerprint(again) == fingerprint(reference)


def test_order_changes_no_byte() -> None:
    """Components, connections, their ends and exports are sets."""
    parsed = load(next(path for path in EXAMPLES if path.stem == "figure-2-4-gateway"))
    composite = parsed.reference
    assert isinstance(composite, Composite)
    chance = random.Random(1)
    for _ in range(10):
        components = list(composite.components)
        connections = [Connection(one.other, one.one) for one in composite.connections]
        chance.shuffle(components)
        chance.shuffle(connections)
        shuffled = msgspec.structs.replace(
            composite, components=tuple(components), connections=tuple(connections)
        )
        assert shuffled == composite
        assert canonical(shuffled) == canonical(composite)


def test_titles_and_documentation_are_no_part_of_the_meaning() -> None:
    """They may be put right without making it another object."""
    composite = Composite(title="one", doc="two")
    assert canonical(composite) == canonical(Composite())
    assert write(composite) != write(Composite())


def test_ways_to_write_the_same_have_one_fingerprint() -> None:
    """Long and short forms, upper case, white space, prefixes, comments, numbered characters."""
    same = [
        '<liveobject xmlns="urn:quicksilver:liveobject:1"><registry/></liveobject>',
        '<liveobject xmlns="urn:quicksilver:liveobject:1"><primitive id="0x2"/></liveobject>',
        '<liveobject xmlns="urn:quicksilver:liveobject:1"><primitive id="0X0002"/></liveobject>',
        (
            '<?xml version="1.0" encoding="utf-8"?>\n<!-- mine -->\n'
            '<q:liveobject xmlns:q="urn:quicksilver:liveobject:1">\n'
            "  <q:primitive id='0&#x78;2' title='t'>\n<q:doc>d</q:doc></q:primitive>"
            "</q:liveobject>\n"
        ),
    ]
    assert len({fingerprint(parse(text).reference) for text in same}) == 1
    short = '<primitive id="0x1"><argument name="URL"><text>file:///x</text></argument></primitive>'
    long = (
        '<parameterized><using><primitive id="0x1"/></using>'
        '<argument name="URL"><text>file:///x</text></argument></parameterized>'
    )
    marks = {
        fingerprint(
            parse(f'<liveobject xmlns="urn:quicksilver:liveobject:1">{text}</liveobject>').reference
        )
        for text in (short, long, '<library url="file:///x"/>')
    }
    assert len(marks) == 1


def test_different_meanings_have_different_fingerprints() -> None:
    """Values of different kinds among them: 1, 1.0, true and the text 1."""
    texts = [
        f'<primitive id="a.b"><argument name="x">{value}</argument></primitive>'
        for value in (
            "<integer>1</integer>",
            "<real>1</real>",
            "<flag>true</flag>",
            "<text>1</text>",
            "<text> 1</text>",
            "<nothing/>",
            "<sequence/>",
            "<mapping/>",
        )
    ]
    marks = {
        fingerprint(
            parse(f'<liveobject xmlns="urn:quicksilver:liveobject:1">{text}</liveobject>').reference
        )
        for text in texts
    }
    assert len(marks) == len(texts)


def test_ends_of_a_connection_are_kept_in_order() -> None:
    """A connection has no direction."""
    one, other = Endpoint("a", "x"), Endpoint("b", "y")
    assert Connection(other, one) == Connection(one, other)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_are_written_as_the_writer_would(path: Path) -> None:
    """They show the form that everybody gets."""
    assert write(load(path).reference) == path.read_text(encoding="utf-8")
