"""What stacks of a topic say to each other, in a stream of their own beside the messages.

A node's control stream is carried and repaired as any other, and takes no numbers from the
messages. Its sender is the node with its life inverted, so that nobody mistakes one for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.packets import Mark, Sender

RUNS_MAX = 1024
LINEAGE_MAX = 32
ASKERS_MAX = 64
"""Runs in one entry of an order, changes of who says it that are told, and nodes that one answer
is for."""

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one sender, one after the other."""

    sender: Sender
    first: Mark
    stop: Mark


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Of an order: entries of a term count up to this one."""

    term: Count
    sender: Sender
    stop: Count


class End(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """This node's messages of a session have numbers below this; it sends no more in it."""

    session: Count
    mark: Mark


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """This node says the order of a session from now on; what was said before, and counts."""

    session: Count
    term: Count
    lineage: Annotated[tuple[Part, ...], msgspec.Meta(max_length=LINEAGE_MAX)]


class Ordered(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The next entry of the order of a session."""

    session: Count
    term: Count
    index: Count
    """Counts the entries of a session, whoever said them."""
    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=RUNS_MAX)]
    is_last: bool = False
    """True: nothing of the session comes after it."""


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """This node has come into the order of a session, and asks what was ordered before."""

    session: Count


class Before(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The answer: what was ordered before an entry. Of senders that are not named, nothing was."""

    session: Count
    term: Count
    index: Count
    askers: Annotated[tuple[Sender, ...], msgspec.Meta(max_length=ASKERS_MAX)]
    """Nodes that have asked, and get this answer."""
    marks: Annotated[tuple[tuple[Sender, Mark], ...], msgspec.Meta(max_length=RUNS_MAX)]
    """Messages of these senders below these numbers."""
    is_last: bool
    """False: the next message of the control stream goes on with it."""


Control = End | Begin | Ordered | Ask | Before

_decode: Callable[[bytes], Control] = msgspec.msgpack.Decoder(Control).decode

encode = msgspec.msgpack.Encoder().encode


def parse(data: bytes) -> Control | None:
    """Return what a message of a control stream says, or None if no stack says that."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def control_of(sender: Sender) -> Sender:
    """Return the sender of a node's control stream; of that one, the node as a sender."""
    return Sender(sender.scope, sender.node, ~sender.life)


def is_control(sender: Sender) -> bool:
    return sender.life < 0
