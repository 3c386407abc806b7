"""A language to describe elements in: one rule for reading, writing and publishing each.

A rule is what one kind of element may hold, as parts, and the value it stands for.
The parts are given to the value's constructor by name when an element is read, and
are taken from the value by the same names when it is written. What a part allows is
also what the schema publishes of it. ``rules`` has the grammar of references; here
is only what it is made of, and ``parts`` has the kinds of parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from quicksilver.live.references.errors import (
    BadTypeTextError,
    MalformedReferenceError,
    Place,
    UnfitReferenceError,
)
from quicksilver.live.references.xml.elements import ROOT, Element
from quicksilver.live.types.errors import LiveTypeError

_REFUSALS = (UnfitReferenceError, BadTypeTextError, LiveTypeError, ValueError)
"""What parsers of texts and constructors of values raise for what they do not take."""


class Reading:
    """The reading of one document: where its parts were found."""

    def __init__(self, source: str = "") -> None:
        self.source = source
        self.places: dict[str, Place] = {}
        self._namesakes: dict[str, int] = {}

    def note(self, element: Element, path: str) -> str:
        """Note where a part was found; returns its path, numbered if another has the same."""
        unique = path
        if path in self.places:
            count = self._namesakes[path] = self._namesakes.get(path, 1) + 1
            unique = f"{path}#{count}"
        self.places[unique] = Place(unique, element.line, element.column, self.source)
        return unique

    def fail(self, element: Element, path: str, problem: str) -> MalformedReferenceError:
        """Return the error that says what is wrong with this element."""
        place = Place(path or ROOT, element.line, element.column, self.source)
        return MalformedReferenceError(place, problem)


class Form(msgspec.Struct, frozen=True):
    """How a value is written as text, in an attribute or between tags."""

    schema: str = "xs:string"
    """The type that XML Schema knows it by."""

    parse: Callable[[str], Any] = str
    """Returns the value; raises ValueError or an error of this package."""

    show: Callable[[Any], str | None] = str
    """Returns the text, or None if this value has no short text."""


class Part(ABC):
    """Something that an element holds, under the name that the value has for it."""

    def __init__(
        self,
        name: str,
        *,
        attributes: tuple[tuple[str, Form, bool], ...] = (),
        groups: tuple[Group, ...] = (),
        text: Form | None = None,
        is_hint: bool = False,
    ) -> None:
        self.name = name
        self.attributes = attributes
        """Attributes that it may take up: name, form, and whether it must be there."""
        self.groups = groups
        """Children that belong to it."""
        self.text = text
        """How the element's own text is written, if it is this part."""
        self.is_hint = is_hint
        """For people alone: no part of the meaning, so the canonical form leaves it out."""

    @abstractmethod
    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the value of this part, read from an element that may hold it."""

    @abstractmethod
    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the part to an element, as attribute, text or children."""

    @cached_property
    def tags(self) -> dict[str, None]:
        """Tags of the children that belong to it; known once all groups are filled."""
        return dict.fromkeys(tag for group in self.groups for tag in group.rules)

    def _find(self, element: Element) -> list[Element]:
        """Return the children that belong to this part."""
        tags = self.tags
        return [child for child in element.children if child.tag in tags]


