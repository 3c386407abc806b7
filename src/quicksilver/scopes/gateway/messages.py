"""What gateways of one network say to each other, in a group of their own."""

from __future__ import annotations

from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.packets import Mark, Sender
from quicksilver.scopes.names import Name

GROUP = "$private.gateways"
"""The group of all gateways of a network. Its view says who they are, and their nodes' names
say for which scope (``name_node``)."""

MARKS_MAX = 1000
"""Streams of which one message tells."""


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Of some streams of a topic: below which number every member of its group has everything."""

    topic: Name
    marks: Annotated[tuple[tuple[Sender, Mark], ...], msgspec.Meta(max_length=MARKS_MAX)]


class Question(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """From a node of the network that flushes, as a request to the gateways' group: do all other
    networks have its own messages below these numbers?"""

    marks: Annotated[tuple[tuple[Name, Mark], ...], msgspec.Meta(max_length=MARKS_MAX)]


FOR_ALL, FOR_ITSELF = b"all", b"own"
"""Answers: all gateways would say so; or only what this one has to carry has arrived."""

encode = msgspec.msgpack.Encoder().encode
_question_decoder = msgspec.msgpack.Decoder(Question)
_decoder = msgspec.msgpack.Decoder(Confirmed)


def parse(data: bytes) -> Confirmed | None:
    """Return what another gateway says, or None if no gateway says that."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def parse_question(data: bytes) -> Question | None:
    """Return what a node asks the gateways, or None if no node asks that."""
    try:
        return _question_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def name_node(scope: str, gateway: str) -> str:
    """Return what the node of a gateway is called in its network."""
    return f"{scope}:{gateway}"


def parse_node(name: str) -> tuple[str, str] | None:
    """Return scope and name of a gateway whose node has this name, or None."""
    scope, colon, gateway = name.partition(":")
    return (scope, gateway) if colon else None
