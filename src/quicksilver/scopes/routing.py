"""Routing records: how far a message has come in each scope, and which way it goes next.

A channel belongs to a scope and leads from one of its members to another. It carries the
messages of a topic that originated, in that scope, at a certain member. A member that is
made of several nodes hands its end of the channel down to one of its own members, and so on
to a single node: ``P:B-Q:C, T:P`` is the channel from P to Q for messages of T that
originated at P, and its ends are at P's member B and Q's member C.

A record has an entry for each scope that the message has crossed a channel of, or is inside
of: at which member it originated there, and at which it is or which it is entering. It need
not reach up to the root. This is the scheme of dissertation 3.2.5, with one difference:
entries name their scope, where the dissertation counts levels from the nodes up. So the
branches of a hierarchy may differ in depth; where they do not, both are the same.

Where many members publish, a channel for each origin would be too many. A channel for
``EVERY`` origin carries all messages, but none back to the member that brought it and none to
its origin: along a tree, whose edges have a channel in either direction, each member then gets
a message once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import msgspec

from quicksilver.scopes.names import Name, Path

ENTRIES_MAX = 16
"""Scopes that a record can tell of; a forged one that has more is refused."""

EVERY = "*"
"""In place of an origin: all of them. No scope has this name."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """The state of a message in one scope: the pair Xi-Yi of the dissertation."""

    scope: Name
    origin: Name
    """The member of the scope that the message came from, and it does not change …"""
    at: Name
    """… and the member that it is inside of, or is entering."""
    via: Name = ""
    """The member that brought it there, if a channel for every origin did."""


Record = Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
"""Entries from the widest scope to the narrowest; each scope is the ``at`` of the one before."""


class Channel(msgspec.Struct, frozen=True, array_like=True):
    """A channel between two members of a scope, and who works its ends."""

    scope: Name
    source: Path
    """The member, then the member of that one that it was delegated to, and so on to a node."""
    target: Path
    """The same for the other end."""
    topic: Name
    origin: Name
    """Messages that originated, in ``scope``, at this member are carried; or at ``EVERY``."""

    def __str__(self) -> str:
        return f"{':'.join(self.source)}-{':'.join(self.target)}, {self.topic}:{self.origin}"


def describe(record: Record) -> str:
    """Return a record as the dissertation writes it: ``P-Q, C-C``."""
    return ", ".join(f"{entry.origin}-{entry.at}" for entry in record)


def begin(scope: str, node: str) -> Record:
    """Return the record of a message that a member of a scope has just made."""
    return (Entry(scope, node, node),)


def matches(record: Record, channel: Channel) -> bool:
    """Return whether a message at the source of a channel is to be forwarded along it.

    Where the record says nothing about the channel's scope, the message has not left the
    member that it originated at, and that is the channel's source.
    """
    for entry in record:
        if entry.scope != channel.scope:
            continue
        if channel.origin == EVERY:
            return channel.target[0] not in (entry.origin, entry.via)
        return entry.origin == channel.origin
    return channel.origin in (EVERY, channel.source[0])


def forwarded(record: Record, channel: Channel) -> Record:
    """Return the record of a message that a channel has carried to its target.

    What is known of scopes inside the source goes, and of scopes inside the target it is
    known that the message originated where it enters. What is known of wider scopes stays.
    """
    wider: list[Entry] = []
    origin = channel.source[0]
    for entry in record:
        if entry.scope == channel.scope:
            origin = entry.origin
            break
        wider.append(entry)
    else:
        wider.clear()
    via = channel.source[0] if channel.origin == EVERY else ""
    wider.append(Entry(channel.scope, origin, channel.target[0], via))
    wider.extend(Entry(scope, member, member) for scope, member in pairwise(channel.target))
    return tuple(wider)


def cast(record: Record, scope: str, member: str) -> Record | None:
    """Return the record with which a member of a scope gives a message to its mechanism.

    The mechanism reaches all members at once, so each gets the message as if from the member
    where it originated: only that one gives it to the mechanism. None: this member is not it.
    """
    own = Channel(scope, (member,), (member,), "", member)
    return forwarded(record, own) if matches(record, own) else None


def heard(record: Record, scope: str, path: Path) -> Record | None:
    """Return the record of a message that the mechanism of a scope has brought to a node.

    ``path`` leads from a member of the scope to the node. None: no honest node gives a message
    with this record to the mechanism, or that member itself did.
    """
    if not record or len(record) > ENTRIES_MAX:
        return None
    origin = record[-1].origin
    if record[-1] != Entry(scope, origin, origin) or origin == path[0]:
        return None
    channel = Channel(scope, (origin,), path, "", origin)
    moved = forwarded(record, channel)
    return moved if find_record_problem(moved, channel) is None else None


def find_record_problem(record: Record, channel: Channel) -> str | None:
    """Return why no honest node sends a message with this record along a channel, or None.

    The target of a channel asks this of whatever arrives. A record that passes was made by
    ``forwarded``, or could have been: what is left to a liar is which member the message
    originated at, and a member that sends in the name of another harms its own scope only.
    """
    if len(record) > ENTRIES_MAX:
        return f"its record has {len(record)} entries, {ENTRIES_MAX} are allowed"
    inside = len(channel.target)
    if len(record) < inside:
        return f"its record {describe(record)!r} ends before the channel does"
    crossed, *narrower = record[len(record) - inside :]
    if (crossed.scope, crossed.at) != (channel.scope, channel.target[0]):
        return f"its record {describe(record)!r} does not say that it crossed {channel}"
    if channel.origin not in (EVERY, crossed.origin):
        return f"{channel} does not carry messages that originated at {crossed.origin!r}"
    for entry, (scope, member) in zip(narrower, pairwise(channel.target), strict=True):
        if (entry.scope, entry.origin, entry.at) != (scope, member, member):
            return f"its record says that it originated in {entry.scope!r} at {entry.origin!r}"
    for outer, inner in pairwise(record):
        if outer.at != inner.scope:
            return f"its record is inside of {outer.at!r} and of {inner.scope!r}"
    return None
