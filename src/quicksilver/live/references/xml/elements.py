"""XML as a small tree: parsed safely from bytes, and rendered in one way.

The standard library's expat does the scanning. A document type, an entity or
a processing instruction ends the reading at once, so there is nothing to
expand; depth, size, elements and attributes are bounded while they are
counted, before anything is built from them.

A tree is rendered compactly or with indentation; the two differ in white space
that no reader keeps. Attributes are double-quoted and in the order given, empty
elements are closed at once, and every character that a reader would change is
written as its number.
"""

from __future__ import annotations

import re
from typing import Final
from xml.parsers import expat

import msgspec

from quicksilver.live.references.errors import (
    MalformedReferenceError,
    Place,
    UnfitReferenceError,
)
from quicksilver.live.references.names import check_text

NAMESPACE: Final = "urn:quicksilver:liveobject:1"
ROOT: Final = "liveobject"
"""The tag of the outermost element."""

_IN_TEXT = re.compile(r"[&<>\r]")
_IN_ATTRIBUTE = re.compile(r'[&<>"\t\n\r]')
_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a file may hold; past any of these it is refused unread."""

    bytes_max: int = 1 << 20
    """Size of the file. A reference of a thousand components has about 200 kB."""

    depth_max: int = 100
    """Elements inside each other; a reference inside a component takes two."""

    elements_max: int = 20_000
    attributes_max: int = 8
    """Attributes of one element; none of ours has more than five."""

    attribute_characters_max: int = 8192
    """Length of an attribute's value."""

    name_characters_max: int = 200
    """Length of the name of an element or attribute, its namespace included."""


DEFAULT_LIMITS: Final = Limits()


class Element:
    """One element: attributes in order, then children or text.

    Line and column, from 1, are where it was read; 0 if it was not.
    """

    __slots__ = ("attributes", "children", "column", "line", "tag", "text")

    def __init__(
        self, tag: str, attributes: dict[str, str] | None = None, line: int = 0, column: int = 0
    ) -> None:
        self.tag = tag
        self.attributes = {} if attributes is None else attributes
        self.line = line
        self.column = column
        self.children: list[Element] = []
        self.text = ""


