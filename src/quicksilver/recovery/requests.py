"""An agent whose peers talk to all at once, and ask all for what they lack (as in SRM).

Nothing circulates. The leader says to all that there is something to agree on; each member
says to all what it has, after a short random time, and everybody hears it: a session report.
Who finds that it lacks something asks all, after a random time and only if nobody else has;
who has it answers all in the same manner (``suppression``). Where a multicast reaches all, one
lost message costs about one question and one answer, however many members lost it::

    leader ──rumours──> all      A ──report──> all      B ──ask(7)──> all      A ──gift(7)──> all
                                                        C lacks 7 too, and stays silent

Members that the leader does not hear of it asks directly, with tokens, before it passes over
them. A member is *Idle*, or *Speaking* of one round: about to report, or done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.gathering import Gathering, GatheringAgent
from quicksilver.recovery.pacing import Counters, Timing
from quicksilver.recovery.rounds import (
    TO_ALL,
    Ask,
    Content,
    Folding,
    Gift,
    Report,
    Rumours,
    Said,
    Token,
)
from quicksilver.recovery.suppression import Requests
from quicksilver.stdx.rand import Rng

REPORT_SHARE = 0.25
"""Members report within this part of the time that a round may take, spread by chance."""


@dataclass(slots=True)
class Idle:
    """Knows of no round."""


@dataclass(slots=True)
class Speaking(Generic[Content]):
    """Knows of a round."""

    round: int
    leader: int
    content: Content
    """What the leader said."""
    report_at: float | None
    """When this member reports; None: it did."""


class RequestsAgent(GatheringAgent[Content]):
    """The agent of one node in one domain."""

    silence_share: ClassVar[float] = 1.4 * REPORT_SHARE

    def __init__(
        self,
        *,
        node: int,
        domain: Domain,
        rounds: Folding[Content],
        timing: Timing,
        counters: Counters,
        seed: int,
    ) -> None:
        super().__init__(node=node, domain=domain, rounds=rounds, timing=timing, counters=counters)
        self.part: Idle | Speaking[Content] = Idle()
        self._rng = Rng(seed).derive(f"requests {domain.name} {node}")
        self.requests = Requests(self._rng.derive("timers"))

    # The leader

    def _begin(self, state: Gathering[Content], now: float) -> None:
        self._say(
            TO_ALL,
            Rumours,
            Rumours(
                self.domain.name,
                state.round,
                self.node,
                self.node,
                self._told_skipped(state),
                state.blank,
                ((self.node, state.content),),
            ),
        )

    def _ask(self, state: Gathering[Content], peers: Sequence[int], now: float) -> None:
        skipped = self._told_skipped(state)
        name = self.domain.name
        for peer in peers:
            token = Token(name, state.round, self.node, self.node, skipped, state.blank)
            self._say(peer, Token, token)

    # Session reports

    def handle_token(self, token: Token[Content], now: float) -> None:
        """The leader has not heard of this member."""
        if token.content is not None and self._follow(token.leader, now):
            self._report(token.leader, token.round, token.content, token.leader, now)

    def handle_message(self, message: Said[Content], now: float) -> None:
        match message:
            case Rumours():
                if message.leader == message.origin and self._follow(message.leader, now):
                    spread = REPORT_SHARE * self._timing.timeout_s_min
                    at = now + spread * self._rng.uniform()
                    self.part = Speaking(message.round, message.leader, message.content, at)
                    for _, content in message.reports[:1]:
                        self._hear(content, message.origin, now)
            case Report():
                if message.leader == self.node:
                    self._fold(message.round, {message.origin}, (), message.content)
                    self._end_if_complete(now)
                self._hear(message.content, message.origin, now)
            case Ask():
                can_give = self.rounds.give(message.item, now) is not None
                self.requests.handle_ask(message.item, message.origin, now, can_give=can_give)
            case Gift():
                self.requests.handle_gift(message.item, message.origin, message.waited_s, now)
                self.rounds.take(message.item, message.content, message.origin, now)
                self._note_wanted(now)

    def _report(self, leader: int, round_: int, content: Content, to: int, now: float) -> None:
        content = self.rounds.visit(content, leader, now)
        self._note_wanted(now)
        self._say(to, Report, Report(self.domain.name, round_, leader, self.node, (), content))

    def _hear(self, content: Content, origin: int, now: float) -> None:
        """Take what another member reports; what follows for the round is the leader's task."""
        self.rounds.hear(content, origin, now)
        self._note_wanted(now)

    # Questions and answers

    def _note_wanted(self, now: float) -> None:
        self.requests.handle_wanted(self.rounds.wanted(), now)

    def _handle_own_timeout(self, now: float) -> None:
        part = self.part
        if isinstance(part, Speaking) and part.report_at is not None and now >= part.report_at:
            part.report_at = None
            self._report(part.leader, part.round, part.content, TO_ALL, now)
        due = self.requests.next_timeout()
        if due is None or now < due:
            return
        self._note_wanted(now)
        name = self.domain.name
        for item in self.requests.take_asks(now):
            self._say(TO_ALL, (Ask, item), Ask(name, self.node, item))
        for item, waited_s in self.requests.take_answers(now):
            content = self.rounds.give(item, now)
            if content is not None:
                gift = Gift(name, self.node, item, content, waited_s)
                self._say(TO_ALL, (Gift, item), gift)

    def _own_timeout(self) -> float | None:
        due = self.requests.next_timeout()
        part = self.part
        report_at = part.report_at if isinstance(part, Speaking) else None
        if report_at is None:
            return due
        return report_at if due is None or report_at < due else due
