"""Did every survivor get everything? Publishers' accounts against subscribers'."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from quicksilver.cli.cluster.tally import StreamAccount


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher says that it sent: the same to each of its groups."""

    node: int
    groups: list[str]
    messages: int
    checksum: int
    started_at: float
    accepted_at: float
    flushed_at: float
    stats: dict[str, int | float | str] = {}


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What a subscriber says that it got."""

    node: int
    streams: list[StreamAccount]
    messages: int
    bytes: int
    last_at: float
    stats: dict[str, int | float | str] = {}


def expected_of(
    published: Iterable[Published], joined: Iterable[str]
) -> list[tuple[int, str, int]]:
    """Return the streams that a member of the groups must have got."""
    names = set(joined)
    return [
        (one.node, group, one.messages)
        for one in published
        for group in one.groups
        if group in names
    ]


def find_faults(
    published: Iterable[Published], received: Received, joined: Iterable[str]
) -> list[str]:
    """Return what is wrong with a subscriber's account; nothing when all is there."""
    senders = {one.node: one for one in published}
    got = {(account.sender, account.group): account for account in received.streams}
    faults = []
    for sender, group, count in expected_of(senders.values(), joined):
        account = got.pop((sender, group), None)
        where = f"node {received.node}, sender {sender}, group {group}"
        if account is None:
            faults.append(f"{where}: none of {count} messages")
        elif account.count != count or account.first != 0:
            faults.append(f"{where}: {account.count} of {count}, first {account.first}")
        elif account.breaks:
            faults.append(f"{where}: sequence broken {account.breaks} times")
        elif account.checksum != senders[sender].checksum:
            faults.append(f"{where}: the checksum differs")
    faults += [f"node {received.node} got group {g} of {s} unasked" for s, g in sorted(got)]
    return faults
