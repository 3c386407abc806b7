"""From a checked program to a plan."""

from __future__ import annotations

from collections.abc import Mapping

from quicksilver.properties import plan
from quicksilver.properties.check.context import Context
from quicksilver.properties.check.program import Checked, check
from quicksilver.properties.check.symbols import kind_of
from quicksilver.properties.check.typing import item_of
from quicksilver.properties.compile.errors import ArgumentError, UnsoundProgramError
from quicksilver.properties.compile.expressions import Expressions
from quicksilver.properties.syntax import tree
from quicksilver.properties.values.kinds import (
    INT,
    Kind,
    MapKind,
    PairKind,
    Value,
    default_of,
    has_kind,
    is_collection,
)

_MERGES = {
    "BECOMES": plan.Merge.ASSIGN,
    "UNION_BECOMES": plan.Merge.UNION,
    "INTERSECTION_BECOMES": plan.Merge.INTERSECTION,
    "MAX_BECOMES": plan.Merge.MAXIMUM,
    "MIN_BECOMES": plan.Merge.MINIMUM,
    "OR_BECOMES": plan.Merge.OR,
    "AND_BECOMES": plan.Merge.AND,
}
_PLACES = {None: plan.Place.EVERYWHERE, "global": plan.Place.GLOBAL, "local": plan.Place.LOCAL}
_ASPECTS = {one.value: one for one in plan.Aspect}


def compile_text(
    text: str, arguments: Mapping[str, Value] | None = None, *, name: str = "<program>"
) -> plan.Plan:
    """Return the plan of a program; raises UnsoundProgramError, ArgumentError."""
    return compile_checked(check(text, name), arguments)


def compile_checked(checked: Checked, arguments: Mapping[str, Value] | None = None) -> plan.Plan:
    """Return the plan of a checked program; ``arguments`` are values of its parameters."""
    if not checked.is_sound or checked.context is None:
        raise UnsoundProgramError(checked.parsed.source, checked.diagnostics)
    return _Compiler(checked.context, arguments or {}).compile()


