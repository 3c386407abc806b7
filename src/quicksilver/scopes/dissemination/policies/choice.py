"""Policies by name, as people write them: ``star``, ``tree:3``, ``multicast``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quicksilver.scopes.dissemination.policies.base import Edge, Policy
from quicksilver.scopes.dissemination.policies.meshes import Gossip, Mesh
from quicksilver.scopes.dissemination.policies.trees import Star, Stripes, Tree
from quicksilver.stdx.errors import QuicksilverError


class BadPolicyError(QuicksilverError, ValueError):
    """A text that names no policy."""


class Mechanism:
    """Something that reaches all members by itself: no channels between them are needed."""

    def __init__(self, mechanism: str) -> None:
        self.mechanism = mechanism

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return iter(())

    def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
        return iter(())

    def entry_edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        return iter(())


_WITHOUT_NUMBER: dict[str, Callable[[], Policy]] = {
    "star": Star,
    "chain": lambda: Tree(1),
    "multicast": lambda: Mechanism("multicast"),
    "regions": lambda: Mechanism("regions"),
    "qsm": lambda: Mechanism("qsm"),
}
_WITH_NUMBER: dict[str, Callable[[int], Policy]] = {
    "tree": Tree,
    "mesh": Mesh,
    "stripes": Stripes,
    "gossip": Gossip,
}

NUMBER_MAX = 1000


def parse_policy(text: str) -> Policy:
    """Return the policy that a text names. Raises ``BadPolicyError``, in one line."""
    name, colon, number = text.partition(":")
    if not colon and name in _WITHOUT_NUMBER:
        return _WITHOUT_NUMBER[name]()
    if name not in _WITH_NUMBER:
        known = [*_WITHOUT_NUMBER, *(f"{each}:N" for each in _WITH_NUMBER)]
        raise BadPolicyError(f"there is no policy {text!r}; there are {', '.join(known)}")
    if not (number.isascii() and number.isdigit() and len(number) <= 4):
        raise BadPolicyError(f"{text!r} lacks its number: write {name}:4, for example")
    if int(number) > NUMBER_MAX:
        raise BadPolicyError(f"{number} is too much in {text!r}: {NUMBER_MAX} is the most")
    try:
        return _WITH_NUMBER[name](int(number))
    except ValueError as error:
        raise BadPolicyError(f"{text!r}: {error}") from None


def describe_policy(policy: Policy) -> str:
    """Return a policy as people write it; one that somebody else wrote by its class."""
    match policy:
        case Mechanism(mechanism=mechanism):
            return mechanism
        case Star():
            return "star"
        case Tree(fan_out=1):
            return "chain"
        case Tree(fan_out=number):
            return f"tree:{number}"
        case Mesh(paths=number):
            return f"mesh:{number}"
        case Stripes(count=number):
            return f"stripes:{number}"
        case Gossip(fan_out=number):
            return f"gossip:{number}"
        case _:
            return type(policy).__name__
