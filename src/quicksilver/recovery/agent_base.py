"""What agents of all kinds keep and do alike, whoever leads and however rounds are held.

``pacing`` has the states and times that they share. Here is what needs the agent as well: when
a follower wakes the leader or stands in for it, and when the next round is due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, assert_never

from quicksilver.recovery.agent import Upper
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import ASK_AGAIN_S, Counters, Following, Pauses, Step, Timing
from quicksilver.recovery.rounds import Content, Pace, Rounds


class AgentBase(ABC, Generic[Content]):
    """The agent of one node in one domain."""

    def __init__(
        self,
        *,
        node: int,
        domain: Domain,
        rounds: Rounds[Content],
        timing: Timing,
        counters: Counters,
    ) -> None:
        self.node = node
        self.domain = domain
        self.rounds = rounds
        self.above: Upper | None = None
        """The agent that speaks for this domain in the one above, if the node leads it."""
        self.suspects: set[int] = set()
        """Members that did not answer; rounds pass over them."""
        self._timing = timing
        self._round_s = Pauses()
        """How long rounds take."""
        self._gap_s = Pauses()
        """How far apart rounds are that come by."""
        self._counters = counters
        self._round = 0
        self._last_begun = -1.0
        """When this node last began a round."""
        self._ask_again_at = 0.0
        """When suspects are asked again."""
        self._is_woken = False
        """True when somebody said that there is news, which need not have come here."""
        self._is_early = False
        """True when something came that was taken for lost."""

    @abstractmethod
    def _wake_leader(self) -> None:
        """Tell the leader that there is news."""

    def _timeout_s(self) -> float:
        return self._round_s.late_s(self._timing.timeout_s_min, self._timing.timeout_s_max)

    def _wake_s(self) -> float:
        return self._gap_s.late_s(self._timing.wake_s_min, self._timing.timeout_s_max)

    def _handle_unseen(self, state: Following, now: float) -> bool:
        """It is time for a round: if none came, wake the leader; True: stand in for it."""
        if not self.rounds.has_news():
            state.wake_at = None
            return False
        rank = self.domain.members.index(self.node)
        step = state.check_unseen(now, self._wake_s(), rank)
        match step:
            case Step.WAIT:
                return False
            case Step.WAKE:
                self._wake_leader()
                return False
            case Step.STAND_IN:
                # Whoever comes before this node would have stood in by now.
                self.suspects.update(self.domain.members[:rank])
                self._ask_again_at = now + ASK_AGAIN_S
                return True
            case _:
                assert_never(step)

    def _tell_above(self, now: float) -> None:
        """A round has ended: its result is news for the domain above."""
        if self.above is not None:
            self.above.handle_news(now, urgent=True)
            self.above.expect_token(now)

    def _next_due(self, due_at: float | None, pace: Pace, now: float) -> float | None:
        """Return when the next round is due after one has ended; None: when there is news.

        ``due_at``: when it was due for other reasons.
        """
        if pace is Pace.QUIET and not self.suspects:
            return due_at
        timing = self._timing
        interval = timing.trouble_interval_s if pace is Pace.TROUBLED else timing.interval_s
        due = max(now, self._last_begun + interval)
        return due if due_at is None or due < due_at else due_at
