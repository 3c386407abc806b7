"""What a scope manager waits for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryOwner:
    """An owner is to be dialled again."""

    address: str


@dataclass(frozen=True, slots=True)
class ForgetMember:
    """A member that is away has not come back."""

    name: str


@dataclass(frozen=True, slots=True)
class ForgetParts:
    """What a member wanted before it came back and has not said again."""

    name: str


@dataclass(frozen=True, slots=True)
class SayAlive:
    """Members and owners are to be told that this manager is there."""


@dataclass(frozen=True, slots=True)
class Settle:
    """A manager that has started again gives orders from now on."""


@dataclass(frozen=True, slots=True)
class SettleOwners:
    """… and no longer waits for what owners want."""


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Nobody has come back for topics that were here before the manager started again."""


@dataclass(frozen=True, slots=True)
class Dissolve:
    """A topic needs no recovery domain of its own any more."""


@dataclass(frozen=True, slots=True)
class WorkOut:
    """Changes were collected: members are told what they have to do."""


Deadline = (
    RetryOwner
    | ForgetMember
    | ForgetParts
    | SayAlive
    | Settle
    | SettleOwners
    | ForgetTopics
    | Dissolve
    | WorkOut
)
