"""How often a region tells a sender what it has.

A ring that waits for somebody turns a hundred times a second, and would say the same each
time. What is no news is repeated less and less often; should an acknowledgement be lost,
the sender repeats a packet, which is taken as a question.
"""

from __future__ import annotations

from quicksilver.wire.control import Ack

PAUSE_S_MAX = 0.1
"""Senders believe others once a leader has been silent for longer (``stand_in_s``)."""

SPACING_S = 0.002
SPACING_S_MAX = 0.005
"""Between two acknowledgements, for each further sender, and at most. Each takes 40 µs of
the leader: for eight senders after every round, 600 rounds a second, a fifth of its time."""

SPACING_BUFFER_BYTES_MIN = 8 << 20
"""With smaller receive buffers, senders need every acknowledgement to go on."""


class Acknowledgements:
    """The last acknowledgement of every sender, and until when not to repeat it."""

    def __init__(self, pause_s: float) -> None:
        """``pause_s`` passes before the same is said for the second time."""
        self._pause_s = pause_s
        self._said: dict[int, tuple[tuple[object, ...], float, float]] = {}

    def is_news(self, ack: Ack, sender: int, now: float) -> bool:
        """Return whether to send an acknowledgement, and note it as sent if so."""
        content = (
            ack.low,
            ack.safe,
            ack.laggard,
            ack.high,
            ack.missing,
            ack.missing_limit,
            ack.buffer_bytes,
            ack.senders,
        )
        said, until, pause = self._said.get(sender, ((), 0.0, 0.0))
        if said and not ack.drops and now < until - pause + self._spacing_s(ack):
            return False
        if content != said or ack.drops:
            pause = self._pause_s
        elif now < until:
            return False
        else:
            pause = min(2 * pause, PAUSE_S_MAX)
        self._said[sender] = (content, now + pause, pause)
        return True

    def _spacing_s(self, ack: Ack) -> float:
        """How long a sender can wait; more is to come, and with it another round."""
        if ack.low >= ack.high or ack.buffer_bytes < SPACING_BUFFER_BYTES_MIN:
            return 0.0
        return min(SPACING_S * (ack.senders - 1), SPACING_S_MAX)

    def forget(self, sender: int) -> None:
        """The sender may not have heard the last one: send the next, even if it is the same."""
        self._said.pop(sender, None)
