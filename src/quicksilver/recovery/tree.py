"""An agent whose peers form a tree (RMTP; dissertation 3.2.12, Figures 3.28 and 3.29).

The leader is the root; members stand below each other in their order, ``fanout`` children
each, and those who are passed over have no place. A round goes down as tokens and comes back
as reports, folded on the way, so that a member talks to ``fanout`` others and to its parent,
however many there are::

    leader ──token──> A ──token──> C          C ──report──> A ──report(A, C, D)──> leader
                        ──token──> D          D ──report──┘

A member that asks others confirms its token at once. One of which neither that nor a report
comes, though it is asked again and again, is silent: whoever asked it asks its children in its
stead, and tells the leader that it is absent. Such a member is in one of these states::

    Idle ── token ──> Collecting ── all children reported, or are silent ──> Reported
                          ^                                                      │
                          └──────────────── token of another round ──────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.gathering import Gathering, GatheringAgent
from quicksilver.recovery.pacing import CALLS_MAX, Counters, Timing
from quicksilver.recovery.rounds import Content, Folding, Receipt, Report, Said, Token
from quicksilver.stdx.patience import Patience

SILENT_CALLS = CALLS_MAX
"""Tokens that a member leaves without an answer before its children are asked instead."""

CALLS_SPARED = CALLS_MAX // 2
"""A member that has confirmed its token is given the time of so many calls."""

LATE_MAX = 8
"""So many answers in a row to questions that were asked twice: answers take longer than that."""

FANOUT_MAX = 64


@dataclass(slots=True)
class Idle:
    """Nobody has asked yet."""


@dataclass(slots=True)
class Asked:
    """A member that is asked for its report."""

    at: float
    """When it was asked first."""
    calls: int = 0
    """How often it was asked since it was last heard of. Below zero: how long to wait."""
    is_timed: bool = True
    """True while it was asked once: how long an answer takes can be told."""


@dataclass(slots=True)
class Collecting(Generic[Content]):
    """The token was passed on, and the reports of some children have not come."""

    token: Token[Content]
    """As it came: its origin is the parent."""
    content: Content
    """This member's report, and those of children that came."""
    absent: set[int]
    asked: dict[int, Asked]
    """Who has not reported."""
    again_at: float
    ends_at: float
    """The leader has ended the round by then."""


@dataclass(slots=True)
class Reported(Generic[Content]):
    """All is said; it is said again if it got lost."""

    report: Report[Content]


