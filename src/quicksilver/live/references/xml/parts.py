"""The parts that elements are described by: attributes, texts, children, and one or the other."""

from __future__ import annotations

from typing import Any, Final

from quicksilver.live.references.names import show_name
from quicksilver.live.references.xml.elements import Element
from quicksilver.live.references.xml.grammar import Form, Group, Part, Reading, Rule

_REQUIRED: Final = object()


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
        """Return the attribute's value, or the default."""
        text = element.attributes.get(self._xml)
        return self._default if text is None else self._form.parse(text)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the attribute, unless the value is the default."""
        if value == self._default:
            return
        text = self._form.show(value)
        if text is not None:
            element.attributes[self._xml] = text


class Text(Part):
    """The text of an element that holds nothing else."""

    def __init__(self, name: str, form: Form) -> None:
        super().__init__(name, text=form)
        self._form = form

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the value of the text."""
        return self._form.parse(element.text)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the text."""
        element.text = self._form.show(value) or ""


class One(Part):
    """A part that is one child; without a default there must be one."""

    def __init__(
        self,
        name: str,
        group: Group,
        what: str,
        *,
        default: Any = _REQUIRED,
        is_hint: bool = False,
    ) -> None:
        super().__init__(name, groups=(group,), is_hint=is_hint)
        self._group = group
        self.is_required = default is _REQUIRED
        self._what = what
        self._default = default

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the child's value, or the default."""
        found = self._find(element)
        if len(found) == 1:
            return self._group.read(reading, found[0], path)
        if self.is_required:
            problem = f"<{element.tag}> needs one {self._what}, not {len(found)}"
            raise reading.fail(element, path, problem)
        if found:
            raise reading.fail(found[1], path, f"<{element.tag}> has a second {self._what}")
        return self._default

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the child, unless the value is the default."""
        if self.is_required or value != self._default:
            element.children.append(self._group.write_known(value, with_hints=with_hints))


class Many(Part):
    """A part that is any number of children."""

    def __init__(self, name: str, group: Group, *, distinct: str = "") -> None:
        super().__init__(name, groups=(group,))
        self._group = group
        self._distinct = distinct
        """What they are called where no two may have one name; empty if they may."""

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the children's values, in their order."""
        found = self._find(element)
        made: list[Any] = []
        for one in found:  # a loop: a comprehension would cost a frame of the stack each
            made.append(self._group.read(reading, one, path))  # noqa: PERF401
        seen: set[str] = set()
        for one in found if self._distinct else ():
            name = one.attributes["name"]
            if name in seen:
                problem = f"two {self._distinct}s are called {show_name(name)!r}"
                raise reading.fail(one, path, problem)
            seen.add(name)
        return tuple(made)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Add the children."""
        for one in value:
            element.children.append(self._group.write_known(one, with_hints=with_hints))


def child(name: str, rule: Rule, *, default: Any = _REQUIRED, is_hint: bool = False) -> Part:
    """Return the part that is one child of one kind."""
    return One(name, Group(rule), f"<{rule.tag}>", default=default, is_hint=is_hint)


def children(name: str, rule: Rule, *, distinct: str = "") -> Part:
    """Return the part that is any number of children of one kind."""
    return Many(name, Group(rule), distinct=distinct)


class Either(Part):
    """A part that is an attribute if its value has a short text, and one child otherwise."""

    def __init__(self, name: str, form: Form, xml: str, *groups: Group, needs: str = "") -> None:
        super().__init__(name, attributes=((xml, form, False),), groups=groups)
        self._form = form
        self._xml = xml
        self._needs = needs
        """What there must be one of; empty if there may be none."""

    def read(self, reading: Reading, element: Element, path: str) -> Any:
        """Return the value of the attribute or child; None if there is neither and need not be."""
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
        group = next(one for one in self.groups if found[0].tag in one.rules)
        return group.read(reading, found[0], path)

    def write(self, value: Any, element: Element, *, with_hints: bool) -> None:
        """Set the attribute or add the child."""
        if value is None:
            return
        text = self._form.show(value)
        if text is not None:
            element.attributes[self._xml] = text
            return
        for group in self.groups:
            said = group.write(value, with_hints=with_hints)
            if said is not None:
                element.children.append(said)
                return
        raise AssertionError(value)


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
