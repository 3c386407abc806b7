"""Messages that were accepted and that nobody can vouch for.

Whatever an application sends is acknowledged by all who should have it, or noted here: which
messages, to whom, and why. Notes are kept until somebody takes them, within bounds: of each
group and reason one, with the numbers of its messages in a few ranges.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import list_messages

if TYPE_CHECKING:
    from quicksilver.multicast.sending.stream import SendStream

NOTES_MAX = 256
"""Groups and reasons that are noted one by one; those past it share a note a reason."""

RANGES_MAX = 64
"""Ranges of numbers in one note; past it one range covers them all."""

MEMBERS_MAX = 64
"""Members that a note names."""


class Reason(enum.Enum):
    """Why messages were not confirmed."""

    EXCLUDED = "this node was excluded before they were acknowledged"
    GIVEN_UP = "members that live did not acknowledge them in time"
    LEFT = "their group was left and its view is gone, with them still queued"
    CLOSED = "the node was closed before they were acknowledged"
    EMPTY = "their group lost its last member before they were sent"
    NETWORKS = "no gateway could say that other networks have them"
    """The members in this network have them."""
    MEMBERS_GONE = "members left or failed before they acknowledged them"
    """Not a failure: messages are promised only to members that stay."""

    @property
    def is_failure(self) -> bool:
        """True if a member that stayed may lack the messages."""
        return self is not Reason.MEMBERS_GONE


class Unconfirmed(msgspec.Struct, frozen=True):
    """Messages to one group that were sent, and that not every member acknowledged."""

    reason: Reason
    """Why they were not confirmed."""
    node: int
    """The number that this node had when it sent them; 0 if they are of several numbers, or were
    never numbered."""
    group: str
    """The group's name; empty if the messages are of several groups."""
    count: int
    """How many messages there are."""
    ranges: tuple[tuple[int, int], ...]
    """The numbers of the messages, as ranges: the first and last number of each. Empty if the
    messages were never numbered."""
    members: tuple[int, ...]
    """The members that may lack them, as far as is known; at most 64."""

    def __str__(self) -> str:
        noun = "message" if self.count == 1 else "messages"
        where = f"to {self.group!r}" if self.group else "to other groups"
        whom = ""
        if self.members:
            named = ", ".join(str(member) for member in self.members[:4])
            more = len(self.members) - 4
            whom = f" (members: {named}{f' and {more} more' if more > 0 else ''})"
        return f"{self.count:,} {noun} {where}: {self.reason.value}{whom}"


class _Note:
    """What is known of one group and one reason."""

    __slots__ = ("members", "others", "ranges", "span")

    def __init__(self) -> None:
        self.ranges = RangeSet()
        self.others = 0
        """Messages that are not in ``ranges``: they have no numbers, or too many ranges."""
        self.span: tuple[int, int] | None = None
        """First and last number of those that had too many ranges."""
        self.members: set[int] = set()

    def add(self, found: Unconfirmed, *, is_shared: bool) -> None:
        """Add messages; a note that several groups share counts them and knows no numbers."""
        self.members.update(found.members)
        numbered = RangeSet((first, last + 1) for first, last in found.ranges)
        if is_shared or numbered.count() != found.count:
            # Only how many they are can be said.
            self.others += found.count
            self._widen(numbered)
            return
        self.ranges = self.ranges.union(numbered)
        if self.ranges.range_count() > RANGES_MAX:
            self.others += self.ranges.count()
            self._widen(self.ranges)
            self.ranges = RangeSet()

    def _widen(self, ranges: RangeSet) -> None:
        if ranges:
            first, last = ranges.first(), ranges.last()
            if self.span is not None:
                first, last = min(first, self.span[0]), max(last, self.span[1])
            self.span = (first, last)

    def told(self, reason: Reason, node: int, group: str) -> Unconfirmed:
        ranges = tuple((start, stop - 1) for start, stop in self.ranges)
        if self.span is not None:
            first = min([self.span[0], *(start for start, _ in ranges)])
            last = max([self.span[1], *(end for _, end in ranges)])
            ranges = ((first, last),)
        members = tuple(sorted(self.members)[:MEMBERS_MAX])
        count = self.ranges.count() + self.others
        return Unconfirmed(reason, node, group, count, ranges if group else (), members)


class Notes:
    """What nobody can vouch for, until it is taken."""

    def __init__(self) -> None:
        self._notes: dict[tuple[Reason, int, str], _Note] = {}

    def __bool__(self) -> bool:
        return bool(self._notes)

    def add(self, found: Iterable[Unconfirmed]) -> None:
        for each in found:
            key = (each.reason, each.node, each.group)
            if key not in self._notes and len(self._notes) >= NOTES_MAX:
                key = (each.reason, 0, "")
            note = self._notes.get(key)
            if note is None:
                note = self._notes[key] = _Note()
            note.add(each, is_shared=not key[2])

    def take(self) -> tuple[Unconfirmed, ...]:
        """Return all of them, once."""
        notes, self._notes = self._notes, {}
        return tuple(note.told(*key) for key, note in notes.items())


Numbers = dict[int, RangeSet]
"""Sequence numbers of messages, by group."""


def numbers_in(
    streams: Iterable[SendStream], passed_over: Collection[tuple[int, int]] = ()
) -> Numbers:
    """Return the messages in packets that not all members have acknowledged.

    ``passed_over`` are messages, by group and number, of which only pieces were sent and
    which are sent anew.
    """
    found: Numbers = {}
    for stream in streams:
        for head in stream.packets.heads():
            for group, first, count in list_messages(head):
                if (group, first) not in passed_over:
                    found.setdefault(group, RangeSet()).add(first, first + count)
        for group, ranges in stream.packets.dropped.items():
            found[group] = ranges.union(found.get(group, RangeSet()))
    return found


def describe(
    reason: Reason,
    node: int,
    numbers: Numbers,
    names: Mapping[int, str],
    members: Iterable[int],
) -> list[Unconfirmed]:
    """Return messages as they are told: a note for each group, its numbers in few ranges."""
    told = tuple(sorted(set(members))[:MEMBERS_MAX])
    found = []
    for group, ranges in sorted(numbers.items()):
        pairs = [(start, stop - 1) for start, stop in ranges]
        if len(pairs) > RANGES_MAX:
            pairs = [(ranges.first(), ranges.last())]
        name = names.get(group, f"#{group}")
        found.append(Unconfirmed(reason, node, name, ranges.count(), tuple(pairs), told))
    return found
