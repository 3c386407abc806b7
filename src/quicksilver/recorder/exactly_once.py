"""Receiving what jobs publish, each row once.

::

    async for row in exactly_once(group):
        print(row.key, row.value)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import msgspec

from quicksilver.node import aio, sync
from quicksilver.node.messages import Message
from quicksilver.recorder.envelope import Headers, Origin, parse_envelope
from quicksilver.recorder.repeats import Repeats


class Row(msgspec.Struct, frozen=True):
    """A message taken apart; a plain one has a value only."""

    value: bytes
    key: bytes | None
    headers: Headers | None
    origin: Origin | None
    """Which row of which job it is; None for a message that no job sent."""
    message: Message[bytes]


def take_apart(message: Message[bytes], repeats: Repeats) -> Row | None:
    """Return a message's row; None if the row was received before."""
    payload = message.payload
    envelope = parse_envelope(payload) if type(payload) is bytes else None
    if envelope is None:
        return Row(payload, None, None, None, message)
    if not repeats.is_new(envelope.origin):
        return None
    return Row(envelope.value, envelope.key, envelope.headers, envelope.origin, message)


async def exactly_once(
    group: aio.Group[bytes], repeats: Repeats | None = None
) -> AsyncIterator[Row]:
    """Yield what arrives in a group, without the rows that a job sent again.

    ``repeats`` remembers what came; pass one of your own to go on where an
    earlier loop ended, or to see how many were dropped.
    """
    known = Repeats() if repeats is None else repeats
    async for message in group:
        row = take_apart(message, known)
        if row is not None:
            yield row


def exactly_once_sync(
    group: sync.Group[bytes], timeout_s: float | None = None, repeats: Repeats | None = None
) -> Iterator[Row]:
    """The synchronous form; ends when nothing arrived for ``timeout_s``."""
    known = Repeats() if repeats is None else repeats
    for message in group.messages(timeout_s):
        row = take_apart(message, known)
        if row is not None:
            yield row
