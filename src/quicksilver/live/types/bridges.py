"""Events of one library's interface as calls of another's.

A bridge stands where a proxy calls an event that goes out, and calls the handler
of the event that comes in on the other side. Where both agree it is the handler
itself and costs nothing. Arguments are given by position, in the order of the
caller's interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from quicksilver.live.types.convert import Converters
from quicksilver.live.types.errors import MismatchError
from quicksilver.live.types.interfaces import Argument, Signature
from quicksilver.live.types.plain_forms import Convert
from quicksilver.live.types.subtyping import Checker, adapt_event, standard_checker

Handler: TypeAlias = Callable[..., Any]


def bridge_event(
    source: Signature,
    target: Signature,
    handler: Handler,
    *,
    converters: Converters,
    checker: Checker | None = None,
) -> Handler:
    """Return what the source calls so that the target's handler is called, converted.

    Raises MismatchError if what the event carries does not fit.
    """
    ours, theirs = source.arguments, target.arguments
    if len(ours) == 1 and len(theirs) == 1:
        convert = converters.find(ours[0].annotation, theirs[0].annotation)
        return handler if convert is None else _bridge_one(handler, convert)
    judge = checker if checker is not None else standard_checker()
    carried = adapt_event(source.event, target.event, converters.conversions).value
    diagnosis = judge.check_value_subtype(carried, target.event.value)
    if diagnosis is not None:
        raise MismatchError(f"event {source.event.name} does not fit", diagnosis)
    if not ours and not theirs:
        return handler
    if len(ours) > 1 and len(theirs) > 1:
        return _bridge_many(ours, theirs, handler, converters)
    return _bridge_shapes(ours, theirs, handler, converters)


def _bridge_one(handler: Handler, convert: Convert) -> Handler:
    return lambda value: handler(convert(value))


def _bridge_many(
    ours: tuple[Argument, ...],
    theirs: tuple[Argument, ...],
    handler: Handler,
    converters: Converters,
) -> Handler:
    """Both have several arguments: each goes to the one of its name."""
    places = {argument.name: place for place, argument in enumerate(ours)}
    route: list[tuple[str, int, Convert | None]] = []
    for argument in theirs:
        place = places.get(argument.name)
        if place is not None:  # otherwise it may be absent, or the types would not fit
            convert = converters.find(ours[place].annotation, argument.annotation)
            route.append((argument.name, place, convert))
    in_order = [place for _, place, _ in route] == list(range(len(ours)))
    same_names = [name for name, _, _ in route] == [argument.name for argument in theirs]
    if in_order and same_names and all(convert is None for _, _, convert in route):
        return handler

    def bridge(*values: Any) -> Any:
        given = {
            name: values[place] if convert is None else convert(values[place])
            for name, place, convert in route
            if place < len(values)
        }
        return handler(**given)

    return bridge


def _bridge_shapes(
    ours: tuple[Argument, ...],
    theirs: tuple[Argument, ...],
    handler: Handler,
    converters: Converters,
) -> Handler:
    """One has several arguments where the other has a struct, or none at all."""
    fronts = [(one.name, converters.adapter(one.annotation).to_plain) for one in ours]
    backs = [(one.name, converters.adapter(one.annotation).from_plain) for one in theirs]

    def make_plain(values: tuple[Any, ...]) -> Any:
        if not ours:
            return None
        if len(ours) == 1:
            return _call(fronts[0][1], values[0])
        pairs = zip(fronts, values, strict=False)
        return {name: _call(front, value) for (name, front), value in pairs}

    def bridge(*values: Any) -> Any:
        plain = make_plain(values)
        if not theirs:
            return handler()
        if len(theirs) == 1:
            return handler(_call(backs[0][1], plain))
        return handler(**{n: _call(back, plain[n]) for n, back in backs if n in plain})

    return bridge


def _call(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)
