"""An agent whose peers tell each other what they have heard.

A leader's word and the reports of members spread as rumours: at every interval, each member
that knows of an open round tells ``fanout`` members, drawn by chance, the leader's word and
the reports that it knows of. The leader ends the round when it has a report of all. Nobody
waits for anybody, and no single member or link is needed on the way. A member stops telling
when it has heard nothing new for a while; the leader goes on as long as it gathers::

    leader ──rumours(L)──> A ──rumours(L, A)──> C ──rumours(L, A, C)──> leader
                             ──rumours(L, A)──> B ──...

A member is *Idle*, or *Telling* of one round. Tables have an entry for each member at most,
and a message ``REPORTS_SENT_MAX`` of them, drawn by chance if there are more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.gathering import Gathering, GatheringAgent
from quicksilver.recovery.pacing import Counters, Timing
from quicksilver.recovery.rounds import Content, Folding, Rumours, Said
from quicksilver.stdx.rand import Rng

REPORTS_SENT_MAX = 32
"""Reports in one message."""

INTERVALS_UNCHANGED = 8
"""A member that has heard nothing new for so many intervals stops telling."""

FANOUT_MAX = 64


@dataclass(slots=True)
class Idle:
    """Knows of no round."""


@dataclass(slots=True)
class Telling(Generic[Content]):
    """Knows of a round, and of some reports."""

    round: int
    leader: int
    skipped: tuple[int, ...]
    content: Content
    reports: dict[int, Content]
    tell_at: float
    unchanged: int = 0
    """Intervals since there was anything new; from ``INTERVALS_UNCHANGED`` on it is silent."""

    def is_silent(self) -> bool:
        return self.unchanged >= INTERVALS_UNCHANGED


class GossipAgent(GatheringAgent[Content]):
    """The agent of one node in one domain."""

    silence_share: ClassVar[float] = 0.5

    def __init__(
        self,
        *,
        node: int,
        domain: Domain,
        rounds: Folding[Content],
        timing: Timing,
        counters: Counters,
        fanout: int,
        seed: int,
    ) -> None:
        super().__init__(node=node, domain=domain, rounds=rounds, timing=timing, counters=counters)
        self.fanout = max(1, min(FANOUT_MAX, fanout))
        self.part: Idle | Telling[Content] = Idle()
        self._rng = Rng(seed).derive(f"gossip {domain.name} {node}")

    # The leader

    def _begin(self, state: Gathering[Content], now: float) -> None:
        skipped = self._told_skipped(state)
        self.part = Telling(state.round, self.node, skipped, state.blank, {}, now)
        self._tell(self.part, now)

    def _ask(self, state: Gathering[Content], peers: Sequence[int], now: float) -> None:
        """Tell some directly: who has told what it knows in vain begins again."""
        if isinstance(self.part, Telling):
            for peer in self._rng.sample(peers, min(self.fanout, len(peers))):
                self._say(peer, Rumours, self._rumours(self.part))

    # Rumours

    def handle_message(self, message: Said[Content], now: float) -> None:
        if not isinstance(message, Rumours) or message.leader not in self._places:
            return
        if message.leader == self.node:
            self._handle_own_round(message, now)
        elif self._follow(message.leader, now):
            self._handle_others_round(message, now)

    def _handle_own_round(self, message: Rumours[Content], now: float) -> None:
        self.suspects.discard(message.origin)
        if message.round > self._round:
            # Another host led for this member before, and its round is told of still.
            self._round = message.round
            if isinstance(self.state, Gathering):
                self._hold_round(now)
            return
        for member, content in message.reports:
            self._fold(message.round, {member}, (), content)
        self._end_if_complete(now)

    def _handle_others_round(self, message: Rumours[Content], now: float) -> None:
        part = self.part
        if not isinstance(part, Telling) or self._is_newer(message, part):
            content = message.content
            mine = {self.node: self.rounds.visit(content, message.leader, now)}
            at = part.tell_at if isinstance(part, Telling) and not part.is_silent() else now
            part = self.part = Telling(
                message.round, message.leader, message.skipped, content, mine, at
            )
        elif (part.leader, part.round) != (message.leader, message.round):
            if message.origin == message.leader:
                part.unchanged = 0  # a leader that forgot its rounds is to hear of this one
            return
        known = len(part.reports)
        for member, content in message.reports:
            if member in self._places:
                part.reports.setdefault(member, content)
        if len(part.reports) > known or (part.is_silent() and message.origin == message.leader):
            if part.is_silent():
                part.tell_at = now
            part.unchanged = 0

    def _is_newer(self, message: Rumours[Content], part: Telling[Content]) -> bool:
        if message.leader == part.leader:
            return message.round > part.round
        return self._places[message.leader] < self._places[part.leader] or part.is_silent()

    def _rumours(self, part: Telling[Content]) -> Rumours[Content]:
        reports = sorted(part.reports.items())
        if len(reports) > REPORTS_SENT_MAX:
            reports = self._rng.sample(reports, REPORTS_SENT_MAX)
        return Rumours(
            self.domain.name,
            part.round,
            part.leader,
            self.node,
            part.skipped,
            part.content,
            tuple(reports),
        )

    def _tell(self, part: Telling[Content], now: float) -> None:
        part.tell_at = now + self._timing.trouble_interval_s
        others = [peer for peer in self.domain.members if peer != self.node]
        for peer in self._rng.sample(others, min(self.fanout, len(others))):
            self._say(peer, Rumours, self._rumours(part))

    def _handle_own_timeout(self, now: float) -> None:
        part = self.part
        if not isinstance(part, Telling) or part.is_silent() or now < part.tell_at:
            return
        if part.leader == self.node:
            if not isinstance(self.state, Gathering):
                part.unchanged = INTERVALS_UNCHANGED
                return
        else:
            part.unchanged += 1
        self._tell(part, now)

    def _own_timeout(self) -> float | None:
        part = self.part
        return part.tell_at if isinstance(part, Telling) and not part.is_silent() else None
