"""What a node answers to requests for packets: each once in a while, and many at once.

A request that was answered a moment ago is not answered again: the repair is still under
way. When many nodes ask for the same packet within that time, it goes to the whole region
once, and whoever else asks for it has it already.
"""

from __future__ import annotations

import msgspec

from quicksilver.stdx.ranges import RangeSet

ANSWERED_S = 0.006
"""A packet is not sent to the same node again within this; less than the shortest time
after which a node asks again."""

REMEMBERED_MAX = 4096
"""Packets of one stream whose answers are remembered, as long as it matters."""

LOOKED_AT_MAX = 1024
"""Packets of one request that are answered."""

MANY_MIN = 3
MANY_PART = 4
"""A packet goes to all when a quarter of the region has asked for it, three nodes at least:
where links are switched, a repair that is not needed costs a receiver as much as one that
is."""


def many_of(members: int) -> int:
    """Return how many nodes of a region have to ask before all get a packet."""
    return max(MANY_MIN, members // MANY_PART)


class _Answer(msgspec.Struct):
    """To whom a packet was sent, lately."""

    since: float
    peers: set[int] = msgspec.field(default_factory=set)
    is_for_all: bool = False


class Answers:
    """What was answered lately, of one stream."""

    __slots__ = ("_answers", "_many")

    def __init__(self, members: int, *, has_multicast: bool) -> None:
        self._answers: dict[int, _Answer] = {}
        self._many = many_of(members) if has_multicast else members + 1

    def choose(self, peer: int, ranges: RangeSet, now: float) -> tuple[RangeSet, RangeSet]:
        """Return what to send to a node that asks, and what to send to all."""
        alone, for_all = RangeSet(), RangeSet()
        for sequence in ranges.values(LOOKED_AT_MAX):
            answer = self._answers.get(sequence)
            if answer is None or now - answer.since >= ANSWERED_S:
                answer = self._remember(sequence, now)
            if answer.is_for_all or peer in answer.peers:
                continue
            answer.peers.add(peer)
            if len(answer.peers) >= self._many:
                answer.is_for_all = True
                for_all.add(sequence, sequence + 1)
            else:
                alone.add(sequence, sequence + 1)
        return alone, for_all

    def note_sent_to_all(self, ranges: RangeSet, now: float) -> None:
        """Packets were sent to the whole region for another reason."""
        for sequence in ranges.values(LOOKED_AT_MAX):
            self._remember(sequence, now).is_for_all = True

    def _remember(self, sequence: int, now: float) -> _Answer:
        answers = self._answers
        answers.pop(sequence, None)
        # The oldest are first: what is put in again goes to the end.
        while answers:
            oldest = next(iter(answers))
            if now - answers[oldest].since < ANSWERED_S and len(answers) < REMEMBERED_MAX:
                break
            del answers[oldest]
        answer = answers[sequence] = _Answer(now)
        return answer