class _Builder:
    """Receives expat's events for one document."""

    def __init__(self, limits: Limits, source: str) -> None:
        self._limits = limits
        self._source = source
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0
        self.root: Element | None = None
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.XmlDeclHandler = self._declare
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.EntityDeclHandler = self._refuse_doctype
        parser.NotationDeclHandler = self._refuse_doctype
        parser.ExternalEntityRefHandler = self._refuse_doctype
        parser.SkippedEntityHandler = self._refuse_doctype
        parser.ProcessingInstructionHandler = self._refuse_instruction
        self.parser = parser

    def fail(self, problem: str, line: int, column: int) -> MalformedReferenceError:
        path = "/".join(element.tag for element in self._open[1:]) or ROOT
        return MalformedReferenceError(Place(path, line, column, self._source), problem)

    def fail_here(self, problem: str) -> MalformedReferenceError:
        parser = self.parser
        return self.fail(problem, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def _declare(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in {"utf-8", "us-ascii", "ascii"}:
            raise self.fail_here(f"the encoding is {encoding[:40]!a}; references are UTF-8")

    def _refuse_doctype(self, *_: object) -> int:
        raise self.fail_here("a reference has no document type and no entities")

    def _refuse_instruction(self, target: str, data: str) -> None:
        raise self.fail_here("a reference has no processing instructions")

    def _start(self, name: str, attributes: list[str]) -> None:
        limits = self._limits
        self._count += 1
        if self._count > limits.elements_max:
            raise self.fail_here(f"more than {limits.elements_max} elements")
        if len(self._open) >= limits.depth_max:
            raise self.fail_here(f"elements are nested more than {limits.depth_max} deep")
        if len(name) > limits.name_characters_max:
            raise self.fail_here("the name of an element is too long")
        namespace, _, tag = name.rpartition(" ")
        if namespace != NAMESPACE:
            raise self.fail_here(
                f"the element {tag[:40]!a} is not in the namespace {NAMESPACE}"
                + (f" but in {namespace[:60]!a}" if namespace else "")
            )
        if len(attributes) > 2 * limits.attributes_max:
            raise self.fail_here(f"{tag} has more than {limits.attributes_max} attributes")
        given: dict[str, str] = {}
        for index in range(0, len(attributes), 2):
            key, value = attributes[index], attributes[index + 1]
            if len(key) > limits.name_characters_max:
                raise self.fail_here(f"the name of an attribute of {tag} is too long")
            if len(value) > limits.attribute_characters_max:
                raise self.fail_here(
                    f"the attribute {key[:40]!a} has more than "
                    f"{limits.attribute_characters_max} characters"
                )
            given[key] = value
        parser = self.parser
        element = Element(tag, given, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def _characters(self, text: str) -> None:
        self._texts[-1].append(text)


def parse_elements(data: bytes, limits: Limits = DEFAULT_LIMITS, source: str = "") -> Element:
    """Return the root element; raises MalformedReferenceError for anything but sound XML."""
    builder = _Builder(limits, source)
    if len(data) > limits.bytes_max:
        problem = f"the file has more than {limits.bytes_max} bytes"
        raise builder.fail(problem, 1, 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        raise builder.fail("the file is not UTF-8", line, column) from None
    try:
        builder.parser.Parse(text, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        problem = f"not well-formed XML: {reason}"
        raise builder.fail(problem, error.lineno, error.offset + 1) from None
    assert builder.root is not None
    return builder.root


def escape_text(text: str) -> str:
    """Return text as it stands between tags; raises UnfitReferenceError if XML cannot say it."""
    check_text("a text", text)
    return _IN_TEXT.sub(_escape, text)


def escape_attribute(text: str) -> str:
    """Return text as it stands in double quotes; raises UnfitReferenceError as above."""
    check_text("an attribute", text)
    return _IN_ATTRIBUTE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found.group()]


def render_elements(root: Element, *, is_pretty: bool) -> str:
    """Return the document of which this is the root, in our namespace."""
    root.attributes = {"xmlns": NAMESPACE, **root.attributes}
    parts: list[str] = []
    count = _render(root, parts, "\n" if is_pretty else "", 1)
    if count > DEFAULT_LIMITS.elements_max:
        raise UnfitReferenceError(
            "the reference", f"has {count} elements; at most {DEFAULT_LIMITS.elements_max} are read"
        )
    if is_pretty:
        return '<?xml version="1.0" encoding="UTF-8"?>' + "".join(parts) + "\n"
    return "".join(parts)


def _render(element: Element, parts: list[str], line: str, depth: int) -> int:
    count = 1
    if depth > DEFAULT_LIMITS.depth_max:
        raise UnfitReferenceError(
            "the reference", f"is nested more than {DEFAULT_LIMITS.depth_max} elements deep"
        )
    parts.append(f"{line}<{element.tag}")
    parts.extend(f' {name}="{escape_attribute(text)}"' for name, text in element.attributes.items())
    if element.children:
        parts.append(">")
        inner = line + "  " if line else ""
        for child in element.children:
            count += _render(child, parts, inner, depth + 1)
        parts.append(f"{line}</{element.tag}>")
    elif element.tag == "doc" and line and "\n" in element.text:
        # Readers of documentation take the spaces around its lines away again.
        lines = escape_text(element.text).split("\n")
        parts.append(">")
        parts.extend(f"{line}  {one}" if one else "\n" for one in lines)
        parts.append(f"{line}</{element.tag}>")
    elif element.text:
        parts.append(f">{escape_text(element.text)}</{element.tag}>")
    else:
        parts.append("/>")
    return count
