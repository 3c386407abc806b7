"""XML, written: one way to write each tree, compact or with indentation.

Attributes are double-quoted and in the order given, empty elements are closed
at once, and every character that a reader would change is written as its
number. The two layouts differ in white space that no reader keeps.
"""

from __future__ import annotations

import re

from quicksilver.live.references.elements import DEFAULT_LIMITS, NAMESPACE
from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.names import check_text

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


class Out:
    """One element to be written: attributes in order, then children or text."""

    __slots__ = ("attributes", "children", "tag", "text")

    def __init__(self, tag: str, **attributes: str | None) -> None:
        self.tag = tag
        self.attributes = [
            (name.rstrip("_"), value) for name, value in attributes.items() if value is not None
        ]
        self.children: list[Out] = []
        self.text = ""

    def add(self, *children: Out | None) -> Out:
        """Put children at the end, leaving out what is None; returns this element."""
        self.children.extend(child for child in children if child is not None)
        return self

    def say(self, text: str) -> Out:
        """Set the text; returns this element."""
        self.text = text
        return self


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


def render(root: Out, *, is_pretty: bool) -> str:
    """Return the document of which this is the root, in our namespace."""
    root.attributes.insert(0, ("xmlns", NAMESPACE))
    parts: list[str] = []
    count = _render(root, parts, "\n" if is_pretty else "", 1)
    if count > DEFAULT_LIMITS.elements_max:
        raise UnfitReferenceError(
            "the reference", f"has {count} elements; at most {DEFAULT_LIMITS.elements_max} are read"
        )
    if is_pretty:
        return '<?xml version="1.0" encoding="UTF-8"?>' + "".join(parts) + "\n"
    return "".join(parts)


def _render(element: Out, parts: list[str], line: str, depth: int) -> int:
    count = 1
    if depth > DEFAULT_LIMITS.depth_max:
        raise UnfitReferenceError(
            "the reference", f"is nested more than {DEFAULT_LIMITS.depth_max} elements deep"
        )
    parts.append(f"{line}<{element.tag}")
    parts.extend(f' {name}="{escape_attribute(text)}"' for name, text in element.attributes)
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
