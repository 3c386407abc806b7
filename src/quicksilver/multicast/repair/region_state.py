"""A region's aggregated reports, stream by stream: what every member has, where it ends.

Tokens of several rings bring them with different age, so what only grows is kept at its
furthest, and where a dead sender's stream ends at its earliest.
"""

from __future__ import annotations

from typing import NamedTuple

from quicksilver.multicast.repair.reports import NOTHING_KEPT, Kept, earlier_cut

CUT_VOTES = 3
"""Rounds in which nobody held a dead sender's packet, before it counts as gone."""


class StreamState(NamedTuple):
    """What a region is known to have agreed on about one sender's stream."""

    stable: int = 0
    """Every member has all packets below this."""
    agreed: int = 0
    """Every member that is waited for has all packets below this."""
    kept: Kept = NOTHING_KEPT
    cut: int = -1
    """Where the stream of a dead sender ends; -1: not decided."""


UNKNOWN = StreamState()


class RegionState:
    """The state of all streams into one region view, by sender."""

    __slots__ = ("_states", "_votes")

    def __init__(self) -> None:
        self._states: dict[int, StreamState] = {}
        self._votes: dict[int, tuple[int, int]] = {}

    def of(self, sender: int) -> StreamState:
        """Return what is known of a sender's stream."""
        return self._states.get(sender, UNKNOWN)

    def count_ranges(self) -> int:
        """Return how many ranges all of it consists of; a stream has RANGES_MAX at most."""
        return sum(state.kept.lacking.range_count() for state in self._states.values())

    def learn(
        self, sender: int, stable: int, agreed: int, kept: Kept, cut: int, *, end: int
    ) -> StreamState:
        """Take what a token says; nothing past ``end`` is stable from this node's view."""
        known = self.of(sender)
        return self._note(
            sender,
            StreamState(
                min(max(stable, known.stable), end),
                max(agreed, known.agreed),
                known.kept.joined(kept),
                earlier_cut(cut, known.cut),
            ),
        )

    def conclude(self, sender: int, stable: int, agreed: int, kept: Kept) -> StreamState:
        """A round of the whole region is complete: take what it came to."""
        known = self.of(sender)
        state = StreamState(
            max(known.stable, stable),
            max(known.agreed, agreed),
            known.kept.joined(kept),
            known.cut,
        )
        return self._note(sender, state)

    def _note(self, sender: int, state: StreamState) -> StreamState:
        state.kept.lacking.discard_below(state.stable)
        self._states[sender] = state
        return state

    def vote_cut(self, sender: int, sequence: int) -> bool:
        """A round found nobody with a dead sender's packet; True when that ends its stream."""
        at, votes = self._votes.get(sender, (sequence, 0))
        votes = votes + 1 if at == sequence else 1
        self._votes[sender] = (sequence, votes)
        if votes < CUT_VOTES:
            return False
        known = self.of(sender)
        self._states[sender] = known._replace(cut=earlier_cut(sequence, known.cut))
        return True

    def forget_votes(self, sender: int) -> None:
        """A round wanted nothing of this sender."""
        self._votes.pop(sender, None)
