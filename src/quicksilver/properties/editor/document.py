"""A program in an editor: its findings, what a name means, where it is declared, what fits.

Everything is computed from the checked text, which is kept until the text changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from quicksilver.properties.check.program import Checked, check
from quicksilver.properties.editor.words import WORDS
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.source import Span
from quicksilver.properties.syntax.spellings import BY_TOKEN, CONTAINERS, SCALARS, SECTIONS
from quicksilver.properties.syntax.tokens import span_of

Sort = Literal["property", "parameter", "callback", "request", "variable", "label", "word"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a name stands for."""

    sort: Sort
    name: str
    span: Span
    text: str
    """Shown when the mouse rests on the name."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something that could be typed."""

    text: str
    sort: Sort
    detail: str


@dataclass(frozen=True)
class Document:
    """A text as it is now."""

    text: str
    name: str = "<program>"

    @cached_property
    def checked(self) -> Checked:
        """What the checker says of the text."""
        return check(self.text, self.name)

    @cached_property
    def _names(self) -> list[tuple[Span, Declaration | None]]:
        """Every name of the program with what it stands for, in the order of the text."""
        program = self.checked.parsed.program
        if program is None:
            return []
        found = list(_Resolver(program).names())
        return sorted(found, key=lambda each: each[0].start)

    def declaration_at(self, offset: int) -> Declaration | None:
        """Return what the name at a place stands for; None if there is none, or it is unknown."""
        for span, declaration in self._names:
            if span.start <= offset <= span.end:
                return declaration
        return None

    def hover(self, offset: int) -> tuple[Span, str] | None:
        """Return what to say about the word at a place, and where the word stands."""
        for span, declaration in self._names:
            if offset in span and declaration is not None:
                return span, declaration.text
        for token in self.checked.parsed.tokens.tokens:
            span = span_of(token)
            if offset in span:
                spelling = BY_TOKEN.get(token.type)
                word = spelling.ascii if spelling is not None else str(token)
                return (span, WORDS[word]) if word in WORDS else None
        return None

    def complete(self, offset: int) -> list[Proposal]:
        """Return what could be typed at a place; the editor chooses by what is typed already."""
        before = [
            token
            for token in self.checked.parsed.tokens.tokens
            if span_of(token).end <= offset and token.type != "$END"
        ]
        if before and before[-1].type == "NAME" and span_of(before[-1]).end == offset:
            before.pop()  # the word that is being typed
        last = before[-1].type if before else ""
        if last == "DOT":
            pair = [Proposal(word, "word", WORDS[word]) for word in ("first", "second")]
            return [*self._declared("property"), *pair]
        section = _section_of([token.type for token in before])
        if section is None:
            return _words("protocol") if not before else _words(*SECTIONS)
        if section == "properties" and last in {"BRACE_OPEN", "SEMICOLON", "LESS", "COMMA"}:
            return _words(*SCALARS, *CONTAINERS)
        if last == "BRACKET_OPEN":
            return [*_words("mono", "all", "strict"), *self._declared("property")]
        if section == "interface":
            return _words("callback", *SCALARS, *CONTAINERS)
        return [*self._expression(), *self._statement(section)]

    def _expression(self) -> list[Proposal]:
        words = ("parent", "children", "self", "if", "true", "false", "min", "max", "in", "subset")
        return [*self._declared("property"), *self._declared("parameter"), *_words(*words)]

    def _statement(self, section: str) -> list[Proposal]:
        if section == "bindings":
            events = [*self._declared("callback"), *self._declared("request")]
            return [*events, *_words("on", "update", "foreach", "added", "removed", "assign")]
        if section == "rules":
            return _words("global", "local", "mono", "all", "strict")
        if section == "invariants":
            return _words("invariant", "eventually", "forall", "any", "global")
        return []

    def _declared(self, sort: Sort) -> list[Proposal]:
        program = self.checked.parsed.program
        if program is None:
            return []
        return [
            Proposal(one.name, one.sort, one.text.partition("\n")[0])
            for one in _Resolver(program).declared.values()
            if one.sort == sort
        ]


def _words(*words: str) -> list[Proposal]:
    return [Proposal(word, "word", WORDS[word]) for word in words]


