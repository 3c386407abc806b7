"""How often a region tells a sender what it has.

A ring that waits for somebody turns a hundred times a second, and would say the same each
time. What is no news is repeated less and less often; should an acknowledgement be lost,
the sender repeats a packet, which is taken as a question.
"""

from __future__ import annotations

from quicksilver.wire.control import Ack

PAUSE_S_MAX = 0.4

SENDERS_AT_ONCE = 2
"""With more senders, each is told less often: every acknowledgement takes 40 µs of the
leader, and eight a round, 600 rounds a second, took a fifth of its time."""

SPACING_S = 0.0008
SPACING_S_MAX = 0.005
"""Between two acknowledgements, for each further sender, and at most."""


class Acknowledgements:
    """The last acknowledgement of every sender, and until when not to repeat it."""

    def __init__(self, pause_s: float) -> None:
        """``pause_s`` passes before the same is said for the second time."""
        self._pause_s = pause_s
        self._said: dict[int, tuple[tuple[object, ...], float, float]] = {}

    def is_news(self, ack: Ack, sender: int, now: float) -> bool:
        """Return whether to send an acknowledgement, and note it as sent if so."""
        content = (ack.low, ack.high, ack.missing, ack.missing_limit, ack.buffer_bytes, ack.senders)
        said, until, pause = self._said.get(sender, ((), 0.0, 0.0))
        further = ack.senders - SENDERS_AT_ONCE
        if further > 0 and said and ack.low < ack.high and not ack.drops:
            # More is to come, and with it another round.
            told_at = until - pause
            if now < told_at + min(SPACING_S * further, SPACING_S_MAX):
                return False
        if content != said or ack.drops:
            pause = self._pause_s
        elif now < until:
            return False
        else:
            pause = min(2 * pause, PAUSE_S_MAX)
        self._said[sender] = (content, now + pause, pause)
        return True

    def forget(self, sender: int) -> None:
        """The sender may not have heard the last one: send the next, even if it is the same."""
        self._said.pop(sender, None)
