"""How a claim comes to be broken, told step by step."""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.properties.run.state import Domain
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import Map, Value
from quicksilver.properties.values.operators import items_of
from quicksilver.properties.verify.explore import Counterexample
from quicksilver.properties.verify.world import (
    Action,
    Arrived,
    Crashed,
    Ended,
    Given,
    Model,
    Opened,
    Round,
    Started,
    World,
    address_of,
)
from quicksilver.recovery.domains import Name


def tell(found: Counterexample) -> Iterator[str]:
    """Yield the lines of a timeline."""
    model, world = found.model, found.begin
    names = ", ".join(address_of(slot) for slot in range(model.slots))
    yield f"nodes {names}; domains {_domains(model, world)}"
    yield from _changes(model, {}, _shown(model, world))
    for number, action in enumerate(found.actions, 1):
        before = _shown(model, world)
        line = _told(model, world, action)
        world = model.apply(world, action)
        yield f"{number:2}. {line}"
        for slot, output in world.outputs:
            event = model.plan.requests[output.event].name
            arguments = ", ".join(show(value) for value in output.arguments)
            yield f"      {address_of(slot)} asks its application: {event}({arguments})"
        yield from _changes(model, before, _shown(model, world))
    if found.is_eventual:
        yield f"from here on, without any fault: {found.broken}"
    else:
        yield str(found.broken)


def show(value: Value | None) -> str:
    """Return a value as programs write it."""
    match value:
        case None:
            return "absent"
        case bool():
            return "true" if value else "false"
        case IntSet():
            return str(value)
        case tuple():
            return "<" + ", ".join(show(each) for each in value) + ">"
        case Map():
            return "[" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "]"
        case frozenset():
            return "{" + ", ".join(show(each) for each in items_of(value)) + "}"
        case _:
            return str(value)


def _domains(model: Model, world: World) -> str:
    return ", ".join(_name(model, world, name) for name in sorted(model.layout(world)))


def _name(model: Model, world: World, name: Name) -> str:
    """Return what to call a domain: the nodes in it."""
    level, place = name
    width = model.size ** (level + 1)
    slots = range(place * width, min(model.slots, (place + 1) * width))
    return "+".join(address_of(slot) for slot in slots if world.posts[slot] is not None)


def _told(model: Model, world: World, action: Action) -> str:
    match action:
        case Given(slot, event):
            at, arguments = model.events[event]
            values = ", ".join(show(value) for value in arguments)
            return f"{address_of(slot)} is given {model.plan.callbacks[at].name}({values})"
        case Round(name, unheard, unanswered):
            said = f"{_name(model, world, name)} holds a round"
            if unheard:
                said += f"; it does not reach {_addresses(unheard)}"
            if unanswered:
                said += f"; the answer of {_addresses(unanswered)} is lost"
            return said
        case Opened(name, told):
            said = f"{_name(model, world, name)} begins a round that takes long"
            return said + (f"; it reaches {_addresses(told)}" if told else "")
        case Arrived(which, slot):
            name = world.late[which].name
            return f"the long round of {_name(model, world, name)} reaches {address_of(slot)}"
        case Ended(which):
            return f"the long round of {_name(model, world, world.late[which].name)} ends"
        case Crashed(slot):
            return f"{address_of(slot)} crashes"
        case Started(slot):
            return f"{address_of(slot)} starts again and knows nothing"


def _addresses(slots: tuple[int, ...]) -> str:
    return " and ".join(address_of(slot) for slot in slots)


def _shown(model: Model, world: World) -> dict[str, str]:
    """Return what is to be seen of every node and domain."""
    found: dict[str, str] = {}
    for post in world.posts:
        if post is not None:
            found[post.node.address] = _of_domain(model, post.node)
            for name, domain in post.led:
                found[_name(model, world, name) + f" (led by {post.node.address})"] = _of_domain(
                    model, domain
                )
    return found


def _of_domain(model: Model, domain: Domain) -> str:
    values = ", ".join(
        f"{each.name} = {show(slot.value)}"
        for each, slot in zip(model.plan.properties, domain.slots, strict=True)
    )
    return f"{values}; {domain.standing.name.lower()}"


def _changes(model: Model, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for name, said in after.items():
        if before.get(name) != said:
            yield f"      {name}: {said}"
