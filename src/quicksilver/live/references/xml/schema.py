"""The grammar as XML Schema, for editors and for readers that are not ours.

It says what a rule says of one element: attributes, children, the form of texts.
Order means nothing in a reference, so children may come in any order; that some may
occur only once is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.live.references.xml.elements import DEFAULT_LIMITS, NAMESPACE, escape_text
from quicksilver.live.references.xml.grammar import Group, Rule, walk_rules
from quicksilver.live.references.xml.parts import One
from quicksilver.live.references.xml.rules import LIVEOBJECT

_HEAD = f"""<?xml version="1.0" encoding="UTF-8"?>
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"
           xmlns="{NAMESPACE}"
           targetNamespace="{NAMESPACE}"
           elementFormDefault="qualified">
  <xs:annotation>
    <xs:documentation>
      References to live objects: .liveobject files. Order means nothing, so children come in
      any order; that some may occur only once, and everything about types, is for the
      reader and the check to say. A file has no document type, no entities and no
      processing instructions, at most {DEFAULT_LIMITS.bytes_max >> 20} MiB, \
{DEFAULT_LIMITS.elements_max:,} elements and {DEFAULT_LIMITS.depth_max} levels.
    </xs:documentation>
  </xs:annotation>
"""
_TEXTS = {
    "name": ('maxLength value="200"', 'pattern value=".+"'),
    "endpoint": ('pattern value="[^.]+[.].+"',),
    "identifier": (
        (
            'pattern value="0[xX][0-9a-fA-F]{1,32}|'
            '[A-Za-z_][A-Za-z0-9_\\-]*([.][A-Za-z_][A-Za-z0-9_\\-]*)+"'
        ),
    ),
    "typeName": (
        'maxLength value="4096"',
        'pattern value="\\s*[A-Za-z_][A-Za-z0-9_.\\-\\[\\], \\t\\n]*"',
    ),
    "truth": ('enumeration value="true"', 'enumeration value="false"'),
    "parameterKind": (
        'enumeration value="type"',
        'enumeration value="value"',
        'enumeration value="reference"',
    ),
}
"""Forms of texts that XML Schema does not have itself, as restrictions of its string."""


def render_schema() -> str:
    """Return the schema of ``.liveobject`` files."""
    rules = list(walk_rules(LIVEOBJECT))
    groups: dict[str, Group] = {}
    for rule in rules:
        for part in rule.parts:
            groups.update({group.name: group for group in part.groups if group.name})
    lines = [_HEAD]
    for name, group in groups.items():
        inner = _lines("choice", "", (_refer(tag) for tag in group.rules))
        lines += [*_indent(_lines("group", f' name="{name}"', inner)), ""]
    for name, facets in _TEXTS.items():
        inner = _lines("restriction", ' base="xs:string"', (f"<xs:{one}/>" for one in facets))
        lines += [*_indent(_lines("simpleType", f' name="{name}"', inner)), ""]
    for rule in rules:
        lines += [*_indent(_element(rule)), ""]
    return "\n".join([*lines[:-1], "</xs:schema>", ""])


def _element(rule: Rule) -> Iterator[str]:
    required = ' use="required"'
    attributes = [
        f'<xs:attribute name="{name}" type="{form.schema}"{required if must else ""}/>'
        for part in rule.parts
        for name, form, must in part.attributes
    ]
    said = [f"<xs:documentation>{escape_text(rule.doc)}</xs:documentation>"] if rule.doc else []
    note = list(_lines("annotation", "", said)) if said else []
    head = f' name="{rule.tag}"'
    if rule.text is not None and not attributes:
        yield from _lines("element", f'{head} type="{rule.text.schema}"', note)
        return
    if rule.text is not None:
        base = f' base="{rule.text.schema}"'
        content = _lines("simpleContent", "", _lines("extension", base, attributes))
    else:
        content = iter([*_children(rule), *attributes])
    yield from _lines("element", head, [*note, *_lines("complexType", "", content)])


def _children(rule: Rule) -> Iterator[str]:
    groups = [group for part in rule.parts for group in part.groups]
    if not groups:
        return
    # Exactly one, where a rule wraps something; else as many as the reader will allow.
    holding = [part for part in rule.parts if part.groups]
    is_one = len(holding) == 1 and isinstance(holding[0], One) and holding[0].is_required
    often = "" if is_one else ' minOccurs="0" maxOccurs="unbounded"'
    held: list[str] = []
    for group in groups:
        named = [f'<xs:group ref="{group.name}"/>']
        held += named if group.name else [_refer(tag) for tag in group.rules]
    yield from _lines("choice", often, held)


def _refer(tag: str) -> str:
    return f'<xs:element ref="{tag}"/>'


def _lines(tag: str, attributes: str, inner: Iterator[str] | list[str]) -> Iterator[str]:
    held = list(inner)
    if not held:
        yield f"<xs:{tag}{attributes}/>"
        return
    yield f"<xs:{tag}{attributes}>"
    yield from _indent(held)
    yield f"</xs:{tag}>"


def _indent(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
