"""How often senders are told, and that they are not all told at the same time."""

from __future__ import annotations

from quicksilver.multicast.repair.acknowledgements import SPACING_S_MAX, Acknowledgements
from quicksilver.wire.control import Ack

ROUND_S = 0.0018
SENDERS = range(1, 9)


def told(seconds: float) -> list[list[int]]:
    """Return who is acknowledged after each round of a busy region."""
    acknowledgements = Acknowledgements(0.05)
    rounds = []
    for step in range(int(seconds / ROUND_S)):
        news = Ack(
            cluster=1,
            origin=20,
            region=3,
            view=4,
            low=step,
            safe=step,
            laggard=0,
            front=step,
            high=step + 9,
            missing=(),
            missing_limit=step + 9,
            slowest=21,
            buffer_bytes=16 << 20,
            drops=0,
            senders=len(SENDERS),
            token_s=0.004,
            arrived_bytes=60_000 * step,
        )
        now = step * ROUND_S
        rounds.append([s for s in SENDERS if acknowledgements.is_news(news, s, now)])
    return rounds


def test_many_senders_are_told_after_a_few_rounds_each() -> None:
    """Each word takes processor time of the node that leads all."""
    count = sum(map(len, told(1.0)))
    assert 0.6 * len(SENDERS) / SPACING_S_MAX < count < 1.1 * len(SENDERS) / SPACING_S_MAX


def test_they_are_not_told_together() -> None:
    """They would send together, and tokens wait behind all of it. The first word is to all."""
    rounds = told(1.0)
    assert len(rounds[0]) == len(SENDERS)
    later = rounds[len(rounds) // 10 :]
    assert max(map(len, later)) < len(SENDERS)
    assert sum(len(each) > len(SENDERS) // 2 for each in later) < len(later) / 10
