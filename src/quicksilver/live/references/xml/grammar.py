"""A language to describe elements in: one rule for reading, writing and publishing each.

A rule is what one kind of element may hold, as parts, and the value it stands for.
The parts are given to the value's constructor by name when an element is read, and
are taken from the value by the same names when it is written. What a part allows is
also what the schema publishes of it. ``rules`` has the grammar of references; here
is only what it is made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from quicksilver.live.references.errors import (
    BadTypeTextError,
    MalformedReferenceError,
    Place,
    UnfitReferenceError,
)
from quicksilver.live.references.names import show_name
from quicksilver.live.references.xml.elements import ROOT, Element
from quicksilver.live.types.errors import LiveTypeError

_REQUIRED: Final = object()
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
    """Returns the text, or None if no text says this value."""


class Part(ABC):
    """Something that an element holds, under the name that the value has for it."""

    def __init__(
        self,
        name: str,
        *,
        attributes: tuple[tuple[str, Form, bool], ...] = (),
        groups: tuple[Group, ...] = (),
        is_hint: bool = False,
    ) -> None:
        self.name = name
        self.attributes = attributes
        """Attributes that it may take up: name, form, and whether it must be there."""
        self.groups = groups
        """Children that belong to it."""
        self.is_hint = is_hint
        """For people alone: no part of the meaning, so the canonical form leaves it out."""

    @abstractmethod
    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what an element says of this part."""

    @abstractmethod
    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Say the part in an element."""

    def _find(self, element: Element) -> list[Element]:
        """Return the children that belong to this part."""
        children = element.children
        return [one for one in children if any(one.tag in group.rules for group in self.groups)]


class Attribute(Part):
    """A part that is an attribute; without a default there must be one."""

    def __init__(
        self,
        name: str,
        form: Form,
        xml: str = "",
        *,
        default: Any = _REQUIRED,
        is_hint: bool = False,
    ) -> None:
        self._form = form
        self._xml = xml or name
        self._default = default
        form_of = (self._xml, form, default is _REQUIRED)
        super().__init__(name, attributes=(form_of,), is_hint=is_hint)

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the attribute says, or the default."""
        text = element.attributes.get(self._xml)
        return self._default if text is None else self._form.parse(text)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the attribute, unless the default says as much."""
        if value == self._default:
            return
        text = self._form.show(value)
        if text is not None:
            element.attributes[self._xml] = text


class Text(Part):
    """The text of an element that holds nothing else."""

    def __init__(self, name: str, form: Form) -> None:
        super().__init__(name)
        self.form = form

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the text says."""
        return self.form.parse(element.text)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the text."""
        element.text = self.form.show(value) or ""


class Child(Part):
    """A part that is one child; without a default there must be one."""

    def __init__(
        self, name: str, rule: Rule, *, default: Any = _REQUIRED, is_hint: bool = False
    ) -> None:
        super().__init__(name, groups=(Group(rule),), is_hint=is_hint)
        self._rule = rule
        self._default = default

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the child says, or the default."""
        found = self._find(element)
        tag = self._rule.tag
        if self._default is _REQUIRED and len(found) != 1:
            raise reading.fail(
                element, path, f"<{element.tag}> needs one <{tag}>, not {len(found)}"
            )
        if len(found) > 1:
            raise reading.fail(found[1], path, f"<{element.tag}> has a second <{tag}>")
        return self._rule.read(reading, found[0], path) if found else self._default

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the child, unless the default says as much."""
        if value != self._default:
            element.children.append(self._rule.write_known(value, with_hints=with_hints))


class Children(Part):
    """A part that is any number of children of one kind."""

    def __init__(self, name: str, rule: Rule, *, distinct: str = "") -> None:
        super().__init__(name, groups=(Group(rule),))
        self._rule = rule
        self._distinct = distinct
        """What they are called where no two may have one name; empty if they may."""

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the children say, in their order."""
        read, tag = self._rule.read, self._rule.tag
        made: list[Any] = []
        seen: set[str] = set()
        for child in element.children:
            if child.tag != tag:
                continue
            made.append(read(reading, child, path))
            if self._distinct:
                name = child.attributes["name"]
                if name in seen:
                    problem = f"two {self._distinct}s are called {show_name(name)!r}"
                    raise reading.fail(child, path, problem)
                seen.add(name)
        return tuple(made)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the children."""
        for one in value:
            element.children.append(self._rule.write_known(one, with_hints=with_hints))


class Only(Part):
    """The one child of an element that wraps something."""

    def __init__(self, name: str, group: Group, what: str) -> None:
        super().__init__(name, groups=(group,))
        self._what = what

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the child says."""
        children = element.children
        if len(children) != 1:
            problem = f"<{element.tag}> needs one {self._what}, not {len(children)}"
            raise reading.fail(element, path, problem)
        return self.groups[0].rules[children[0].tag].read(reading, children[0], path)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the child."""
        element.children.append(self.groups[0].write_known(value, with_hints=with_hints))


class Members(Part):
    """All children of an element, of several kinds."""

    def __init__(self, name: str, group: Group) -> None:
        super().__init__(name, groups=(group,))

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the children say, in their order."""
        group = self.groups[0]
        return tuple(
            group.lift(group.rules[child.tag].read(reading, child, path))
            for child in element.children
        )

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the children."""
        for one in value:
            element.children.append(self.groups[0].write_known(one, with_hints=with_hints))


class Either(Part):
    """A part that is an attribute where a text can say it, and one child where none can."""

    def __init__(self, name: str, form: Form, xml: str, *groups: Group, needs: str = "") -> None:
        super().__init__(name, attributes=((xml, form, False),), groups=groups)
        self._form = form
        self._xml = xml
        self._needs = needs
        """What there must be one of; empty if there may be none."""

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return what the attribute or the child says; None if neither is there and need not be."""
        text = element.attributes.get(self._xml)
        found = self._find(element)
        count = len(found) + (text is not None)
        if count == 0 and not self._needs:
            return None
        if count != 1:
            problem = f"needs one {self._needs}" if self._needs else f"says its {self._xml!r} twice"
            raise reading.fail(element, path, f"<{element.tag}> {problem}")
        if text is not None:
            return self._form.parse(text)
        child = found[0]
        group = next(one for one in self.groups if child.tag in one.rules)
        return group.lift(group.rules[child.tag].read(reading, child, path))

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the attribute or add the child."""
        if value is None:
            return
        text = self._form.show(value)
        if text is not None:
            element.attributes[self._xml] = text
            return
        for group in self.groups:
            child = group.write(value, with_hints=with_hints)
            if child is not None:
                element.children.append(child)
                return
        raise AssertionError(value)


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

        Of several that can say a value, the first is written.
        """
        self.rules.update((rule.tag, rule) for rule in rules)

    def as_seen(self, lift: Callable[[Any], Any], lower: Callable[[Any], Any]) -> Group:
        """Return the same kinds for a place where their values are held in another form."""
        group = Group(name=self.name, lift=lift, lower=lower)
        group.rules = self.rules
        return group

    def lift(self, value: Any) -> Any:
        """Return the value of an element as it is in this place."""
        return value if self._lift is None else self._lift(value)

    def write(self, value: Any, *, with_hints: bool) -> Element | None:
        """Return the element that says a value; None if none of these can."""
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
        """Return the element that says a value that one of these can say."""
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
        """What the schema says of it."""
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
        self.text = next((part for part in parts if isinstance(part, Text)), None)
        self._attributes = {name: must for part in parts for name, _, must in part.attributes}

    @cached_property
    def _tags(self) -> dict[str, None]:
        groups = (group for part in self.parts for group in part.groups)
        return dict.fromkeys(tag for group in groups for tag in group.rules)

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
        """Return the element that says a value; None if this rule cannot."""
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

    def write_known(self, value: Any, *, with_hints: bool) -> Element:
        """Return the element that says a value of this rule's kind."""
        element = self.write(value, with_hints=with_hints)
        assert element is not None, value
        return element


def wrap(tag: str, part: Part, *, doc: str = "", is_step: bool = True) -> Rule:
    """Return the rule of an element that stands for the one part it holds, called ``inner``."""
    assert part.name == "inner", part.name
    return Rule(
        tag,
        part,
        make=lambda inner: inner,
        view=lambda inner: {"inner": inner},
        step=None if is_step else lambda _: "",
        doc=doc,
    )


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
