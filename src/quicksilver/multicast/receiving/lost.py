"""Which missing packets of a stream are lost, and which of them were asked for.

A packet that others have overtaken may only be late: it is waited for a moment before
it counts as lost. Whoever asks for it notes that here, so that it is not asked for again
while the answer is under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quicksilver.stdx.ranges import RangeSet

GONE_S = 0.2
"""How long peers may still have what a sender says it no longer has."""

REORDERED_S = 0.002
"""A packet that others have overtaken is waited for so long before it is asked for."""

IN_ORDER_ASKED_MAX = 32
"""Packets asked for without room for them, in the hope that they come in order."""

ASKED_MAX = 2048
"""Missing packets that may be asked for at once, the first ones; of each it is noted when."""

UNKEPT_LOOKED_AT_MAX = 256
"""Missing packets of which it is looked up who is to keep them, in one round."""


class Request(NamedTuple):
    """A packet that was asked for and has not come."""

    again_at: float
    """Not before this is it asked for again."""
    tries: int
    asked_at: float
    """When it was last asked for."""


class LostPackets:
    """What is known of one stream's missing packets besides their numbers."""

    __slots__ = ("_gone_since", "_overtaken", "_stuck_since", "below", "requested")

    def __init__(self) -> None:
        self.below = 0
        """Missing packets below are lost; later ones may only be late."""
        self.requested: dict[int, Request] = {}
        """Packets asked for; every one of them is missing."""
        self._overtaken: deque[tuple[float, int]] = deque()
        """Until when packets below a number are waited for; at most those of the time that
        late ones are waited for, or until somebody looks."""
        self._stuck_since = (-1, 0.0)
        """The next packet and since when it is missing, as far as ``is_stuck`` was asked."""
        self._gone_since = (-1, 0.0)
        """The next packet and since when its sender says that it no longer has it."""

    def handle_overtaken(self, sequence: int, lost_at: float) -> None:
        """A packet overtook others: those that have not come by then are lost."""
        self._overtaken.append((lost_at, sequence))

    def next_lost(self, now: float) -> float | None:
        """Count as lost what has been late for too long; return when more may be."""
        overtaken = self._overtaken
        while overtaken and overtaken[0][0] <= now:
            self.below = max(self.below, overtaken.popleft()[1])
        return overtaken[0][0] if overtaken else None

    def unrequested(self, askable: RangeSet, now: float) -> RangeSet:
        """Return what of ``askable`` is lost and not under way."""
        self.next_lost(now)
        lost = askable.clamped(0, self.below)
        if not self.requested:
            return lost
        under_way = RangeSet(
            (s, s + 1) for s, r in sorted(self.requested.items()) if r.again_at > now
        )
        return lost.difference(under_way)

    def forget_requests_from(self, end: int) -> None:
        """Packets from here on do not exist: nobody waits for them."""
        self.requested = {s: request for s, request in self.requested.items() if s < end}

    def is_stuck(self, low: int, seconds: float, now: float, *, is_missing: bool) -> bool:
        """Whether ``low``, the next packet, is missing and nothing helped for so long."""
        known, since = self._stuck_since
        if known != low or not is_missing:
            self._stuck_since = (low, now)
            return False
        return now - since >= seconds

    def is_gone(self, low: int, now: float) -> bool:
        """The sender no longer has ``low``, the next packet; return whether nobody does.

        Peers may still help for ``GONE_S`` after the first time that it says so.
        """
        if self._gone_since[0] != low:
            self._gone_since = (low, now)
        return now - self._gone_since[1] >= GONE_S


def find_askable(
    missing: RangeSet,
    low: int,
    takeable: tuple[int, int],
    *,
    is_held: bool,
    is_kept_by_all: bool,
) -> RangeSet:
    """Return what is missing and could be taken: the next packets, and what fits.

    Whoever asks for more gets it again and again. The next ones need no room as long as
    they come in order and nothing older is waited for (``is_held``). ``low`` is the next
    packet, ``takeable`` how many find room wherever they are, and how many near it.
    """
    anywhere, near = (min(count, ASKED_MAX) for count in takeable)
    if missing.count() <= anywhere:
        return missing
    end = low if is_held else low + 1 + near
    if anywhere:
        end = max(end, missing.values(anywhere)[-1] + 1)
    start, stop = next(iter(missing))
    if is_kept_by_all and not is_held and start == low:
        # Whoever is asked has them all, and sends them in order.
        end = max(end, min(stop, start + IN_ORDER_ASKED_MAX))
    return missing.clamped(0, end)


def find_unkept(missing: RangeSet, is_mine_to_keep: Callable[[int], bool]) -> RangeSet:
    """Return what is missing and this node's to keep.

    Of a long backlog only the first packets are looked up; the rest counts as this
    node's, whoever's it is. Others then wait a little longer before they ask for it,
    where a limit would stop them from asking anybody for anything newer.
    """
    looked_at = missing.values(UNKEPT_LOOKED_AT_MAX)
    unkept = RangeSet((s, s + 1) for s in looked_at if is_mine_to_keep(s))
    if len(looked_at) == UNKEPT_LOOKED_AT_MAX:
        unkept = unkept.union(missing.clamped(looked_at[-1] + 1, missing.last() + 1))
    return unkept