class _Compiler:
    def __init__(self, context: Context, arguments: Mapping[str, Value]) -> None:
        self._program = context.program
        self._symbols = context.symbols
        self._typing = context.typing
        self._callbacks = {name: at for at, name in enumerate(context.symbols.callbacks)}
        self._requests = {name: at for at, name in enumerate(context.symbols.requests)}
        self._constants = self._choose(context, arguments)
        self._expressions = Expressions(context, self._constants)

    def compile(self) -> plan.Plan:
        program, symbols = self._program, self._symbols
        claims = [
            (one.kind, self._compile_claim(one, at)) for at, one in enumerate(program.invariants, 1)
        ]
        return plan.Plan(
            program.name.text,
            tuple(self._compile_property(one) for one in program.properties),
            tuple(self._compile_rule(one, at) for at, one in enumerate(program.rules, 1)),
            callbacks=tuple(_event(one) for one in symbols.callbacks.values()),
            requests=tuple(_event(one) for one in symbols.requests.values()),
            bindings=tuple(
                self._compile_binding(b, at) for at, b in enumerate(program.bindings, 1)
            ),
            conditions=tuple(
                plan.Condition(
                    _label(one.label, "condition", at), self._expressions.compile(one.value)
                )
                for at, one in enumerate(program.conditions, 1)
            ),
            invariants=tuple(claim for kind, claim in claims if kind == "invariant"),
            eventualities=tuple(claim for kind, claim in claims if kind == "eventually"),
            parameters=tuple(
                plan.Parameter(name, self._kind(name), self._constants[name])
                for name in symbols.parameters
            ),
        )

    def _choose(self, context: Context, arguments: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values of parameters: what is given, else their defaults."""
        program = self._program.name.text
        for name in sorted(set(arguments) - set(self._symbols.parameters)):
            known = ", ".join(self._symbols.parameters) or "none"
            raise ArgumentError(program, name, f"is not declared; there are: {known}")
        chosen: dict[str, Value] = {}
        defaults = Expressions(context, {})
        for name, parameter in self._symbols.parameters.items():
            kind = self._kind(name)
            value = arguments.get(name)
            if value is None and parameter.default is not None:
                value = defaults.constant(parameter.default)
            if value is None:
                raise ArgumentError(program, name, f"needs a value of type {kind}")
            if not has_kind(value, kind):
                raise ArgumentError(program, name, f"is of type {kind}, not {value!r}")
            chosen[name] = value
        return chosen

    def _kind(self, name: str) -> Kind:
        kind = self._symbols.kinds[name]
        assert kind is not None
        return kind

    def _compile_property(self, one: tree.Property) -> plan.Property:
        name = one.name.text
        kind = self._kind(name)
        initial = None if one.initial is None else self._expressions.constant(one.initial)
        if initial is None and is_collection(kind):
            initial = default_of(kind)
        return plan.Property(name, kind, initial)

    def _compile_rule(self, one: tree.Rule, at: int) -> plan.Rule:
        merge, value = self._merge(one, ())
        modifiers = {modifier.name for modifier in one.modifiers}
        return plan.Rule(
            _label(one.label, "rule", at),
            _PLACES[one.place],
            self._expressions.position(one.name.text),
            merge,
            value,
            None if one.key is None else self._expressions.compile(one.key),
            is_mono="mono" in modifiers,
            is_all="all" in modifiers,
            is_strict="strict" in modifiers,
        )

    def _merge(
        self, one: tree.Rule | tree.Change, variables: tuple[str, ...]
    ) -> tuple[plan.Merge, plan.Expression]:
        """Return how a value goes into a property, and the value."""
        kind = self._typing.entry_of(one)
        assert kind is not None
        value = self._expressions.compile(one.value, variables)
        found = self._typing.of(one.value)
        if one.operator in {"PLUS_BECOMES", "MINUS_BECOMES"}:
            is_plus = one.operator == "PLUS_BECOMES"
            if kind == INT:
                return (plan.Merge.ADD if is_plus else plan.Merge.SUBTRACT), value
            if found == kind:
                return (plan.Merge.UNION if is_plus else plan.Merge.DIFFERENCE), value
            assert not is_plus or found == item_of(kind)
            return (plan.Merge.INSERT if is_plus else plan.Merge.REMOVE), value
        if isinstance(kind, MapKind) and found == PairKind(kind.key, kind.value):
            value = plan.MakeMap((self._expressions.entry(one.value),))
        return _MERGES[one.operator], value

    def _compile_binding(self, one: tree.OnEvent | tree.OnUpdate, at: int) -> plan.Binding:
        label = _label(one.label, "binding", at)
        if isinstance(one, tree.OnUpdate):
            variable = one.variable.text
            return plan.OnUpdate(
                label,
                self._expressions.position(one.property.text),
                _ASPECTS[one.kind],
                variable,
                self._compile_action(one.action, (variable,)),
            )
        variables = tuple(variable.text for variable in one.variables)
        return plan.OnEvent(
            label,
            self._callbacks[one.event.text],
            variables,
            self._compile_action(one.action, variables),
        )

    def _compile_action(self, one: tree.Action, variables: tuple[str, ...]) -> plan.Action:
        compile_one = self._expressions.compile
        match one:
            case tree.Change():
                merge, value = self._merge(one, variables)
                return plan.Store(
                    self._expressions.position(one.name.text),
                    merge,
                    value,
                    None if one.key is None else compile_one(one.key, variables),
                )
            case tree.Request():
                arguments = tuple(compile_one(argument, variables) for argument in one.arguments)
                return plan.Request(self._requests[one.name.text], arguments)
            case tree.ForEach():
                name = one.variable.text
                over = compile_one(one.over, variables)
                return plan.ForEach(
                    name, over, self._compile_action(one.action, (*variables, name))
                )
            case tree.If():
                otherwise = one.otherwise
                return plan.When(
                    compile_one(one.condition, variables),
                    self._compile_action(one.then, variables),
                    None if otherwise is None else self._compile_action(otherwise, variables),
                )
            case tree.Block():
                actions = tuple(self._compile_action(each, variables) for each in one.actions)
                return plan.Sequence(actions)

    def _compile_claim(self, one: tree.Invariant, at: int) -> plan.Claim:
        names = tuple(variable.text for variable in one.variables)
        return plan.Claim(
            _label(one.label, one.kind, at),
            tuple(plan.Quantified(name, one.is_any) for name in names),
            self._expressions.compile(one.value, names),
        )


def _label(label: tree.Name | None, what: str, at: int) -> str:
    return label.text if label is not None else f"{what} {at}"


def _event(one: tree.Event) -> plan.Event:
    parameters: list[tuple[str, Kind]] = []
    for parameter in one.parameters:
        kind = kind_of(parameter.type)
        assert kind is not None
        parameters.append((parameter.name.text, kind))
    return plan.Event(one.name.text, tuple(parameters))
