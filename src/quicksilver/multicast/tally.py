"""Messages and bytes by group since somebody last looked: for traces, and only with one.

Counts once a packet, or once a run of packets. Messages of packets that carry several
groups are counted by one call into C (20 ns each), and get the mean size of all such
messages between two looks: an engine with a tracer does nothing for a single message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from quicksilver.trace.records import OTHER_GROUPS, GroupSampled
from quicksilver.wire.ids import plain_group
from quicksilver.wire.packets import Messages

GROUPS_MAX = 100
"""Groups that a sample tells apart, the busiest; all others are one record."""

TALLIED_MAX = 100_000
"""Groups that are counted apart between two looks; past it they are others."""

Describe = Callable[[int], tuple[str, tuple[int, ...]]]
"""Gives a group's name and its regions."""


class GroupTally:
    """What one engine sent to groups and received from them."""

    def __init__(self) -> None:
        self._sent = _Way()
        self._received = _Way()
        self._bytes_before = 0
        self._looked_at = 0.0

    def count_sent(self, group: int, messages: int, size: int) -> None:
        """Count messages of one group."""
        self._sent.add(group, messages, size)

    def count_sent_mixed(self, groups: Sequence[int], size: int) -> None:
        """Count messages of several groups, one entry each."""
        self._sent.add_mixed(groups, size)

    def count_received(self, messages: Messages, delivered_bytes: int) -> None:
        """Count what arrived; ``delivered_bytes`` is the engine's total."""
        size = delivered_bytes - self._bytes_before
        self._bytes_before = delivered_bytes
        if messages.group is not None:
            self._received.add(messages.group, len(messages.payloads), size)
        else:
            self._received.add_mixed(messages.groups, size)

    def take(self, at: float, node: int, describe: Describe) -> list[GroupSampled]:
        """Return the groups that had traffic since the last time, and begin anew."""
        sent, self._sent = self._sent.totals(), _Way()
        received, self._received = self._received.totals(), _Way()
        since, self._looked_at = self._looked_at, at
        nothing = (0, 0)
        order = sorted(
            sent.keys() | received.keys(),
            key=lambda g: (-sent.get(g, nothing)[0] - received.get(g, nothing)[0], g),
        )
        told = [group for group in order if group != OTHER_GROUPS][:GROUPS_MAX]
        apart = set(told)
        others = [group for group in order if group not in apart]
        seconds = at - since if since else 0.0
        found = []
        for groups in [[group] for group in told] + ([others] if others else []):
            name, regions = describe(groups[0]) if groups is not others else ("", ())
            outgoing = [sent.get(group, nothing) for group in groups]
            incoming = [received.get(group, nothing) for group in groups]
            found.append(
                GroupSampled(
                    at,
                    node,
                    group=OTHER_GROUPS if groups is others else groups[0],
                    group_name=name,
                    regions=regions,
                    groups=len(groups),
                    seconds=seconds,
                    sent_messages=sum(each[0] for each in outgoing),
                    sent_bytes=sum(each[1] for each in outgoing),
                    received_messages=sum(each[0] for each in incoming),
                    received_bytes=sum(each[1] for each in incoming),
                )
            )
        return found


class _Way:
    """Counts of one direction."""

    __slots__ = ("_mixed", "_mixed_bytes", "_single")

    def __init__(self) -> None:
        self._single: dict[int, list[int]] = {}
        self._mixed: Counter[int] = Counter()
        self._mixed_bytes = 0

    def add(self, group: int, messages: int, size: int) -> None:
        found = self._single.get(group)
        if found is None:
            if len(self._single) >= TALLIED_MAX:
                group = OTHER_GROUPS
            found = self._single.setdefault(group, [0, 0])
        found[0] += messages
        found[1] += size

    def add_mixed(self, groups: Iterable[int], size: int) -> None:
        mixed = self._mixed
        mixed.update(groups)
        self._mixed_bytes += size
        if len(mixed) > TALLIED_MAX:
            self._mixed = Counter({OTHER_GROUPS: mixed.total()})

    def totals(self) -> dict[int, tuple[int, int]]:
        """Return messages and bytes by group, those with envelopes under its own number."""
        found: dict[int, tuple[int, int]] = {}
        for number, (count, size) in self._single.items():
            group = plain_group(number)
            messages, before = found.get(group, (0, 0))
            found[group] = (messages + count, before + size)
        each = self._mixed_bytes / max(1, self._mixed.total())
        for number, count in self._mixed.items():
            group = plain_group(number)
            messages, size = found.get(group, (0, 0))
            found[group] = (messages + count, size + round(count * each))
        return found