class Group:
    """Kinds of elements that may stand in one place."""

    def __init__(
        self,
        *rules: Rule,
        name: str = "",
        lift: Callable[[Any], Any] | None = None,
        lower: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name = name
        """What the schema calls it; empty if it is listed where it is used."""
        self.rules = {rule.tag: rule for rule in rules}
        self._lift = lift
        self._lower = lower
        self._by_class: dict[type, list[Rule]] = {}

    def fill(self, *rules: Rule) -> None:
        """Set the kinds; rules that use each other are made after their groups.

        Where several are for one value, the first is written.
        """
        self.rules.update((rule.tag, rule) for rule in rules)

    def as_seen(self, lift: Callable[[Any], Any], lower: Callable[[Any], Any]) -> Group:
        """Return the same kinds for a place where their values are held in another form."""
        group = Group(name=self.name, lift=lift, lower=lower)
        group.rules = self.rules
        return group

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the value of an element that is one of these."""
        value = self.rules[element.tag].read(reading, element, path)
        return value if self._lift is None else self._lift(value)

    def write(self, value: Any, *, with_hints: bool) -> Element | None:
        """Return the element for a value; None if none of these kinds is for it."""
        if self._lower is not None:
            value = self._lower(value)
        kind = type(value)
        if kind not in self._by_class:
            self._by_class[kind] = [one for one in self.rules.values() if issubclass(kind, one.of)]
        for rule in self._by_class[kind]:
            element = rule.write(value, with_hints=with_hints)
            if element is not None:
                return element
        return None

    def write_known(self, value: Any, *, with_hints: bool) -> Element:
        """Return the element for a value that one of these kinds is for."""
        element = self.write(value, with_hints=with_hints)
        assert element is not None, value
        return element


class Rule:
    """One kind of element: its parts, and the value that it stands for."""

    def __init__(
        self,
        tag: str,
        *parts: Part,
        make: Callable[..., Any],
        of: type = object,
        view: Callable[[Any], Mapping[str, Any] | None] | None = None,
        step: Callable[[Element], str] | None = None,
        key: Callable[[Element], str] | None = None,
        is_noted: bool = False,
        note_also: Callable[[str, Any], tuple[str, ...]] | None = None,
        doc: str = "",
    ) -> None:
        self.tag = tag
        self.parts = parts
        self.of = of
        """The class of the values that may be written so."""
        self.doc = doc
        """Its description in the schema."""
        self._make = make
        """Takes the parts by name."""
        self._view = view
        """Returns a value's parts, or None if it is not written so; None: its attributes."""
        self._step = step if step is not None else lambda _: tag
        """What it is called in a path; an empty text adds nothing to the path."""
        self._key = key
        """What tells it from its neighbours, given an element that has all its attributes."""
        self._is_noted = is_noted
        """Whether its place is kept."""
        self._note_also = note_also
        """Returns further paths of the value, for what is short for something longer."""
        self._without_hints = tuple(part for part in parts if not part.is_hint)
        self.text = next((part.text for part in parts if part.text is not None), None)
        """How its text is written, if it holds text alone."""
        self._attributes = {name: must for part in parts for name, _, must in part.attributes}

    @cached_property
    def _tags(self) -> dict[str, None]:
        return dict.fromkeys(tag for part in self.parts for tag in part.tags)

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the value of an element; raises MalformedReferenceError."""
        if self._key is None:
            path = self._enter(reading, element, path, self._step(element))
        self._check_attributes(reading, element, path)
        try:
            if self._key is not None:
                step = f"{self.tag}[{self._key(element)}]"
                path = self._enter(reading, element, path, step)
            self._check_content(reading, element, path)
            given: dict[str, Any] = {}
            for part in self.parts:
                given[part.name] = part.read(reading, element, path)
            made = self._make(**given)
        except _REFUSALS as error:
            raise reading.fail(element, path, str(error)) from None
        if self._note_also is not None:
            for further in self._note_also(path, made):
                reading.note(element, further)
        return made

    def _enter(self, reading: Reading, element: Element, path: str, step: str) -> str:
        if not step:
            return path
        path = f"{path}/{step}" if path else step
        return reading.note(element, path) if self._is_noted else path

    def _check_attributes(self, reading: Reading, element: Element, path: str) -> None:
        given, known = element.attributes, self._attributes
        for name, must in known.items():
            if must and name not in given:
                raise reading.fail(element, path, f"<{element.tag}> lacks the attribute {name!r}")
        for name in given:
            if name not in known:
                shown = name.split(" ")[-1]
                raise reading.fail(element, path, f"<{element.tag}> has no attribute {shown!r}")

    def _check_content(self, reading: Reading, element: Element, path: str) -> None:
        if self.text is not None:
            if element.children:
                raise reading.fail(element, path, f"<{element.tag}> holds text alone")
            return
        if element.text and not element.text.isspace():
            shown = " ".join(element.text.split())[:40]
            raise reading.fail(element, path, f"<{element.tag}> holds the text {shown!a}")
        for child in element.children:
            if child.tag not in self._tags:
                expected = f"; expected {' or '.join(self._tags)}" if self._tags else ""
                problem = f"<{child.tag}> does not belong into <{element.tag}>{expected}"
                raise reading.fail(child, path, problem)

    def write(self, value: Any, *, with_hints: bool) -> Element | None:
        """Return the element for a value; None if this rule is not for it."""
        given: Mapping[str, Any] | None = None
        if self._view is not None:
            given = self._view(value)
            if given is None:
                return None
        element = Element(self.tag)
        for part in self.parts if with_hints else self._without_hints:
            said = getattr(value, part.name) if given is None else given[part.name]
            part.write(said, element, with_hints=with_hints)
        return element


def walk_rules(root: Rule) -> Iterator[Rule]:
    """Yield a rule and all that can be inside it, one of each tag."""
    seen: set[str] = set()
    pending = [root]
    while pending:
        rule = pending.pop(0)
        if rule.tag in seen:
            continue
        seen.add(rule.tag)
        yield rule
        groups = (group for part in rule.parts for group in part.groups)
        pending.extend(inner for group in groups for inner in group.rules.values())
