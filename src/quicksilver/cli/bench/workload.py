"""What the benchmarked application does, the same for quicksilver and the ceiling.

One call a message, and in it the check that the message is the next one of its
group: order and completeness are measured, not assumed. In the end every
group's count must be the sender's.
"""

from __future__ import annotations

from collections.abc import Sequence


class Tally:
    """One receiver's application: counts messages, checks each group's order."""

    def __init__(self, groups: int) -> None:
        self.expected = [0] * groups
        self.disorders = 0

    @property
    def count(self) -> int:
        return sum(self.expected)

    def handle(self, place: int, sequence: int, payload: bytes) -> None:
        """The application's callback: one call a message."""
        expected = self.expected
        if sequence != expected[place]:
            self.disorders += 1
        expected[place] = sequence + 1

    def handle_run(self, place: int, first: int, payloads: list[bytes]) -> None:
        """Take consecutive messages of one group."""
        handle = self.handle
        for sequence, payload in enumerate(payloads, first):
            handle(place, sequence, payload)

    def handle_mixed(
        self, places: Sequence[int], sequences: Sequence[int], payloads: list[bytes]
    ) -> None:
        """Take messages of several groups."""
        handle = self.handle
        for place, sequence, payload in zip(places, sequences, payloads, strict=True):
            handle(place, sequence, payload)

    def missing(self, sent: Sequence[int]) -> int:
        """Return how many of the messages that were sent did not arrive."""
        return sum(max(0, s - n) for s, n in zip(sent, self.expected, strict=True))
