"""A plan: what a checked program is compiled to.

Immutable values from top to bottom, without source text. The compiler writes plans, ``run``
carries them out, ``verify`` explores them, ``tla`` prints them. A plan takes for granted what
the checker has seen to: all positions exist, kinds fit, operators are associative and
commutative, variables are bound, and ``parent.`` is read at no ``global`` rule.

Properties and events are named by their *position* in the plan's tuples. Constants and
parameters of the protocol are literals by now.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property

from quicksilver.properties.values.kinds import Kind, Value

# Expressions


class Where(enum.Enum):
    """Whose instance of a property an expression reads."""

    HERE = "here"
    """That of the domain at which it is evaluated; a node is one, too."""
    PARENT = "parent"
    """That of the domain around it, as its leader last said it."""
    GLOBAL = "global"
    """That of the whole system; in invariants only."""
    OTHER = "y"
    """That of the neighbour with which it is compared: ``P(y)`` where ``P(x)`` is HERE."""


class Unary(enum.Enum):
    NOT = "!"
    NEGATE = "-"
    SIZE = "size"
    """How many items a set or a map has."""
    LEAST = "least"
    """The smallest item of a set; absent if it is empty."""
    GREATEST = "greatest"
    """The greatest item of a set; absent if it is empty."""
    FIRST = "first"
    SECOND = "second"
    KEYS = "keys"
    """The keys of a map: an intset, or a set of addresses."""


class Binary(enum.Enum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    """Rounded down; absent if the divisor is 0. Sums of numbers that leave 64 bits are absent."""
    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    AND = "&&"
    """Absent if the left is; the right one is not looked at if the left is false."""
    OR = "||"
    """Absent if the left is; the right one is not looked at if the left is true."""
    UNION = "union"
    """Of two sets of a kind; of two maps: the values of a key in both are united if they are
    sets or maps, else the right one's stands."""
    INTERSECTION = "intersection"
    """Of two sets of a kind; of two maps: keys in both, with the values intersected if they are
    sets or maps, else the left one's."""
    DIFFERENCE = "difference"
    """Of two sets of a kind; of a map and a map: what the left one has beyond the right."""
    IN = "in"
    """Item in a set, or key in a map."""
    SUBSET = "subset"
    """Of two sets of a kind; of two maps: the right one has every key of the left, with a value
    that is a superset (of sets and maps), or the same."""


class Aggregate(enum.Enum):
    """Operators that put the values of members together; associative and commutative.

    Pairs and maps are put together item by item (``values.operators``).
    """

    UNION = "union"
    INTERSECTION = "intersection"
    MINIMUM = "min"
    MAXIMUM = "max"
    SUM = "+"
    AND = "and"
    OR = "or"
    TOP = "top"
    """Of sets: the greatest ``count`` items of all."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value


@dataclass(frozen=True, slots=True)
class Read:
    """The value of a property; absent if it is."""

    property: int
    where: Where = Where.HERE
    is_share: bool = False
    """``parent(select).P``: only those items of the parent's set that fall to this member. Only
    with ``Where.PARENT``, and only of sets and maps."""


@dataclass(frozen=True, slots=True)
class ReadAt:
    """A property of the node that a quantifier's variable stands for; in invariants only."""

    variable: str
    property: int


@dataclass(frozen=True, slots=True)
class Children:
    """``children(op).P``: what the regular members say of P, put together."""

    operator: Aggregate
    property: int
    count: int = 0
    """How many items ``TOP`` keeps; 0 with the others."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter of an event, or the variable of a ``foreach`` or of a quantifier (there the
    node's address)."""

    name: str


@dataclass(frozen=True, slots=True)
class Self:
    """The address of the node; of a domain: that of the node which speaks for it."""


@dataclass(frozen=True, slots=True)
class Other:
    """``y`` as a value: the address of the neighbour that ``Where.OTHER`` reads."""


@dataclass(frozen=True, slots=True)
class UnaryOperation:
    operator: Unary
    operand: Expression


@dataclass(frozen=True, slots=True)
class BinaryOperation:
    operator: Binary
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class NumberSet:
    """``{1, 2, 5..9}``: an intset; each part is a first and a last number."""

    parts: tuple[tuple[Expression, Expression], ...]
    """A single number stands twice. Nothing is in a part whose last is below its first."""


