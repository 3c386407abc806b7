"""Types as people write them, on one line and no longer than asked for."""

from __future__ import annotations

from typing import assert_never

from quicksilver.live.types.model import (
    AnyType,
    DictOf,
    EndpointType,
    EventType,
    ListOf,
    LiteralOf,
    ObjectType,
    Parameter,
    Recur,
    Recursive,
    ReferenceOf,
    Scalar,
    SetOf,
    StructOf,
    TupleOf,
    UnionOf,
)


def render_type(type_: AnyType, *, chars_max: int = 80) -> str:
    """Write a type in short notation, cut off after ``chars_max`` characters."""
    text = _render(type_, 0)
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def _render(type_: AnyType, binders: int) -> str:  # a table
    def inner(one: AnyType) -> str:
        return _render(one, binders)

    match type_:
        case Scalar():
            return type_.name
        case LiteralOf():
            return "|".join(map(repr, type_.values)) or "never"
        case ListOf():
            return f"list[{inner(type_.item)}]"
        case SetOf():
            return f"set[{inner(type_.item)}]"
        case DictOf():
            return f"dict[{inner(type_.key)}, {inner(type_.value)}]"
        case TupleOf():
            return f"({', '.join(map(inner, type_.items))})"
        case UnionOf():
            return " | ".join(map(inner, type_.members)) or "never"
        case StructOf():
            fields = ", ".join(
                f"{one.name}{'' if one.required else '?'}: {inner(one.type)}"
                for one in type_.fields
            )
            return f"{type_.title}{{{fields}{'!' if type_.closed else ''}}}"
        case Recur():
            return f"X{binders - 1 - type_.index}"
        case Recursive():
            return f"X{binders} = {_render(type_.body, binders + 1)}"
        case Parameter():
            return f"'{type_.name}"
        case ReferenceOf():
            return f"ref<{inner(type_.target)}>"
        case EndpointType():
            events = [f"in {_event(one, binders)}" for one in type_.inputs]
            events += [f"out {_event(one, binders)}" for one in type_.outputs]
            return f"{type_.title}({'; '.join(events)})"
        case ObjectType():
            parameters = ", ".join(one.name for one in type_.parameters)
            head = f"{type_.title}<{parameters}>" if parameters else type_.title
            endpoints = "; ".join(f"{one.name}: {inner(one.type)}" for one in type_.endpoints)
            return f"{head}[{endpoints}]"
    assert_never(type_)


def _event(event: EventType, binders: int) -> str:
    return f"{event.name}({_render(event.value, binders)})"
