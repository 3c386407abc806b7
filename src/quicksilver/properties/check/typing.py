"""The kind of every expression of a program, and what does not fit.

Kinds are inferred from below; what ``{}`` is comes from where it stands. Every expression that
could be given a kind has an entry in ``Typing.kinds``; the compiler reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quicksilver.properties.check.symbols import Symbols, is_ordered, kind_of, suggest
from quicksilver.properties.diagnostics import Diagnostic
from quicksilver.properties.syntax import tree
from quicksilver.properties.syntax.spellings import BY_TOKEN
from quicksilver.properties.values.kinds import (
    ADDRESS,
    BOOL,
    INT,
    INT_MAX,
    INTSET,
    BoolKind,
    IntKind,
    IntSetKind,
    Kind,
    MapKind,
    PairKind,
    SetKind,
    is_collection,
)

_ARITHMETIC = frozenset(("PLUS", "MINUS", "TIMES", "DIVIDE"))
_LOGICAL = frozenset(("AND", "OR", "IMPLIES"))
_ALGEBRA = frozenset(("UNION", "INTERSECTION", "DIFFERENCE"))
_ORDERS = frozenset(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"))
_EQUALITIES = frozenset(("EQUAL", "UNEQUAL"))
HALVES = ("x", "y")


def sign(token: str) -> str:
    """Return how an operator is written."""
    return BY_TOKEN[token].unicode


class Typing:
    """Kinds of the expressions of one program."""

    def __init__(self, program: tree.Program, symbols: Symbols) -> None:
        self._program = program
        self._symbols = symbols
        self._scope: dict[str, Kind | None] = {}
        self._members: frozenset[str] = frozenset()
        """Variables that stand for nodes: ``a.P`` reads a property of one."""
        self._has_halves = False
        self.kinds: dict[int, Kind] = {}
        """By the identity of the node, as equal expressions may be of different kinds."""
        self.diagnostics: list[Diagnostic] = []
        self.used: set[str] = set()
        """Parameters, properties and variables that something reads."""
        self._check_program()

    def of(self, node: tree.Node) -> Kind:
        """Return the kind of an expression of a program without errors."""
        return self.kinds[id(node)]

    def entry_of(self, rule: tree.Rule | tree.Change) -> Kind | None:
        """Return the kind of what a rule or an action assigns to: a property, or an entry of it."""
        kind = self._symbols.kinds.get(rule.name.text)
        if rule.key is None or kind is None:
            return kind
        return kind.value if isinstance(kind, MapKind) else None

    # Statements.

    def _check_program(self) -> None:
        for parameter in self._program.parameters:
            if parameter.default is not None:
                self.infer(parameter.default, self._symbols.kinds.get(parameter.name.text))
        for one in self._program.properties:
            if one.initial is not None:
                self.infer(one.initial, self._symbols.kinds.get(one.name.text))
        for event in self._program.events:
            for parameter in event.parameters:
                if parameter.default is not None:
                    self._say(parameter.default, "parameters of events have no default")
        for binding in self._program.bindings:
            self._check_binding(binding)
        for rule in self._program.rules:
            self._check_rule(rule)
        for condition in self._program.conditions:
            self.infer(condition.value, BOOL)
        for invariant in self._program.invariants:
            names = [one.text for one in invariant.variables]
            with self._within(dict.fromkeys(names, ADDRESS)):
                self._members = frozenset(names)
                self.infer(invariant.value, BOOL)
                self._members = frozenset()

    def _check_rule(self, rule: tree.Rule) -> None:
        self._has_halves = rule.half is not None
        kind = self._target(rule.name)
        if rule.half is not None and rule.half.text != "x":
            self._say(
                rule.half, f"there is no half {rule.half.text}", "a rule assigns to x, and reads y"
            )
        self._check_key(rule, kind)
        entry = self.entry_of(rule)
        self._check_merge(rule.operator, entry, rule.value, rule.name)
        self._has_halves = False

    def _check_key(self, rule: tree.Rule | tree.Change, kind: Kind | None) -> None:
        if rule.key is None:
            return
        if kind is not None and not isinstance(kind, MapKind):
            self._say(rule.key, f"{rule.name.text} is no map but {_a(kind)}")
        self.infer(rule.key, kind.key if isinstance(kind, MapKind) else None)

    def _check_merge(
        self, operator: str, kind: Kind | None, value: tree.Expression, name: tree.Name
    ) -> None:
        """See that a value can go into a property (or an entry) of a kind by an operator."""
        if kind is None:
            self.infer(value, None)
            return
        wants: tuple[type, ...] | None
        match operator:
            case "BECOMES":
                wants = None
            case "UNION_BECOMES" | "INTERSECTION_BECOMES":
                wants = (IntSetKind, SetKind, MapKind)
            case "PLUS_BECOMES" | "MINUS_BECOMES":
                wants = (IntKind, IntSetKind, SetKind, MapKind)
            case "MAX_BECOMES" | "MIN_BECOMES":
                wants = (IntKind,)
            case _:
                wants = (BoolKind,)
        if wants is not None and not isinstance(kind, wants):
            self._say(name, f"{sign(operator)} does not fit {name.text}, {_a(kind)}", "use :=")
            self.infer(value, None)
            return
        if operator in {"PLUS_BECOMES", "MINUS_BECOMES"} and is_collection(kind):
            self._check_item(operator, kind, value)
        elif isinstance(kind, MapKind) and operator.startswith("UNION"):
            pair = PairKind(kind.key, kind.value)
            self.infer(value, pair if isinstance(value, tree.Pair) else kind)
        else:
            self.infer(value, kind)

    def _check_item(self, operator: str, kind: Kind, value: tree.Expression) -> None:
        """``P += e``: e is an item, or a set of items."""
        item = item_of(kind)
        if isinstance(kind, MapKind) and operator == "MINUS_BECOMES":
            item = kind.key
        before = len(self.diagnostics)
        hint = kind if isinstance(value, tree.SetOf) else item
        found = self.infer(value, hint if isinstance(value, tree.SetOf | tree.Pair) else None)
        if found is None and len(self.diagnostics) == before:
            found = self.infer(value, kind)
        if found is not None and found not in {item, kind}:
            self._say(value, f"{_a(found)} cannot go into {_a(kind)}")

    def _check_binding(self, binding: tree.OnEvent | tree.OnUpdate) -> None:
        if isinstance(binding, tree.OnUpdate):
            kind = self._target(binding.property)
            self.used.add(binding.property.text)
            if kind is not None and binding.kind != "assign" and not is_collection(kind):
                self._say(
                    binding.property,
                    f"{binding.kind} is for sets and maps; {binding.property.text} is {_a(kind)}",
                    "write assign",
                )
            with self._within({binding.variable.text: kind}):
                self._check_action(binding.action)
            return
        event = self._symbols.callbacks.get(binding.event.text)
        variables: dict[str, Kind | None] = {one.text: None for one in binding.variables}
        if event is None:
            is_request = binding.event.text in self._symbols.requests
            self._say(
                binding.event,
                f"no event {binding.event.text} comes from the application",
                "write callback before it in the interface"
                if is_request
                else suggest(binding.event.text, self._symbols.callbacks),
                code="undefined",
            )
        elif len(event.parameters) != len(binding.variables):
            self._say(binding.event, f"{_event(event)} has {_count(len(event.parameters))}")
        else:
            for name, parameter in zip(binding.variables, event.parameters, strict=True):
                variables[name.text] = kind_of(parameter.type)
        with self._within(variables):
            self._check_action(binding.action)

    def _check_action(self, action: tree.Action) -> None:
        match action:
            case tree.Change():
                self._check_key(action, self._target(action.name))
                kind = self.entry_of(action)
                self._check_merge(action.operator, kind, action.value, action.name)
            case tree.Request():
                self._check_request(action)
            case tree.ForEach():
                kind = self.infer(action.over, None)
                if kind is not None and not is_collection(kind):
                    self._say(action.over, f"foreach goes over a set or a map, not {_a(kind)}")
                item = item_of(kind) if kind is not None and is_collection(kind) else None
                with self._within({action.variable.text: item}):
                    self._check_action(action.action)
            case tree.If():
                self.infer(action.condition, BOOL)
                self._check_action(action.then)
                if action.otherwise is not None:
                    self._check_action(action.otherwise)
            case tree.Block():
                for each in action.actions:
                    self._check_action(each)

    def _check_request(self, request: tree.Request) -> None:
        event = self._symbols.requests.get(request.name.text)
        if event is None:
            self._say(
                request.name,
                f"no event {request.name.text} goes to the application",
                suggest(request.name.text, self._symbols.requests),
                code="undefined",
            )
        elif len(event.parameters) != len(request.arguments):
            self._say(request.name, f"{_event(event)} takes {_count(len(event.parameters))}")
        else:
            for argument, parameter in zip(request.arguments, event.parameters, strict=True):
                self.infer(argument, kind_of(parameter.type))
            return
        for argument in request.arguments:
            self.infer(argument, None)

    def _target(self, name: tree.Name) -> Kind | None:
        if name.text not in self._symbols.properties:
            self._say(
                name,
                f"there is no property {name.text}",
                suggest(name.text, self._symbols.properties),
                code="undefined",
            )
        return self._symbols.kinds.get(name.text)

    @contextmanager
    def _within(self, variables: dict[str, Kind | None]) -> Iterator[None]:
        before = self._scope
        self._scope = {**before, **variables}
        yield
        self._scope = before

    # Expressions.

    def infer(self, node: tree.Expression, wanted: Kind | None) -> Kind | None:
        """Return the kind of an expression; None, with a finding, if it has none.

        ``wanted``: what it has to be where it stands; None if that is open.
        """
        kind = self._infer(node, wanted)
        if kind is None:
            return None
        self.kinds[id(node)] = kind
        if wanted is not None and kind != wanted:
            self._say(node, f"this is {_a(kind)}, but {_a(wanted)} is needed")
            return None
        return kind

    def _infer(self, node: tree.Expression, wanted: Kind | None) -> Kind | None:
        match node:
            case tree.Number(value):
                if value > INT_MAX:
                    self._say(node, "numbers have 64 bits", f"the greatest is {INT_MAX}")
                return INT
            case tree.Truth():
                return BOOL
            case tree.Self():
                return ADDRESS
            case tree.Reference():
                return self._infer_reference(node)
            case tree.Half(name, half):
                if not self._has_halves or half.text not in HALVES:
                    self._say(
                        half,
                        f"{name.text}({half.text}) means nothing here",
                        "P(x) and P(y) stand in rules of the form Q(x) ∪= ...",
                    )
                return self._read(name)
            case tree.Split() | tree.Children():
                return self._infer_far(node)
            case tree.Unary():
                return self._infer_unary(node)
            case tree.Binary():
                return self._infer_binary(node, wanted)
            case tree.Conditional(test, then, otherwise):
                self.infer(test, BOOL)
                return self._infer_alike(then, otherwise, wanted)
            case tree.SetOf():
                return self._infer_set(node, wanted)
            case tree.Pair(first, second):
                hint = wanted if isinstance(wanted, PairKind) else None
                one = self.infer(first, hint.first if hint else None)
                other = self.infer(second, hint.second if hint else None)
                return PairKind(one, other) if one is not None and other is not None else None
            case tree.Part() | tree.LookUp():
                return self._infer_part(node)

    def _infer_far(self, node: tree.Split | tree.Children) -> Kind | None:
        if isinstance(node, tree.Children) and node.aggregator.count is not None:
            self.infer(node.aggregator.count, INT)
        kind = self._read(node.name)
        if isinstance(node, tree.Split) and kind is not None and not is_collection(kind):
            self._say(node.name, f"only sets and maps can be split; this is {_a(kind)}")
        return kind

    def _infer_part(self, node: tree.Part | tree.LookUp) -> Kind | None:
        kind = self.infer(node.operand, None)
        if isinstance(node, tree.LookUp):
            if kind is not None and not isinstance(kind, MapKind):
                self._say(node.operand, f"[...] looks up in a map; this is {_a(kind)}")
            self.infer(node.key, kind.key if isinstance(kind, MapKind) else None)
            return kind.value if isinstance(kind, MapKind) else None
        if isinstance(kind, PairKind):
            return kind.first if node.part == "first" else kind.second
        if kind is not None:
            self._say(node.operand, f".{node.part} is for pairs; this is {_a(kind)}")
        return None

    def _infer_reference(self, node: tree.Reference) -> Kind | None:
        name = node.name.text
        if node.of is None:
            if name in self._scope:
                self.used.add(name)
                return self._scope[name]
            if name in self._symbols.parameters:
                self.used.add(name)
                return self._symbols.kinds.get(name)
            if self._has_halves and name in HALVES and name not in self._symbols.properties:
                return ADDRESS
            return self._read(node.name)
        owner = node.of.text
        if owner not in {"parent", "global"} and owner not in self._members:
            self._say(
                node.of,
                f"{owner} is not the name of a node",
                "before a dot stand parent, global, children(...) "
                "or a variable of forall; .first and .second follow a pair",
                code="undefined",
            )
        return self._read(node.name)

    def _read(self, name: tree.Name) -> Kind | None:
        self.used.add(name.text)
        if name.text not in self._symbols.properties:
            known = {*self._symbols.properties, *self._symbols.parameters, *self._scope}
            self._say(
                name, f"{name.text} is not declared", suggest(name.text, known), code="undefined"
            )
            return None
        return self._symbols.kinds.get(name.text)

    def _infer_unary(self, node: tree.Unary) -> Kind | None:
        if node.operator == "NOT":
            self.infer(node.operand, BOOL)
            return BOOL
        if node.operator == "MINUS":
            self.infer(node.operand, INT)
            return INT
        kind = self.infer(node.operand, None)
        if node.operator == "SIZE":
            if kind is not None and not is_collection(kind):
                self._say(node, f"only sets and maps have a size; this is {_a(kind)}")
            return INT
        if isinstance(kind, IntSetKind):
            return INT
        if isinstance(kind, SetKind):
            return kind.item
        if kind is not None:
            self._say(node, f"{node.operator.lower()}(...) is for sets; this is {_a(kind)}")
        return None

    def _infer_binary(self, node: tree.Binary, wanted: Kind | None) -> Kind | None:
        operator, left, right = node.operator, node.left, node.right
        if operator in _ARITHMETIC:
            kind = self._infer_alike(left, right, None)
            if kind is not None and kind != INT:
                hints = {"PLUS": "union is ∪", "MINUS": "difference is \\", "TIMES": ""}
                hint = hints.get(operator, "") if is_collection(kind) else ""
                self._say(node, f"{sign(operator)} is for numbers; this is {_a(kind)}", hint)
                return None
            return INT
        if operator in _LOGICAL:
            self.infer(left, BOOL)
            self.infer(right, BOOL)
            return BOOL
        if operator in _ALGEBRA or operator == "SUBSET":
            hint_kind = wanted if operator in _ALGEBRA else None
            kind = self._infer_alike(left, right, hint_kind)
            if kind is not None and not is_collection(kind):
                self._say(node, f"{sign(operator)} is for sets and maps; this is {_a(kind)}")
                return None
            return BOOL if operator == "SUBSET" else kind
        if operator == "IN":
            return self._infer_in(node)
        kind = self._infer_alike(left, right, None)
        if operator in _ORDERS and kind is not None and not is_ordered(kind):
            self._say(node, f"{sign(operator)} is not for sets", "use ⊆, or compare sizes |S|")
        assert operator in _ORDERS | _EQUALITIES
        return BOOL

    def _infer_in(self, node: tree.Binary) -> Kind | None:
        kind = self.infer(node.right, None)
        if kind is None:
            self.infer(node.left, None)
            return BOOL
        if not is_collection(kind):
            self._say(node.right, f"{sign('IN')} looks into a set or a map; this is {_a(kind)}")
            self.infer(node.left, None)
        else:
            self.infer(node.left, kind.key if isinstance(kind, MapKind) else item_of(kind))
        return BOOL

    def _infer_alike(
        self, one: tree.Expression, other: tree.Expression, wanted: Kind | None
    ) -> Kind | None:
        """Return the kind that two expressions share; ``{}`` takes that of the other one."""
        if wanted is None and _is_empty(one):
            kind = self.infer(other, None)
            self.infer(one, kind)
            return kind
        kind = self.infer(one, wanted)
        found = self.infer(other, kind if kind is not None else wanted)
        return kind if kind is not None else found

    def _infer_set(self, node: tree.SetOf, wanted: Kind | None) -> Kind | None:
        if not node.items:
            if wanted is None:
                self._say(node, "it cannot be told what {} is empty of")
                return None
            if not is_collection(wanted):
                self._say(node, f"this is a set, but {_a(wanted)} is needed")
                return None
            return wanted
        hint = item_of(wanted) if wanted is not None and is_collection(wanted) else None
        found: Kind | None = hint
        for item in node.items:
            if isinstance(item, tree.Range):
                self.infer(item.first, INT)
                self.infer(item.last, INT)
                kind: Kind | None = INT
            else:
                kind = self.infer(item, found)
            if found is not None and kind is not None and kind != found:
                self._say(item, f"this is {_a(kind)}, but {_a(found)} is needed")
            found = found if found is not None else kind
        if found is None:
            return None
        if isinstance(wanted, MapKind) and hint == found:
            return wanted
        if found == INT:
            return INTSET
        if found != ADDRESS and not (isinstance(found, PairKind) and is_ordered(found)):
            self._say(node, f"there are no sets of {found}")
            return None
        return SetKind(found)

    def _say(
        self, node: tree.Node, text: str, suggestion: str = "", *, code: str = "types"
    ) -> None:
        self.diagnostics.append(
            Diagnostic(code=code, span=node.span, text=text, suggestion=suggestion)
        )


def item_of(kind: Kind) -> Kind:
    """Return what a set or a map consists of: of a map, pairs of key and value."""
    match kind:
        case IntSetKind():
            return INT
        case SetKind(item):
            return item
        case MapKind(key, value):
            return PairKind(key, value)
        case _:
            raise AssertionError(kind)


def _is_empty(node: tree.Expression) -> bool:
    return isinstance(node, tree.SetOf) and not node.items


def _a(kind: Kind) -> str:
    text = str(kind)
    return f"an {text}" if text[0] in "aei" else f"a {text}"


def _event(event: tree.Event) -> str:
    return f"{event.name.text}({', '.join(one.name.text for one in event.parameters)})"


def _count(number: int) -> str:
    return f"{number or 'no'} argument{'s' * (number != 1)}"