@dataclass(frozen=True, slots=True)
class ItemSet:
    """``{a, b}``: a set of addresses or pairs."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class MakePair:
    first: Expression
    second: Expression


@dataclass(frozen=True, slots=True)
class MakeMap:
    """A map of these keys and values; of two with one key the later stands."""

    items: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """``M[k]``: absent if the map has no such key, but empty if its values are sets or maps."""

    map: Expression
    key: Expression
    missing: Value | None
    """What stands for a key that is not there."""


@dataclass(frozen=True, slots=True)
class Choice:
    """``if c then a else b``: only what is chosen is evaluated."""

    condition: Expression
    then: Expression
    otherwise: Expression


Expression = (
    Literal
    | Read
    | ReadAt
    | Children
    | Variable
    | Self
    | Other
    | UnaryOperation
    | BinaryOperation
    | NumberSet
    | ItemSet
    | MakePair
    | MakeMap
    | Lookup
    | Choice
)


# What becomes of a value


class Merge(enum.Enum):
    """How a new value goes into a property.

    All but ``ASSIGN`` read what is there; if that is absent they assign, except for
    ``SUBTRACT``, ``REMOVE`` and ``DIFFERENCE``, which then do nothing.
    """

    ASSIGN = ":="
    UNION = "union="
    INTERSECTION = "intersection="
    DIFFERENCE = "difference="
    INSERT = "insert"
    """An item into a set. Into a map: a pair of key and value, as a union with that map."""
    REMOVE = "remove"
    """An item out of a set, or a key out of a map."""
    ADD = "+="
    """Numbers."""
    SUBTRACT = "-="
    MAXIMUM = "max="
    MINIMUM = "min="
    OR = "|="
    AND = "&="


class Place(enum.Enum):
    """Where a rule is carried out."""

    EVERYWHERE = "everywhere"
    """In every domain, nodes included. One that reads ``parent.`` is not carried out in the
    domain at the top, which has none; one with ``children`` not in nodes."""
    GLOBAL = "global"
    """In the domain at the top."""
    LOCAL = "local"
    """In nodes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``place.P[key] modifiers op value``. It is not carried out while anything is absent that
    the value or the key needs."""

    label: str
    """As the program names it (``R1``), or ``rule 3``."""
    place: Place
    target: int
    """Position of the property that gets the value."""
    merge: Merge
    value: Expression
    key: Expression | None = None
    """``P[key]``: only this entry of a map; None: the property as a whole."""
    is_mono: bool = False
    """Never replaces a value by one that is not as fresh."""
    is_all: bool = False
    """What members say counts only if all regular ones have said something in the same round."""
    is_strict: bool = False
    """Members say only what they have computed in their present view."""

    @property
    def aggregation(self) -> Children | None:
        """What the rule gathers from members; a rule has one aggregation at most."""
        return next((e for e in walk(self.value) if isinstance(e, Children)), None)

    @property
    def reads_parent(self) -> bool:
        return any(isinstance(e, Read) and e.where is Where.PARENT for e in self._expressions())

    @property
    def is_between_halves(self) -> bool:
        """``P(x) op ... P(y) ...``: for each two neighbours of a domain, both ways (Table 2)."""
        return any(
            isinstance(e, Other) or (isinstance(e, Read) and e.where is Where.OTHER)
            for e in self._expressions()
        )

    def _expressions(self) -> Iterator[Expression]:
        yield from walk(self.value)
        if self.key is not None:
            yield from walk(self.key)


@dataclass(frozen=True, slots=True)
class Condition:
    """A member that does not fulfil all conditions is light: it is told everything, but does
    not count in what is gathered. It does not fulfil one that needs something absent."""

    label: str
    value: Expression
    """A bool, over its own properties and its parent's."""


# What happens at nodes


@dataclass(frozen=True, slots=True)
class Store:
    """``P op value`` or ``P[key] op value`` in the node's own instance."""

    property: int
    merge: Merge
    value: Expression
    key: Expression | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """``Name(arguments)``: an event to the application; none if an argument is absent."""

    event: int
    """Position among the plan's requests."""
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ForEach:
    """Once for each item of a set, ascending; of a map: for each pair of key and value."""

    variable: str
    over: Expression
    body: Action


