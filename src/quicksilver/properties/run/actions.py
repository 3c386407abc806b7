"""What happens at a node: bindings of events and of changes, as Python functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from quicksilver.properties.plan import (
    Action,
    Aspect,
    ForEach,
    OnEvent,
    OnUpdate,
    Plan,
    Request,
    Sequence,
    Store,
    When,
)
from quicksilver.properties.run.expressions import Context, evaluator
from quicksilver.properties.run.state import Asked, Output, Restless
from quicksilver.properties.values.kinds import MapKind, Value, default_of
from quicksilver.properties.values.operators import difference, items_of, merged, merged_at

PASSES_MAX = 16
"""How often changes that bindings make set off bindings again, before they are stopped."""


@dataclass(slots=True)
class Node:
    """A node while its bindings run."""

    context: Context
    values: list[Value | None]
    """Its properties, by position; what the context reads."""
    outputs: list[Output]


Function = Callable[[Node], None]


def performer(action: Action, plan: Plan) -> Function:
    """Return a function that does what an action says."""
    match action:
        case Store():
            return _store(action, plan)
        case Request(event, arguments):
            parts = [evaluator(argument) for argument in arguments]

            def ask(node: Node) -> None:
                values = tuple(part(node.context) for part in parts)
                if not any(value is None for value in values):
                    node.outputs.append(Asked(event, values))

            return ask
        case ForEach(variable, over, body):
            return _for_each(variable, over, body, plan)
        case When(condition, then, otherwise):
            test = evaluator(condition)
            do_then = performer(then, plan)
            do_else = None if otherwise is None else performer(otherwise, plan)

            def choose(node: Node) -> None:
                chosen = test(node.context)
                if chosen:
                    do_then(node)
                elif chosen is not None and do_else is not None:
                    do_else(node)

            return choose
        case Sequence(actions):
            steps = [performer(each, plan) for each in actions]

            def run_all(node: Node) -> None:
                for step in steps:
                    step(node)

            return run_all
        case _:
            assert_never(action)


def _store(action: Store, plan: Plan) -> Function:
    at, merge = action.property, action.merge
    value = evaluator(action.value)
    key = None if action.key is None else evaluator(action.key)
    kind = plan.properties[at].kind
    empty = default_of(kind.value if key is not None and isinstance(kind, MapKind) else kind)

    def store(node: Node) -> None:
        new = value(node.context)
        if new is None:
            return
        old = node.values[at]
        if key is None:
            result = merged(merge, old, new, empty)
        else:
            entry = key(node.context)
            result = None if entry is None else merged_at(merge, old, entry, new, empty)
        if result is not None:
            node.values[at] = result

    return store


def _for_each(variable: str, over: object, body: Action, plan: Plan) -> Function:
    items = evaluator(over)  # type: ignore[arg-type]
    do = performer(body, plan)

    def each(node: Node) -> None:
        values = items(node.context)
        if values is None:
            return
        variables = node.context.variables
        for item in list(items_of(values)):
            node.context.variables = {**variables, variable: item}
            do(node)
        node.context.variables = variables

    return each


class Bindings:
    """The bindings of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._events: list[tuple[OnEvent, Function]] = []
        self._updates: list[tuple[OnUpdate, Function]] = []
        for binding in plan.bindings:
            do = performer(binding.body, plan)
            if isinstance(binding, OnEvent):
                self._events.append((binding, do))
            else:
                self._updates.append((binding, do))

    def handle_event(self, node: Node, event: int, arguments: tuple[Value, ...]) -> None:
        """The application says something."""
        before = list(node.values)
        for binding, do in self._events:
            if binding.event == event:
                node.context.variables = dict(zip(binding.parameters, arguments, strict=True))
                do(node)
        self.handle_changes(node, before)

    def handle_changes(self, node: Node, before: list[Value | None]) -> None:
        """Properties are not what they were: run what waits for that, until nothing changes."""
        for _ in range(PASSES_MAX if self._updates else 0):
            now = list(node.values)
            if now == before:
                return
            for binding, do in self._updates:
                old, new = before[binding.property], now[binding.property]
                if new is not None and old != new:
                    seen = _aspect(binding.aspect, old, new)
                    if seen is not None:
                        node.context.variables = {binding.variable: seen}
                        do(node)
            before = now
        changing = tuple(at for at, value in enumerate(node.values) if value != before[at])
        if changing and self._updates:
            node.outputs.append(Restless(changing))


def _aspect(aspect: Aspect, old: Value | None, new: Value) -> Value | None:
    match aspect:
        case Aspect.ASSIGNED:
            return new
        case Aspect.ADDED:
            return new if old is None else difference(new, old) or None
        case Aspect.REMOVED:
            return None if old is None else difference(old, new) or None
        case _:
            assert_never(aspect)
