"""What all proxies of a platform agree on: hosts, and which objects run on which (2.1.6).

Commands come to every proxy in one order and change the state in the same way
everywhere; a newcomer is given the state as bytes. A command that asks for too
much, or makes no sense, changes nothing and is told of where it was given.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from quicksilver.live.codec import Codec, Packed

OBJECTS_MAX: Final = 1000
HOSTS_MAX: Final = 1000
NAME_CHARACTERS_MAX: Final = 200
REFERENCE_CHARACTERS_MAX: Final = 100_000
ADDRESS_CHARACTERS_MAX: Final = 1000
COMMAND_BYTES_MAX: Final = 1 << 20
STATE_BYTES_MAX: Final = 64 << 20
GENERATIONS_MAX: Final = 8
"""Objects that had each other started; a host may allow fewer."""


Outcome: TypeAlias = Literal["started", "stopped", "failed"]
"""What may become of an object on a host."""


class Joined(Packed, frozen=True, tag="joined"):
    """A node hosts objects from here on."""

    host: str


class Left(Packed, frozen=True, tag="left"):
    """A node hosts no longer; said by itself, or by somebody who knows that it is gone."""

    host: str


class Start(Packed, frozen=True, tag="start"):
    """An object is to run on some hosts."""

    name: str
    reference: str
    hosts: tuple[str, ...]
    parent: str
    """The hosted object that asks for it; empty: somebody outside."""


class Move(Packed, frozen=True, tag="move"):
    """An object is to run on other hosts."""

    name: str
    hosts: tuple[str, ...]


class Stop(Packed, frozen=True, tag="stop"):
    """An object is to run nowhere."""

    name: str


class Reported(Packed, frozen=True, tag="reported"):
    """What became of an object on a host."""

    name: str
    host: str
    what: Outcome
    detail: str


class Asked(Packed, frozen=True, tag="asked"):
    """Somebody wants to connect to an endpoint of an object that runs on a host."""

    asker: str
    """The host where the question was asked."""
    ticket: int
    name: str
    host: str
    endpoint: str


class Answered(Packed, frozen=True, tag="answered"):
    """Where that endpoint is published, or why it is not."""

    asker: str
    ticket: int
    address: str
    problem: str


Command: TypeAlias = Joined | Left | Start | Move | Stop | Reported | Asked | Answered


class Hosted(msgspec.Struct, frozen=True, array_like=True):
    """An object and where it is to run."""

    reference: str
    hosts: tuple[str, ...]
    parent: str = ""
    generation: int = 0


class State(msgspec.Struct):
    """All that is agreed on."""

    hosts: list[str] = []
    objects: dict[str, Hosted] = {}


COMMANDS: Final = Codec[Command](Command, "a command", COMMAND_BYTES_MAX)
STATES: Final = Codec[State](State, "the state of the platform", STATE_BYTES_MAX)


def apply(state: State, command: Command) -> str:
    """Change the state; return why it was not changed, or nothing."""
    match command:
        case Joined(host):
            if host not in state.hosts:
                if len(state.hosts) >= HOSTS_MAX or _is_long(host):
                    return f"there are {HOSTS_MAX} hosts already, or the name is too long"
                state.hosts.append(host)
        case Left(host):
            if host not in state.hosts:
                return f"there is no host {host!r}"
            state.hosts.remove(host)
        case Start():
            return _start(state, command)
        case Move(name, hosts):
            hosted = state.objects.get(name)
            problem = _find_problem(state, hosts) if hosted else f"there is no object {name!r}"
            if problem or hosted is None:
                return problem
            state.objects[name] = msgspec.structs.replace(hosted, hosts=_unique(hosts))
        case Stop(name):
            if state.objects.pop(name, None) is None:
                return f"there is no object {name!r}"
        case Reported() | Asked() | Answered():
            pass
        case _:
            assert_never(command)
    return ""


def _start(state: State, command: Start) -> str:
    name, parent = command.name, command.parent
    if name in state.objects:
        return f"there is an object {name!r} already"
    if not name or _is_long(name):
        return f"a name has 1 to {NAME_CHARACTERS_MAX} characters"
    if len(state.objects) >= OBJECTS_MAX:
        return f"the platform hosts {OBJECTS_MAX} objects already"
    if len(command.reference) > REFERENCE_CHARACTERS_MAX:
        return f"a reference has at most {REFERENCE_CHARACTERS_MAX} characters here"
    generation = 0
    if parent:
        around = state.objects.get(parent)
        if around is None:
            return f"the object {parent!r}, which asks for it, is not hosted any more"
        generation = around.generation + 1
    if generation > GENERATIONS_MAX:
        return f"more than {GENERATIONS_MAX} objects had each other started"
    problem = _find_problem(state, command.hosts)
    if not problem:
        hosts = _unique(command.hosts)
        state.objects[name] = Hosted(command.reference, hosts, parent, generation)
    return problem


def _find_problem(state: State, hosts: tuple[str, ...]) -> str:
    unknown = [host for host in hosts if host not in state.hosts]
    if not unknown:
        return ""
    known = ", ".join(state.hosts[:8]) or "none"
    return f"there is no host {unknown[0][:80]!r}; there is: {known}"


def _unique(hosts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hosts))


def _is_long(name: str) -> bool:
    return len(name) > NAME_CHARACTERS_MAX
