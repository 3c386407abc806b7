"""From what the grammar recognises to nodes: one method for each rule of ``grammar.lark``.

The parser calls them while it reads. A list arrives as a chain of what came before and one more
item, never as a list that is changed: after an error the parser goes back to where a statement
began.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token, Transformer

from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.source import Span
from quicksilver.properties.syntax.tokens import span_of

NUMBER_DIGITS_MAX = 30
"""More digits are not read: the number is far out of bounds anyway, and that is reported."""


class Chain(NamedTuple):
    """A list under construction: what came before, and the last item."""

    before: Chain | None
    item: Any


class Head(NamedTuple):
    """The left side of a rule."""

    place: Any
    name: tree.Name
    half: tree.Name | None
    key: Any
    modifiers: tuple[tree.Modifier, ...]
    span: Span


class InvariantHead(NamedTuple):
    """What stands before the expression of an invariant."""

    kind: Any
    is_any: bool
    variables: tuple[tree.Name, ...]
    span: Span


def _flatten(chain: Chain | None) -> tuple[Any, ...]:
    items: list[Any] = []
    while chain is not None:
        items.append(chain.item)
        chain = chain.before
    return tuple(reversed(items))


def _name(token: Token) -> tree.Name:
    return tree.Name(str(token), span=span_of(token))


def _span(part: Any) -> Span:
    if isinstance(part, Token):
        return span_of(part)
    assert isinstance(part.span, Span)
    return part.span


def _across(parts: list[Any]) -> Span:
    return _span(parts[0]).to(_span(parts[-1]))


class Builder(Transformer[Token, tree.Program]):
    """Methods are called with the parts of what was recognised, tokens included."""

    def program(self, parts: list[Any]) -> tree.Program:
        _, name, parameters, _, sections, _ = parts
        return tree.Program(_name(name), parameters, _flatten(sections), span=_across(parts))

    # Lists.

    def _extend(self, parts: list[Any]) -> Chain | None:
        if not parts:
            return None
        return Chain(parts[0], parts[1])

    sections = events = properties = bindings = rules = conditions = invariants = actions = _extend

    def _begin(self, parts: list[Any]) -> Chain:
        return Chain(None, parts[0]) if len(parts) == 1 else Chain(parts[0], parts[2])

    parameter_list = type_list = expressions = items = modifier_list = _begin

    def names(self, parts: list[Any]) -> Chain:
        before = parts[0] if len(parts) == 3 else None
        return Chain(before, _name(parts[-1]))

    # Declarations.

    def parameters(self, parts: list[Any]) -> tuple[tree.Parameter, ...]:
        return _flatten(parts[1]) if len(parts) == 3 else ()

    def parameter(self, parts: list[Any]) -> tree.Parameter:
        default = parts[3] if len(parts) == 4 else None
        return tree.Parameter(parts[0], _name(parts[1]), default, span=_across(parts))

    def type(self, parts: list[Any]) -> tree.TypeName:
        arguments = _flatten(parts[2]) if len(parts) == 4 else ()
        return tree.TypeName(str(parts[0]), arguments, span=_across(parts))

    def section(self, parts: list[Any]) -> tree.Section:
        return tree.Section(str(parts[0]), _flatten(parts[2]), span=_across(parts))

    def event(self, parts: list[Any]) -> tree.Event:
        is_callback = len(parts) == 4
        name, parameters = parts[-3], parts[-2]
        return tree.Event(is_callback, _name(name), parameters, span=_across(parts))

    def property(self, parts: list[Any]) -> tree.Property:
        initial = parts[3] if len(parts) == 5 else None
        return tree.Property(parts[0], _name(parts[1]), initial, span=_across(parts))

    # Bindings.

    def binding(self, parts: list[Any]) -> tree.OnEvent | tree.OnUpdate:
        found: tree.OnEvent | tree.OnUpdate = parts[0]
        if len(parts) == 1:
            return found
        label, span = _name(parts[1]), _across(parts)
        if isinstance(found, tree.OnEvent):
            return tree.OnEvent(found.event, found.variables, found.action, label, span=span)
        return tree.OnUpdate(
            found.property, found.kind, found.variable, found.action, label, span=span
        )

    def on_event(self, parts: list[Any]) -> tree.OnEvent:
        variables = _flatten(parts[3]) if len(parts) == 7 else ()
        return tree.OnEvent(_name(parts[1]), variables, parts[-1], span=_across(parts))

    def on_update(self, parts: list[Any]) -> tree.OnUpdate:
        _, _, name, _, kind, variable, _, _, action = parts
        return tree.OnUpdate(_name(name), kind, _name(variable), action, span=_across(parts))

    def change_kind(self, parts: list[Any]) -> str:
        return str(parts[0])

    def change_operator(self, parts: list[Any]) -> str:
        found = parts[0]
        return str(found.type if isinstance(found, Token) else found)

    def change(self, parts: list[Any]) -> tree.Change:
        key = parts[2] if len(parts) == 6 else None
        return tree.Change(
            _name(parts[0]), key, parts[-2], parts[-1], span=_across([parts[0], parts[-1]])
        )

    def request(self, parts: list[Any]) -> tree.Request:
        arguments = _flatten(parts[2]) if len(parts) == 4 else ()
        return tree.Request(_name(parts[0]), arguments, span=_across(parts))

    def done(self, parts: list[Any]) -> Any:
        return parts[0]

    def block(self, parts: list[Any]) -> tree.Block:
        return tree.Block(_flatten(parts[1]), span=_across(parts))

    def foreach(self, parts: list[Any]) -> tree.ForEach:
        _, _, variable, _, over, _, action = parts
        return tree.ForEach(_name(variable), over, action, span=_across(parts))

    def if_only(self, parts: list[Any]) -> tree.If:
        return tree.If(parts[2], parts[4], None, span=_across(parts))

    def if_else(self, parts: list[Any]) -> tree.If:
        return tree.If(parts[2], parts[4], parts[6], span=_across(parts))

    # Rules, conditions, invariants.

    def rule(self, parts: list[Any]) -> tree.Rule:
        label = _name(parts.pop()) if parts[-1].type == "LABEL" else None
        head, operator = parts[0], parts[1]
        modifiers = parts[2][1] if len(parts) == 5 else ()
        value, end = parts[-2], parts[-1]
        return tree.Rule(
            head.place,
            head.name,
            head.half,
            head.key,
            (*head.modifiers, *modifiers),
            operator,
            value,
            label,
            span=head.span.to(_span(label or end)),
        )

    def rule_operator(self, parts: list[Any]) -> str:
        return str(parts[0].type)

    def head(self, parts: list[Any]) -> Head:
        (place, name, span), half, key, modifiers = parts[0], None, None, ()
        for kind, value in parts[1:]:
            if kind == "half":
                half = value
            elif kind == "key":
                key = value
            else:
                modifiers = value
        return Head(place, name, half, key, modifiers, span)

    def target(self, parts: list[Any]) -> tuple[str | None, tree.Name, Span]:
        place = str(parts[0]) if len(parts) == 3 else None
        return place, _name(parts[-1]), _across(parts)

    def half(self, parts: list[Any]) -> tuple[str, tree.Name]:
        return "half", _name(parts[1])

    def key(self, parts: list[Any]) -> tuple[str, Any]:
        return "key", parts[1]

    def modifiers(self, parts: list[Any]) -> tuple[str, tuple[tree.Modifier, ...]]:
        return "modifiers", _flatten(parts[1])

    def modifier(self, parts: list[Any]) -> tree.Modifier:
        name: Any = str(parts[0])
        return tree.Modifier(name, span=_across(parts))

    def condition(self, parts: list[Any]) -> tree.Condition:
        label = _name(parts[2]) if len(parts) == 3 else None
        return tree.Condition(parts[0], label, span=_across(parts))

    def invariant(self, parts: list[Any]) -> tree.Invariant:
        label = _name(parts[3]) if len(parts) == 4 else None
        head: InvariantHead = parts[0]
        return tree.Invariant(
            head.kind, head.is_any, head.variables, parts[1], label, span=_across(parts)
        )

    def invariant_head(self, parts: list[Any]) -> InvariantHead:
        variables = _flatten(parts[-2]) if len(parts) > 1 else ()
        return InvariantHead(str(parts[0]), len(parts) == 5, variables, _across(parts))

    def invariant_kind(self, parts: list[Any]) -> Token:
        token: Token = parts[0]
        return token

    # Expressions.

    def binary(self, parts: list[Any]) -> tree.Binary:
        left, operator, right = parts
        return tree.Binary(
            operator.type, left, right, span=_across(parts), operator_span=span_of(operator)
        )

    def unary(self, parts: list[Any]) -> tree.Unary:
        return tree.Unary(parts[0].type, parts[1], span=_across(parts))

    def size(self, parts: list[Any]) -> tree.Unary:
        return tree.Unary("SIZE", parts[1], span=_across(parts))

    def extreme(self, parts: list[Any]) -> tree.Unary:
        return tree.Unary(parts[0].type, parts[2], span=_across(parts))

    def conditional(self, parts: list[Any]) -> tree.Conditional:
        return tree.Conditional(parts[1], parts[3], parts[5], span=_across(parts))

    def parenthesis(self, parts: list[Any]) -> Any:
        return parts[1]

    def number(self, parts: list[Any]) -> tree.Number:
        return tree.Number(int(parts[0][:NUMBER_DIGITS_MAX]), span=_across(parts))

    def truth(self, parts: list[Any]) -> tree.Truth:
        return tree.Truth(parts[0].type == "TRUE", span=_across(parts))

    def itself(self, parts: list[Any]) -> tree.Self:
        return tree.Self(span=_across(parts))

    def reference(self, parts: list[Any]) -> tree.Reference:
        return tree.Reference(_name(parts[0]), span=_across(parts))

    def reference_of(self, parts: list[Any]) -> tree.Reference:
        return tree.Reference(_name(parts[2]), _name(parts[0]), span=_across(parts))

    far = reference_of

    def half_of(self, parts: list[Any]) -> tree.Half:
        return tree.Half(_name(parts[0]), _name(parts[2]), span=_across(parts))

    def split(self, parts: list[Any]) -> tree.Split:
        return tree.Split(_name(parts[-1]), span=_across(parts))

    def children(self, parts: list[Any]) -> tree.Children:
        return tree.Children(parts[2], _name(parts[-1]), span=_across(parts))

    def aggregator(self, parts: list[Any]) -> tree.Aggregator:
        token: Token = parts[0]
        name = str(token) if token.type == "NAME" else str(token.type)
        return tree.Aggregator(name, span=_across(parts))

    unfit = aggregator

    def top(self, parts: list[Any]) -> tree.Aggregator:
        return tree.Aggregator("top", count=parts[2], span=_across(parts))

    def set_of(self, parts: list[Any]) -> tree.SetOf:
        items = _flatten(parts[1]) if len(parts) == 3 else ()
        return tree.SetOf(items, span=_across(parts))

    def range(self, parts: list[Any]) -> tree.Range:
        return tree.Range(parts[0], parts[2], span=_across(parts))

    def pair(self, parts: list[Any]) -> tree.Pair:
        return tree.Pair(parts[1], parts[3], span=_across(parts))

    def part(self, parts: list[Any]) -> tree.Part:
        part: Any = str(parts[2])
        return tree.Part(parts[0], part, span=_across(parts))

    def named_part(self, parts: list[Any]) -> tree.Part:
        return self.part([self.reference(parts[:1]), *parts[1:]])

    def look_up(self, parts: list[Any]) -> tree.LookUp:
        return tree.LookUp(parts[0], parts[2], span=_across(parts))