@dataclass(frozen=True, slots=True)
class When:
    """``if``: nothing is done if the condition is absent."""

    condition: Expression
    then: Action
    otherwise: Action | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    actions: tuple[Action, ...]


Action = Store | Request | ForEach | When | Sequence


class Aspect(enum.Enum):
    """What ``on update P(...)`` asks of a change."""

    ADDED = "added"
    """Items that are new; of a map: keys and values beyond what was there. Not if empty."""
    REMOVED = "removed"
    """Items that are gone, in the same way. Not if empty."""
    ASSIGNED = "assign"
    """The new value, whenever it differs from the old one."""


@dataclass(frozen=True, slots=True)
class OnEvent:
    """``on Receive(m)``: an event of the application."""

    label: str
    event: int
    """Position among the plan's callbacks."""
    parameters: tuple[str, ...]
    """Variables that stand for the event's arguments, by position."""
    body: Action


@dataclass(frozen=True, slots=True)
class OnUpdate:
    """``on update P(added A)``: a property of the node has changed."""

    label: str
    property: int
    aspect: Aspect
    variable: str
    body: Action


Binding = OnEvent | OnUpdate


# The whole


@dataclass(frozen=True, slots=True)
class Event:
    """An event between the protocol and its application."""

    name: str
    parameters: tuple[tuple[str, Kind], ...]


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    kind: Kind
    initial: Value | None
    """What nodes begin with; None: absent until assigned. Sets and maps are never None. Domains
    above nodes always begin absent, and ``initial`` stands for their values only in conditions
    of a system that begins."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constant that was chosen when the program was compiled."""

    name: str
    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True)
class Quantified:
    """``forall a``: stands for every living node."""

    variable: str
    is_any: bool = False
    """True: for light nodes as well, not only for regular ones."""


@dataclass(frozen=True, slots=True)
class Claim:
    """``invariant`` or ``eventually``: holds for every choice of the quantified nodes (two
    variables may stand for one node). One that needs something absent is not broken."""

    label: str
    quantified: tuple[Quantified, ...]
    body: Expression
    """A bool, over ``ReadAt``, and over ``Read`` with ``Where.GLOBAL``."""


@dataclass(frozen=True)
class Plan:
    """A program that can be carried out."""

    name: str
    properties: tuple[Property, ...]
    rules: tuple[Rule, ...]
    """In the order of the program, in which they are carried out."""
    callbacks: tuple[Event, ...] = ()
    """Events from the application."""
    requests: tuple[Event, ...] = ()
    """Events to the application."""
    bindings: tuple[Binding, ...] = ()
    """In the order of the program."""
    conditions: tuple[Condition, ...] = ()
    invariants: tuple[Claim, ...] = ()
    """Hold at any time."""
    eventualities: tuple[Claim, ...] = ()
    """Hold at last, once faults have stopped and events are over."""
    parameters: tuple[Parameter, ...] = ()

    @cached_property
    def gathered(self) -> tuple[int, ...]:
        """Properties that members report, ascending."""
        found = {rule.aggregation.property for rule in self.rules if rule.aggregation is not None}
        return tuple(sorted(found))

    @cached_property
    def announced(self) -> tuple[int, ...]:
        """Properties that the leader of a domain says to its members, ascending."""
        read = [e for rule in self.rules for e in walk(rule.value)]
        read += [e for rule in self.rules if rule.key is not None for e in walk(rule.key)]
        read += [e for condition in self.conditions for e in walk(condition.value)]
        found = {e.property for e in read if isinstance(e, Read) and e.where is Where.PARENT}
        return tuple(sorted(found))

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """Properties that neighbours compare, ascending."""
        read = [e for rule in self.rules for e in walk(rule.value)]
        found = {e.property for e in read if isinstance(e, Read) and e.where is Where.OTHER}
        return tuple(sorted(found))


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it consists of, from the outside in."""
    yield expression
    for field in fields(expression):
        yield from _parts(getattr(expression, field.name))


def _parts(part: object) -> Iterator[Expression]:
    if isinstance(part, tuple):
        for each in part:
            yield from _parts(each)
    elif isinstance(part, Expression):
        yield from walk(part)
