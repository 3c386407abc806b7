"""The published schema says what files look like: what we write is valid, what we refuse is not.

There is no validator among our tools, so a small one for the part of XML Schema
that the file uses stands here; where lxml is installed, it judges as well.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from quicksilver.live.references.builder import STARTERS
from quicksilver.live.references.model import Reference
from quicksilver.live.references.values import Value
from quicksilver.live.references.xml import canonical, write
from quicksilver.live.references.xml.elements import NAMESPACE
from quicksilver.live.references.xml.grammar import walk_rules
from quicksilver.live.references.xml.rules import LIVEOBJECT, REFERENCES
from quicksilver.live.references.xml.schema import render_schema
from quicksilver.live.references.xml.type_rules import TYPES, VALUE_TYPES, VALUES
from quicksilver.live.types import model as types
from quicksilver.live.types.model import ValueType
from tests.live.references.strategies import references

EXAMPLES = sorted((Path(__file__).parents[4] / "examples" / "live").rglob("*.liveobject"))
SCHEMA = render_schema()
XS = "{http://www.w3.org/2001/XMLSchema}"


class Schema:
    """Elements by name: attributes, children, and whether there is exactly one of these."""

    def __init__(self, text: str) -> None:
        root = ET.fromstring(text)
        self.groups = {
            group.get("name"): [one.get("ref") for one in group.iter(f"{XS}element")]
            for group in root.findall(f"{XS}group")
        }
        self.patterns = {
            simple.get("name"): [one.get("value") for one in simple.iter(f"{XS}pattern")]
            for simple in root.findall(f"{XS}simpleType")
        }
        self.enumerations = {
            simple.get("name"): [one.get("value") for one in simple.iter(f"{XS}enumeration")]
            for simple in root.findall(f"{XS}simpleType")
        }
        self.elements = {one.get("name"): one for one in root.findall(f"{XS}element")}

    def check(self, element: ET.Element) -> None:
        """Fail unless an element and all inside it are as declared."""
        tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
        declared = self.elements[tag]
        attributes = {one.get("name"): one for one in declared.iter(f"{XS}attribute")}
        assert set(element.attrib) <= set(attributes), tag
        for name, attribute in attributes.items():
            assert name is not None
            if attribute.get("use") == "required":
                assert name in element.attrib, tag
            if name in element.attrib:
                self.check_text(element.attrib[name], attribute.get("type"))
        choice = declared.find(f"{XS}complexType/{XS}choice")
        if choice is None:
            assert len(element) == 0, tag
            if declared.get("type") is not None:
                self.check_text(element.text or "", declared.get("type"))
            return
        allowed: set[Any] = set()
        for part in choice:
            allowed |= set(
                self.groups[part.get("ref")] if part.tag == f"{XS}group" else [part.get("ref")]
            )
        children = [child.tag.removeprefix(f"{{{NAMESPACE}}}") for child in element]
        assert set(children) <= allowed, tag
        if choice.get("maxOccurs") is None:
            assert len(children) == 1, tag
        for child in element:
            self.check(child)

    def check_text(self, text: str, kind: str | None) -> None:
        patterns = [*self.patterns.get(kind, [])]
        patterns += {"xs:integer": [r"\s*-?\d+\s*"]}.get(kind or "", [])
        assert all(re.fullmatch(pattern or "", text, re.DOTALL) for pattern in patterns), text
        listed = self.enumerations.get(kind)
        assert not listed or text in listed, text


@cache
def schema() -> Schema:
    return Schema(SCHEMA)


def judge(data: bytes) -> None:
    root = ET.fromstring(data)
    assert root.tag == f"{{{NAMESPACE}}}liveobject"
    schema().check(root)


def test_the_schema_has_the_elements_of_the_grammar() -> None:
    """Each is published, and each group under its name."""
    assert set(schema().elements) == {rule.tag for rule in walk_rules(LIVEOBJECT)}
    assert schema().groups == {
        group.name: list(group.rules) for group in (REFERENCES, VALUES, VALUE_TYPES, TYPES)
    }


def test_rules_of_one_tag_are_published_alike() -> None:
    """A tag that is used in several places means the same in each."""
    published: dict[str, set[object]] = {}
    for rule in walk_rules(LIVEOBJECT):
        for part in rule.parts:
            for inner in (one for group in part.groups for one in group.rules.values()):
                attributes = tuple(one[:1] for held in inner.parts for one in held.attributes)
                published.setdefault(inner.tag, set()).add((attributes, inner.doc))
    assert all(len(forms) == 1 for forms in published.values())


def test_every_kind_of_value_has_a_rule() -> None:
    """Whatever the model can hold can be written and read."""
    for union, group in ((Reference, REFERENCES), (Value, VALUES), (ValueType, VALUE_TYPES)):
        named = {types.Scalar} if group is VALUE_TYPES else set()
        classes = {rule.of for rule in group.rules.values()} | named
        assert set(get_args(union)) <= classes


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_are_valid(path: Path) -> None:
    """By the file that others would use."""
    judge(path.read_bytes())


@pytest.mark.parametrize("name", sorted(STARTERS))
def test_starters_are_valid(name: str) -> None:
    """What a user begins with."""
    judge(write(STARTERS[name]()).encode())


@pytest.mark.slow
@settings(max_examples=120)
@given(references)
def test_whatever_is_written_is_valid(reference: Reference) -> None:
    """Drawn from the model, in both layouts."""
    judge(write(reference).encode())
    judge(canonical(reference))


@pytest.mark.parametrize(
    "text",
    [
        "<frob/>",
        "<primitive/>",
        "<primitive id='7'/>",
        "<registry x='1'/>",
        "<composite><component name='a'/></composite>",
        "<composite><connection between='a' and='b.c'/></composite>",
        "<template><parameter name='p' kind='magic'/><body><registry/></body></template>",
        "<registry/><registry/>",
        "<primitive id='a.b'><argument name='n'><integer>x</integer></argument></primitive>",
    ],
)
def test_what_the_reader_refuses_is_not_valid(text: str) -> None:
    """The schema is not so lax that it says nothing."""
    with pytest.raises((AssertionError, KeyError)):
        judge(f'<liveobject xmlns="{NAMESPACE}">{text}</liveobject>'.encode())


def test_a_real_validator_agrees() -> None:
    """Only where one is installed."""
    etree = pytest.importorskip("lxml.etree")
    validator = etree.XMLSchema(etree.fromstring(SCHEMA.encode()))
    for path in EXAMPLES:
        assert validator.validate(etree.fromstring(path.read_bytes())), validator.error_log