def _section_of(kinds: list[str]) -> str | None:
    """Return the section in which a text ends; None outside."""
    depth, section = 0, None
    for at, kind in enumerate(kinds):
        if kind == "BRACE_OPEN":
            depth += 1
            if depth == 2:
                section = kinds[at - 1].lower()
        elif kind == "BRACE_CLOSE":
            depth -= 1
            section = section if depth >= 2 else None
    return section if section in SECTIONS else None


class _Resolver:
    """Names of a program and what they stand for."""

    def __init__(self, program: tree.Program) -> None:
        self._program = program
        self.declared: dict[tuple[str, str], Declaration] = {}
        for parameter in program.parameters:
            text = f"{_type(parameter.type)} {parameter.name.text}: a parameter"
            self._declare("parameter", parameter.name, text)
        for event in program.events:
            sort: Sort = "callback" if event.is_callback else "request"
            signature = ", ".join(f"{_type(p.type)} {p.name.text}" for p in event.parameters)
            way = "from" if event.is_callback else "to"
            text = f"{event.name.text}({signature}): an event {way} the application"
            self._declare(sort, event.name, text)
        for one in program.properties:
            self._declare("property", one.name, self._describe(one))

    def names(self) -> Iterator[tuple[Span, Declaration | None]]:
        """Yield every name with what it stands for."""
        for declaration in self.declared.values():
            yield declaration.span, declaration
        program = self._program
        for one in (*program.properties, *program.parameters):
            for node in one.walk():
                yield from self._resolve(node, {})
        for binding in program.bindings:
            if isinstance(binding, tree.OnEvent):
                yield binding.event.span, self.declared.get(("callback", binding.event.text))
                bound = {name.text: _variable(name) for name in binding.variables}
            else:
                yield binding.property.span, self.declared.get(("property", binding.property.text))
                bound = {binding.variable.text: _variable(binding.variable)}
            yield from ((each.span, each) for each in bound.values())
            yield from self._resolve_below(binding.action, bound)
        for rule in (*program.rules, *program.conditions):
            yield from self._resolve_below(rule, {})
        for claim in program.invariants:
            bound = {name.text: _variable(name) for name in claim.variables}
            yield from ((each.span, each) for each in bound.values())
            yield from self._resolve_below(claim.value, bound)

    def _resolve_below(
        self, top: tree.Node, bound: dict[str, Declaration]
    ) -> Iterator[tuple[Span, Declaration | None]]:
        waiting = [(top, bound)]
        while waiting:
            node, scope = waiting.pop()
            yield from self._resolve(node, scope)
            if isinstance(node, tree.ForEach):
                variable = _variable(node.variable)
                yield variable.span, variable
                scope = {**scope, variable.name: variable}
            waiting.extend((each, scope) for each in node.children())

    def _resolve(
        self, node: tree.Node, scope: dict[str, Declaration]
    ) -> Iterator[tuple[Span, Declaration | None]]:
        match node:
            case tree.Reference(name, owner):
                if owner is not None and owner.text in scope:
                    yield owner.span, scope[owner.text]
                found = scope.get(name.text) if owner is None else None
                found = found or self.declared.get(("property", name.text))
                yield name.span, found or self.declared.get(("parameter", name.text))
            case tree.Children(_, name) | tree.Split(name) | tree.Half(name, _):
                yield name.span, self.declared.get(("property", name.text))
            case tree.Rule() | tree.Change():
                yield node.name.span, self.declared.get(("property", node.name.text))
            case tree.Request(name, _):
                yield name.span, self.declared.get(("request", name.text))
            case _:
                pass

    def _declare(self, sort: Sort, name: tree.Name, text: str) -> None:
        self.declared.setdefault((sort, name.text), Declaration(sort, name.text, name.span, text))

    def _describe(self, one: tree.Property) -> str:
        rules = [rule for rule in self._program.rules if rule.name.text == one.name.text]
        labels = [rule.label.text for rule in rules if rule.label is not None]
        said = f"; assigned by {', '.join(labels)}" if labels else ""
        return f"{_type(one.type)} {one.name.text}: a property{said}"


def _variable(name: tree.Name) -> Declaration:
    return Declaration("variable", name.text, name.span, f"{name.text}: a variable")


def _type(type_: tree.TypeName) -> str:
    if not type_.arguments:
        return type_.name
    return f"{type_.name}<{', '.join(map(_type, type_.arguments))}>"
