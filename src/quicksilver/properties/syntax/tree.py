"""A program as a tree.

Every node knows its piece of the text; two nodes are equal if they say the same. They are
immutable. Spellings, comments and redundant parentheses are not part of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Literal

from quicksilver.properties.syntax.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Node:
    """Anything that a piece of the text stands for."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below this one, in the order of the fields."""
        for name in _names_of_parts(type(self)):
            value = getattr(self, name)
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                for item in value:
                    if isinstance(item, Node):
                        yield item

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(list(node.children())))


_PARTS: dict[type, tuple[str, ...]] = {}


def _names_of_parts(kind: type) -> tuple[str, ...]:
    """Return the fields of a class that can hold nodes, looked up once for each class."""
    names = _PARTS.get(kind)
    if names is None:
        plain = ("Span", "str", "int", "bool")
        names = tuple(each.name for each in fields(kind) if each.type not in plain)
        _PARTS[kind] = names
    return names


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An identifier where it is declared or used."""

    text: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """``int``, ``map<address, intset>``."""

    name: str
    arguments: tuple[TypeName, ...] = ()


# Expressions.


@dataclass(frozen=True, slots=True)
class Number(Node):
    value: int


@dataclass(frozen=True, slots=True)
class Truth(Node):
    value: bool


@dataclass(frozen=True, slots=True)
class Self(Node):
    """The name of the node that evaluates the expression."""


@dataclass(frozen=True, slots=True)
class Reference(Node):
    """A property or another name; ``of`` says whose: ``parent``, ``global`` or a variable."""

    name: Name
    of: Name | None = None


@dataclass(frozen=True, slots=True)
class Half(Node):
    """``Received(y)``: a property of one of the two halves of a scope."""

    name: Name
    half: Name


@dataclass(frozen=True, slots=True)
class Split(Node):
    """``parent(select).P``: the elements of the parent's set that fall to this member."""

    name: Name


@dataclass(frozen=True, slots=True)
class Aggregator(Node):
    """An operator over children: a token's type, ``top``, or a name that means nothing."""

    name: str
    count: Expression | None = None


@dataclass(frozen=True, slots=True)
class Children(Node):
    """``children(∩).Stable``."""

    aggregator: Aggregator
    name: Name


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``operator`` is a token: NOT or MINUS; or MIN, MAX or SIZE of a set."""

    operator: Literal["NOT", "MINUS", "MIN", "MAX", "SIZE"]
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """``operator`` is a token of the table of spellings."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Range(Node):
    """``5..9`` in a set: both ends belong to it."""

    first: Expression
    last: Expression


@dataclass(frozen=True, slots=True)
class SetOf(Node):
    """``{1, 2, 5..9}``; without items the empty set or the empty map."""

    items: tuple[Expression | Range, ...]


@dataclass(frozen=True, slots=True)
class Pair(Node):
    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class Part(Node):
    """``.first`` or ``.second`` of a pair."""

    operand: Expression
    part: Literal["first", "second"]


@dataclass(frozen=True, slots=True)
class LookUp(Node):
    """``M[k]``: absent if the map has no such key."""

    operand: Expression
    key: Expression


Expression = (
    Number
    | Truth
    | Self
    | Reference
    | Half
    | Split
    | Children
    | Unary
    | Binary
    | Conditional
    | SetOf
    | Pair
    | Part
    | LookUp
)

# Actions of bindings.


@dataclass(frozen=True, slots=True)
class Change(Node):
    """``P += e``; ``operator`` is a token as in rules, or MINUS_BECOMES."""

    name: Name
    key: Expression | None
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True)
class Request(Node):
    """``DoCleanup(m)``: an event to the application."""

    name: Name
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ForEach(Node):
    variable: Name
    over: Expression
    action: Action


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Expression
    then: Action
    otherwise: Action | None


@dataclass(frozen=True, slots=True)
class Block(Node):
    actions: tuple[Action, ...]


Action = Change | Request | ForEach | If | Block

# Declarations and statements.


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A parameter of the protocol (with a default), or of an event (without)."""

    type: TypeName
    name: Name
    default: Expression | None = None


@dataclass(frozen=True, slots=True)
class Event(Node):
    """An event from the application (``callback``) or to it."""

    is_callback: bool
    name: Name
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Property(Node):
    type: TypeName
    name: Name
    initial: Expression | None


@dataclass(frozen=True, slots=True)
class OnEvent(Node):
    event: Name
    variables: tuple[Name, ...]
    action: Action
    label: Name | None = None


@dataclass(frozen=True, slots=True)
class OnUpdate(Node):
    property: Name
    kind: Literal["added", "removed", "assign"]
    variable: Name
    action: Action
    label: Name | None = None


@dataclass(frozen=True, slots=True)
class Modifier(Node):
    name: Literal["mono", "all", "strict"]


@dataclass(frozen=True, slots=True)
class Rule(Node):
    """``place`` is where the rule is carried out: everywhere if it is None."""

    place: Literal["global", "local"] | None
    name: Name
    half: Name | None
    key: Expression | None
    modifiers: tuple[Modifier, ...]
    operator: str
    value: Expression
    label: Name | None = None


@dataclass(frozen=True, slots=True)
class Condition(Node):
    value: Expression
    label: Name | None = None


@dataclass(frozen=True, slots=True)
class Invariant(Node):
    """Holds always, or (``eventually``) at last; ``is_any`` includes light members."""

    kind: Literal["invariant", "eventually"]
    is_any: bool
    variables: tuple[Name, ...]
    value: Expression
    label: Name | None = None


Statement = Event | Property | OnEvent | OnUpdate | Rule | Condition | Invariant


@dataclass(frozen=True, slots=True)
class Section(Node):
    """A section as it is written; the program's fields hold the same statements."""

    name: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Program(Node):
    """``doc`` is the comment before the protocol."""

    name: Name
    parameters: tuple[Parameter, ...] = ()
    sections: tuple[Section, ...] = ()
    doc: str = field(default="", compare=False)

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(one for one in self._statements("interface") if isinstance(one, Event))

    @property
    def properties(self) -> tuple[Property, ...]:
        return tuple(one for one in self._statements("properties") if isinstance(one, Property))

    @property
    def bindings(self) -> tuple[OnEvent | OnUpdate, ...]:
        return tuple(
            one for one in self._statements("bindings") if isinstance(one, OnEvent | OnUpdate)
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(one for one in self._statements("rules") if isinstance(one, Rule))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(one for one in self._statements("conditions") if isinstance(one, Condition))

    @property
    def invariants(self) -> tuple[Invariant, ...]:
        return tuple(one for one in self._statements("invariants") if isinstance(one, Invariant))

    def _statements(self, section: str) -> Iterator[Statement]:
        for one in self.sections:
            if one.name == section:
                yield from one.statements
