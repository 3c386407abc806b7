"""What a whole region is known to have said about each sender's stream.

Tokens of several rings carry these words with different age, so what only grows is
kept at its furthest, and where a dead sender's stream ends at its earliest.
"""

from __future__ import annotations

from typing import NamedTuple

from quicksilver.multicast.interfaces import earlier_cut

CUT_VOTES = 3
"""Rounds in which nobody held a dead sender's packet, before it counts as gone."""


class Words(NamedTuple):
    """Of one sender's stream."""

    stable: int = 0
    """Every member has all before."""
    kept: tuple[int, ...] = ()
    """Up to where each partition keeps its share, as flat pairs."""
    cut: int = -1
    """Where the stream of a dead sender ends; -1: not decided."""


NOTHING_SAID = Words()


class RegionWords:
    """The words of one region view, by sender."""

    __slots__ = ("_partitions", "_said", "_votes")

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._said: dict[int, Words] = {}
        self._votes: dict[int, tuple[int, int]] = {}

    def of(self, sender: int) -> Words:
        """Return what is known of a sender's stream."""
        return self._said.get(sender, NOTHING_SAID)

    def learn(
        self, sender: int, stable: int, kept: tuple[int, ...], cut: int, *, end: int
    ) -> Words:
        """Take what a token says; nothing past ``end`` is stable from this node's view."""
        known = self.of(sender)
        words = self._said[sender] = Words(
            min(max(stable, known.stable), end),
            self._furthest(known.kept, kept),
            earlier_cut(cut, known.cut),
        )
        return words

    def conclude(self, sender: int, stable: int, kept: tuple[int, ...]) -> Words:
        """A round of the whole region is complete: take what it came to."""
        known = self.of(sender)
        words = self._said[sender] = Words(
            max(known.stable, stable), self._furthest(known.kept, kept), known.cut
        )
        return words

    def _furthest(self, known: tuple[int, ...], news: tuple[int, ...]) -> tuple[int, ...]:
        """Return, for every partition, the most that either says it keeps.

        What a partition keeps only grows while the view lasts: the older news must
        not win, or a member waits forever for what others have long had.
        """
        if not news or news == known:
            return known
        kept = dict(zip(known[::2], known[1::2], strict=False))
        for partition, until in zip(news[::2], news[1::2], strict=False):
            if partition < self._partitions and until > kept.get(partition, 0):
                kept[partition] = until
        return tuple(number for pair in sorted(kept.items()) for number in pair)

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
