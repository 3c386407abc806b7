"""What a whole region is known to have said about each sender's stream.

Tokens of several rings carry these words with different age, so what only grows is
kept at its furthest, and where a dead sender's stream ends at its earliest.
"""

from __future__ import annotations

from quicksilver.multicast.interfaces import Kept, Words, earlier_cut

CUT_VOTES = 3
"""Rounds in which nobody held a dead sender's packet, before it counts as gone."""


NOTHING_SAID = Words()


class RegionWords:
    """The words of one region view, by sender."""

    __slots__ = ("_said", "_votes")

    def __init__(self) -> None:
        self._said: dict[int, Words] = {}
        self._votes: dict[int, tuple[int, int]] = {}

    def of(self, sender: int) -> Words:
        """Return what is known of a sender's stream."""
        return self._said.get(sender, NOTHING_SAID)

    def learn(self, sender: int, stable: int, kept: Kept, cut: int, *, end: int) -> Words:
        """Take what a token says; nothing past ``end`` is stable from this node's view."""
        known = self.of(sender)
        words = self._said[sender] = Words(
            min(max(stable, known.stable), end),
            known.kept.joined(kept),
            earlier_cut(cut, known.cut),
        )
        words.kept.lacking.discard_below(words.stable)
        return words

    def conclude(self, sender: int, stable: int, kept: Kept) -> Words:
        """A round of the whole region is complete: take what it came to."""
        known = self.of(sender)
        words = self._said[sender] = Words(
            max(known.stable, stable), known.kept.joined(kept), known.cut
        )
        words.kept.lacking.discard_below(words.stable)
        return words

    def vote_cut(self, sender: int, sequence: int) -> bool:
        """A round found nobody with a dead sender's packet; True when that ends its stream."""
        at, votes = self._votes.get(sender, (sequence, 0))
        votes = votes + 1 if at == sequence else 1
        self._votes[sender] = (sequence, votes)
        if votes < CUT_VOTES:
            return False
        known = self.of(sender)
        self._said[sender] = known._replace(cut=earlier_cut(sequence, known.cut))
        return True

    def forget_votes(self, sender: int) -> None:
        """A round wanted nothing of this sender."""
        self._votes.pop(sender, None)
