"""What the benchmarked application does, the same for quicksilver and the ceiling.

Receivers get one call a message. Order and completeness are checked from the
sequence numbers that the application sees: every batch must begin where the
last one of its group ended, and in the end every group's count must be the
sender's.
"""

from __future__ import annotations

from collections.abc import Sequence


class Tally:
    """One receiver's application: counts messages, checks each group's order."""

    def __init__(self, groups: int) -> None:
        self.expected = [0] * groups
        self.count = 0
        self.bytes = 0
        self.disorders = 0

    def handle(self, payload: bytes) -> None:  # noqa: ARG002  # counting is all it does
        """The application's callback: one call a message."""
        self.count += 1

    def handle_run(self, place: int, first: int, payloads: list[bytes]) -> None:
        """Take consecutive messages of one group."""
        expected = self.expected
        if first != expected[place]:
            self.disorders += 1
        expected[place] = first + len(payloads)
        handle = self.handle
        for payload in payloads:
            handle(payload)
        self.bytes += len(payloads) * len(payloads[0])

    def handle_mixed(
        self, places: Sequence[int], sequences: Sequence[int], payloads: list[bytes]
    ) -> None:
        """Take messages of several groups."""
        expected = self.expected
        handle = self.handle
        for place, sequence, payload in zip(places, sequences, payloads, strict=True):
            if sequence != expected[place]:
                self.disorders += 1
            expected[place] = sequence + 1
            handle(payload)
        self.bytes += len(payloads) * len(payloads[0])

    def missing(self, sent: Sequence[int]) -> int:
        """Return how many of the messages that were sent did not arrive."""
        return sum(max(0, s - n) for s, n in zip(sent, self.expected, strict=True))
