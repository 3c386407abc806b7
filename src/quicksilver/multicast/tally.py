"""Messages and bytes by group since somebody last looked: for traces, and only with one.

Counts once a packet, or once a run of packets. Where a packet carries messages of
several groups, their numbers are counted by one call into C and the packet's bytes are
shared out by number: an engine with a tracer does nothing for a single message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from quicksilver.trace.records import OTHER_GROUPS, GroupSampled
from quicksilver.wire.packets import Messages

GROUPS_MAX = 100
"""Groups that a sample tells apart, the busiest; all others are one record."""

TALLIED_MAX = 100_000
"""Groups that are counted apart between two looks; those that come later are others."""

Describe = Callable[[int], tuple[str, tuple[int, ...]]]
"""Gives a group's name and its regions."""


class GroupTally:
    """What one engine sent to groups and received from them."""

    def __init__(self) -> None:
        self._sent: dict[int, list[int]] = {}
        self._received: dict[int, list[int]] = {}
        self._bytes_before = 0
        self._looked_at = 0.0

    def count_sent(self, group: int, messages: int, size: int) -> None:
        """Count messages of one group."""
        _add(self._sent, group, messages, size)

    def count_sent_mixed(self, groups: Sequence[int], size: int) -> None:
        """Count messages of several groups, one entry each."""
        _add_mixed(self._sent, groups, size)

    def count_received(self, messages: Messages, delivered_bytes: int) -> None:
        """Count what arrived; ``delivered_bytes`` is the engine's total."""
        size = delivered_bytes - self._bytes_before
        self._bytes_before = delivered_bytes
        if size <= 0:
            # It had waited for a repair: the engine's total is of those that had not.
            size = sum(map(len, messages.payloads))
        if messages.group is not None:
            _add(self._received, messages.group, len(messages.payloads), size)
        else:
            _add_mixed(self._received, messages.groups, size)

    def take(self, at: float, node: int, describe: Describe) -> list[GroupSampled]:
        """Return the groups that had traffic since the last time, and begin anew."""
        sent, self._sent = self._sent, {}
        received, self._received = self._received, {}
        since, self._looked_at = self._looked_at, at
        nothing = (0, 0)
        order = sorted(
            sent.keys() | received.keys(),
            key=lambda g: (-sent.get(g, nothing)[0] - received.get(g, nothing)[0], g),
        )
        named = [group for group in order[:GROUPS_MAX] if group != OTHER_GROUPS]
        others = [group for group in order if group == OTHER_GROUPS] + order[GROUPS_MAX:]
        seconds = at - since if since else 0.0
        found = []
        for groups in [[group] for group in named] + ([others] if others else []):
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
                    groups=len(set(groups)),
                    seconds=seconds,
                    sent_messages=sum(each[0] for each in outgoing),
                    sent_bytes=sum(each[1] for each in outgoing),
                    received_messages=sum(each[0] for each in incoming),
                    received_bytes=sum(each[1] for each in incoming),
                )
            )
        return found


def _add(counts: dict[int, list[int]], group: int, messages: int, size: int) -> None:
    found = counts.get(group)
    if found is None:
        if len(counts) >= TALLIED_MAX:
            group = OTHER_GROUPS
        found = counts.setdefault(group, [0, 0])
    found[0] += messages
    found[1] += size


def _add_mixed(counts: dict[int, list[int]], groups: Iterable[int], size: int) -> None:
    numbers = Counter(groups)
    each = size / max(1, numbers.total())
    for group, messages in numbers.items():
        _add(counts, group, messages, round(messages * each))
