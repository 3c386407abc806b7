"""Bundles: consecutive messages in one piece of memory, as they travel.

A node that hands messages on, keeps copies of them or brings them into another network needs no
Python object for each: only an application does, and a filter of its own never looks inside.
So messages stay in the bytes that they came in, and these are copied as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Annotated

import msgspec

MESSAGES_MAX = 1024
"""Messages in one bundle."""

TABLE_BYTES = 5
"""What the length of a message takes at most, where lengths differ."""

Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Bundle(msgspec.Struct, frozen=True, array_like=True):
    """Some messages. ``bundle`` makes one; parsing one checks that it is consistent."""

    count: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)]
    sizes: Annotated[tuple[Size, ...], msgspec.Meta(max_length=MESSAGES_MAX)]
    """The length of each; none: all are equally long, and not empty. So a few bytes never stand
    for many messages."""
    body: bytes

    def __post_init__(self) -> None:
        if self.sizes:
            is_sound = len(self.sizes) == self.count and sum(self.sizes) == len(self.body)
        else:
            is_sound = self.count > 0 and bool(self.body) and len(self.body) % self.count == 0
        if not is_sound:
            raise ValueError("the lengths of messages are not those of their bundle")

    def split(self) -> list[bytes]:
        """Return the messages."""
        body = self.body
        if self.sizes:
            return [body[at:end] for at, end in pairwise(accumulate(self.sizes, initial=0))]
        if self.count == 1:
            return [body]
        size = len(body) // self.count
        return [body[at : at + size] for at in range(0, len(body), size)]

    def lengths(self) -> tuple[int, ...]:
        """Return how long each message is."""
        return self.sizes or (len(self.body) // self.count,) * self.count

    def part(self, start: int, stop: int) -> Bundle:
        """Return the messages from one place up to another; some must be."""
        if start == 0 and stop >= self.count:
            return self
        if not self.sizes:
            size = len(self.body) // self.count
            body = self.body[start * size : stop * size]
            return Bundle(len(body) // size, (), body)
        sizes = self.sizes[start:stop]
        at = sum(self.sizes[:start])
        return _bundle(sizes, self.body[at : at + sum(sizes)])

    def cut(self, bytes_max: int) -> Iterator[Bundle]:
        """Yield it in parts of at most so many bytes, or of one message that is longer."""
        if len(self.body) + TABLE_BYTES * self.count <= bytes_max:
            yield self
            return
        for start, stop in _spans(self.sizes, self.count, len(self.body), bytes_max):
            yield self.part(start, stop)


def bundle(messages: Sequence[bytes]) -> Bundle:
    """Return messages as a bundle; there must be some, and no more than ``MESSAGES_MAX``."""
    return _bundle(tuple(map(len, messages)), b"".join(messages))


def cut_messages(messages: Sequence[bytes], bytes_max: int) -> Iterator[Bundle]:
    """Yield messages in bundles of at most so many bytes, or of one message that is longer."""
    sizes = tuple(map(len, messages))
    count, size = len(sizes), sum(sizes)
    if count <= MESSAGES_MAX and size + TABLE_BYTES * count <= bytes_max:
        if messages:
            yield _bundle(sizes, b"".join(messages))
        return
    known = () if sizes.count(sizes[0]) == count else sizes
    for start, stop in _spans(known, count, size, bytes_max):
        yield _bundle(sizes[start:stop], b"".join(messages[start:stop]))


def _bundle(sizes: tuple[int, ...], body: bytes) -> Bundle:
    count = len(sizes)
    is_even = bool(body) and sizes.count(sizes[0]) == count
    return Bundle(count, () if is_even else sizes, body)


def _spans(
    sizes: tuple[int, ...], count: int, total: int, bytes_max: int
) -> Iterator[tuple[int, int]]:
    """Yield where to cut; ``sizes``: as bundles have them."""
    if not sizes:  # as often: no need to look at each
        step = max(1, min(MESSAGES_MAX, bytes_max // (total // count + TABLE_BYTES)))
        for start in range(0, count, step):
            yield start, min(start + step, count)
        return
    start = used = 0
    for at, size in enumerate(sizes):
        if at > start and (used + size + TABLE_BYTES > bytes_max or at - start >= MESSAGES_MAX):
            yield start, at
            start, used = at, 0
        used += size + TABLE_BYTES
    yield start, count
