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


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Confirmed)


def parse(data: bytes) -> Confirmed | None:
    """Return what another gateway says, or None if no gateway says that."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def name_node(scope: str, gateway: str) -> str:
    """Return what the node of a gateway is called in its network."""
    return f"{scope}:{gateway}"


def parse_node(name: str) -> tuple[str, str] | None:
    """Return scope and name of a gateway whose node has this name, or None."""
    scope, colon, gateway = name.partition(":")
    return (scope, gateway) if colon else None