class TreeAgent(GatheringAgent[Content]):
    """The agent of one node in one domain."""

    def __init__(
        self,
        *,
        node: int,
        domain: Domain,
        rounds: Folding[Content],
        timing: Timing,
        counters: Counters,
        fanout: int,
    ) -> None:
        super().__init__(node=node, domain=domain, rounds=rounds, timing=timing, counters=counters)
        self.fanout = max(1, min(FANOUT_MAX, fanout))
        self.part: Idle | Collecting[Content] | Reported[Content] = Idle()
        """This node's part in the round of another one, or, while it leads, in its own."""
        self._late = 0
        least_s = timing.timeout_s_min / (2 * CALLS_MAX)
        most_s = timing.timeout_s_max / SILENT_CALLS
        self._answer_s = Patience(2 * least_s, least_s=least_s, most_s=max(least_s, most_s))

    # The leader

    def _begin(self, state: Gathering[Content], now: float) -> None:
        token = self._token(state)
        self.part = Collecting(token, state.content, set(), {}, now, state.ends_at)
        self._ask_children(self.part, self.node, now)
        self._report_if_complete(now)

    def _ask(self, state: Gathering[Content], peers: Sequence[int], now: float) -> None:
        """Members ask each other again; only those without a place in the tree are left."""
        for peer in peers:
            if peer in state.skipped:
                self._say(peer, Token, self._token(state))

    def _token(self, state: Gathering[Content]) -> Token[Content]:
        skipped = self._told_skipped(state)
        return Token(self.domain.name, state.round, self.node, self.node, skipped, state.blank)

    # Tokens on their way down

    def _children(self, member: int, token: Token[Content]) -> list[int]:
        skipped = set(token.skipped) - {token.leader}
        members = [token.leader]
        members += [m for m in self.domain.members if m not in skipped and m != token.leader]
        if member not in members:
            return []
        first = self.fanout * members.index(member) + 1
        return members[first : first + self.fanout]

    def handle_token(self, token: Token[Content], now: float) -> None:
        if token.content is None or not self._follow(token.leader, now):
            return
        name = self.domain.name
        part = self.part
        if isinstance(part, Reported) and _is_same_round(part.report, token):
            self._say(token.origin, Report, part.report)
            return
        if isinstance(part, Collecting) and _is_same_round(part.token, token):
            # Whoever asks last gets the report: a grandparent, if the parent fell silent.
            part.token = token
        else:
            content = self.rounds.visit(token.content, token.origin, now)
            ends_at = now + self._timing.timeout_s_max
            part = Collecting(token, content, set(), {}, now, ends_at)
            self.part = part
            self._ask_children(part, self.node, now)
            self._report_if_complete(now)
        if isinstance(self.part, Collecting):
            receipt = Receipt(name, self.node, token.leader, token.round)
            self._say(token.origin, Receipt, receipt)

    def _ask_children(self, part: Collecting[Content], parent: int, now: float) -> None:
        for child in self._children(parent, part.token):
            part.asked[child] = Asked(now)
            self._pass_down(part, child)
        part.again_at = now + self._answer_s.seconds

    def _pass_down(self, part: Collecting[Content], child: int) -> None:
        token = part.token
        passed = Token(
            token.domain, token.round, token.leader, self.node, token.skipped, token.content
        )
        asked = part.asked[child]
        asked.calls += 1
        asked.is_timed = asked.is_timed and asked.calls == 1
        self._say(child, Token, passed)

    def _handle_answer(self, asked: Asked, now: float) -> None:
        if asked.is_timed:
            asked.is_timed = False
            self._late = 0
            self._answer_s.note(now - asked.at, now)
        elif asked.calls > 1:
            self._late += 1
            if self._late >= LATE_MAX:
                self._answer_s.back_off(now)

    # Reports on their way up

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        part = self.part
        if not isinstance(part, Collecting) or not _is_same_round(part.token, receipt):
            return
        asked = part.asked.get(receipt.origin)
        if asked is not None:
            self._handle_answer(asked, now)
            asked.calls = -CALLS_SPARED

    def handle_message(self, message: Said[Content], now: float) -> None:
        if not isinstance(message, Report):
            return
        part = self.part
        if (
            isinstance(part, Collecting)
            and _is_same_round(part.token, message)
            and message.origin in part.asked
        ):
            asked = part.asked.pop(message.origin)
            if not self._children(message.origin, part.token):
                self._handle_answer(asked, now)
            part.content = self.rounds.merge(part.content, message.content)
            part.absent |= set(message.absent) & set(self.domain.members)
            self._report_if_complete(now)
        elif message.leader == self.node:
            self.suspects.discard(message.origin)

    def _report_if_complete(self, now: float) -> None:
        part = self.part
        if not isinstance(part, Collecting) or part.asked:
            return
        token = part.token
        absent = tuple(self._in_order(part.absent))
        name = self.domain.name
        report = Report(name, token.round, token.leader, self.node, absent, part.content)
        self.part = Reported(report)
        if token.leader != self.node:
            self._say(token.origin, Report, report)
            return
        state = self.state
        if isinstance(state, Gathering) and state.round == token.round:
            state.content = part.content
            state.awaited.clear()
            self._pass_over(part.absent)
            self._end_if_complete(now)

    def _handle_own_timeout(self, now: float) -> None:
        part = self.part
        if not isinstance(part, Collecting) or now < min(part.again_at, part.ends_at):
            return
        if now >= part.ends_at:
            if part.token.leader == self.node and isinstance(self.state, Gathering):
                self.state.content = part.content
                self.state.awaited = self._unheard(part)
            self.part = Idle()
            return
        part.again_at = now + self._answer_s.seconds
        for child, asked in list(part.asked.items()):
            if asked.calls < 0:
                asked.calls += 1
            elif asked.calls < SILENT_CALLS:
                self._pass_down(part, child)
            else:
                # It is silent: its children are asked in its stead.
                del part.asked[child]
                part.absent.add(child)
                self._ask_children(part, child, now)
        self._report_if_complete(now)

    def _unheard(self, part: Collecting[Content]) -> set[int]:
        """Return whose reports are not in what was collected: subtrees, and the absent."""
        unheard = set(part.absent)
        below = list(part.asked)
        while below:
            member = below.pop()
            unheard.add(member)
            below += self._children(member, part.token)
        return unheard

    def _own_timeout(self) -> float | None:
        part = self.part
        return min(part.again_at, part.ends_at) if isinstance(part, Collecting) else None


def _is_same_round(
    one: Token[Content] | Report[Content] | Receipt,
    other: Token[Content] | Report[Content] | Receipt,
) -> bool:
    return one.round == other.round and one.leader == other.leader
