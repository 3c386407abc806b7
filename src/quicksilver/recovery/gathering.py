"""Agents that gather reports apart from each other: what they have in common.

A leader begins a round, hears of members, and ends it once it has heard of all whom it does
not pass over. Who has not answered is asked again; who never does is passed over from then
on, and asked now and then whether it is back. Its followers wake it, or stand in for it::

    Following ── nobody leads ──> Due ── its time ──> Gathering ── all have reported ──┐
        ^                          ^                      │ late: others are passed over│
        └── who comes before leads │                      v                             v
                                   └──────── news ───── Quiet <──── nothing to agree on ┘

How the leader's word gets to members, and their reports to it, is what the kinds differ in:
``star``, ``tree``, ``gossip`` and ``requests`` fill in ``_begin``, ``_ask`` and what arrives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, assert_never

from quicksilver.recovery.agent import Message
from quicksilver.recovery.agent_base import AgentBase
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import (
    ASK_AGAIN_S,
    CALLS_MAX,
    SKIPPED_MAX,
    Counters,
    Due,
    Following,
    Quiet,
    Timing,
)
from quicksilver.recovery.rounds import (
    Content,
    Folding,
    Receipt,
    RoundEnd,
    Said,
    Token,
    Wake,
)


@dataclass(slots=True)
class Gathering(Generic[Content]):
    """Leads; a round is under way."""

    round: int
    begun_at: float
    ends_at: float
    """When those who have not reported are passed over …"""
    again_at: float
    """… and when they are asked again until then."""
    content: Content
    """All reports so far."""
    blank: Content
    """What members are told."""
    awaited: set[int]
    skipped: tuple[int, ...]
    """Who was passed over when it began."""
    due_at: float | None = None
    """When to hold another round all the same."""


class GatheringAgent(AgentBase[Content]):
    """The agent of one node in one domain."""

    rounds: Folding[Content]

    silence_share: ClassVar[float] = 0.0
    """For this part of a round's time the leader waits before it asks anybody again: where
    reports come by themselves."""

    def __init__(
        self,
        *,
        node: int,
        domain: Domain,
        rounds: Folding[Content],
        timing: Timing,
        counters: Counters,
    ) -> None:
        super().__init__(node=node, domain=domain, rounds=rounds, timing=timing, counters=counters)
        self.state: Following | Quiet | Due | Gathering[Content] = (
            Quiet() if domain.leader == node else Following()
        )
        self._places = {member: place for place, member in enumerate(domain.members)}
        self._outputs: dict[tuple[int, object], Message[Content]] = {}
        """To each member one message of a kind at most: a newer one takes its place."""

    # What the kinds differ in

    @abstractmethod
    def _begin(self, state: Gathering[Content], now: float) -> None:
        """Tell members of a round."""

    @abstractmethod
    def _ask(self, state: Gathering[Content], peers: Sequence[int], now: float) -> None:
        """Ask members again who have not reported, or who are passed over."""

    def _handle_own_timeout(self, now: float) -> None:
        """Do what else is due."""

    def _own_timeout(self) -> float | None:
        return None

    # Inputs

    def handle_news(self, now: float, *, urgent: bool) -> None:
        """There is something to agree on: have a round in due time, or at once."""
        interval = 0.0 if urgent else self._timing.interval_s
        due = max(now + interval, self._last_begun + self._timing.spacing_s)
        match self.state:
            case Following() as following:
                hurry_s = self._timing.trouble_interval_s / 2
                following.handle_news(now, hurry_s, urgent=urgent)
            case Quiet():
                self.state = Due(due)
            case Due() as state:
                state.at = min(state.at, due)
            case Gathering() as gathering:
                if gathering.due_at is None or due < gathering.due_at:
                    gathering.due_at = due
            case _:
                assert_never(self.state)

    def expect_token(self, now: float) -> None:
        """This node has news: unless there is a round, the leader is to be woken."""
        if isinstance(self.state, Following):
            self.state.expect_token(now, self._wake_s())

    def handle_wake(self, wake: Wake, now: float) -> None:
        """A member has news that may not have reached this node: ask around."""
        self._is_woken = True
        self.suspects.discard(wake.origin)
        self.handle_news(now, urgent=True)

    def handle_token(self, token: Token[Content], now: float) -> None:
        """Only some kinds have tokens."""

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        """Only some kinds have receipts."""

    def handle_message(self, message: Said[Content], now: float) -> None:
        """Only some kinds say more than that."""

    def handle_timeout(self, now: float) -> None:
        self._handle_own_timeout(now)
        match self.state:
            case Following() as following:
                self._handle_followers_timeout(following, now)
            case Quiet():
                pass
            case Due() as state:
                if now >= state.at:
                    self._hold_round(now)
            case Gathering() as gathering:
                if now >= gathering.ends_at:
                    self._give_up(gathering, now)
                elif now >= gathering.again_at:
                    gathering.again_at = now + self._again_s(gathering)
                    self._ask(gathering, self._in_order(gathering.awaited), now)
            case _:
                assert_never(self.state)

    def _handle_followers_timeout(self, state: Following, now: float) -> None:
        is_due = state.wake_at is not None and now >= state.wake_at
        if is_due and self._handle_unseen(state, now):
            self.state = Due(now)
            return
        if state.check_hurry(now):
            self._wake_leader()

    def _wake_leader(self) -> None:
        self._say(self.domain.leader, Wake, Wake(self.domain.name, self.node))

    # Outputs

    def next_timeout(self) -> float | None:
        due = self._own_timeout()
        match self.state:
            case Following() as following:
                mine = following.next_timeout()
            case Quiet():
                mine = None
            case Due() as state:
                mine = state.at
            case Gathering() as gathering:
                mine = min(gathering.again_at, gathering.ends_at)
            case _:
                assert_never(self.state)
        return mine if due is None or (mine is not None and mine < due) else due

    def passing_count(self) -> int:
        return 0

    def has_messages(self) -> bool:
        return bool(self._outputs)

    def poll_message(self, now: float) -> tuple[int, Message[Content]] | None:
        if not self._outputs:
            return None
        key = next(iter(self._outputs))
        return key[0], self._outputs.pop(key)

    def _say(self, peer: int, kind: object, message: Message[Content]) -> None:
        """Queue a message; one of the same kind to the same peer that waits is replaced."""
        self._outputs.pop((peer, kind), None)
        self._outputs[peer, kind] = message

    # Rounds

    def _hold_round(self, now: float) -> None:
        if not self.rounds.has_news() and not self.suspects and not self._is_woken:
            self.state = Quiet()
            return
        self._is_woken = False
        self._round += 1
        self._last_begun = now
        self._counters.tokens_released += 1
        content = self.rounds.open_round(now)
        state = self.state = Gathering(
            self._round,
            now,
            now + self._timeout_s(),
            now,
            content,
            self.rounds.blank(content),
            {peer for peer in self.domain.members if peer != self.node} - self.suspects,
            tuple(self._in_order(self.suspects)),
        )
        state.again_at = now + max(self._again_s(state), self.silence_share * (state.ends_at - now))
        self._begin(state, now)
        if self.suspects and now >= self._ask_again_at:
            self._ask_again_at = now + ASK_AGAIN_S
            self._ask(state, state.skipped, now)
        self._end_if_complete(now)

    def _fold(
        self, round_: int, members: Iterable[int], absent: Iterable[int], content: Content
    ) -> bool:
        """Take the report of members; return whether it is news for the round."""
        state = self.state
        members = set(members)
        if not isinstance(state, Gathering) or state.round != round_:
            self._is_early |= self._timing.learns_late and not self.suspects.isdisjoint(members)
            self.suspects -= members
            return False
        if not members <= state.awaited:
            # One who is passed over is back, and takes part in the next round.
            self.suspects -= members
            return False
        absent = set(absent) & state.awaited
        state.awaited -= members | absent
        state.content = self.rounds.merge(state.content, content)
        self._pass_over(absent)
        return True

    def _end_if_complete(self, now: float) -> None:
        state = self.state
        if isinstance(state, Gathering) and not state.awaited:
            self._round_s.note(now - state.begun_at)
            self._end(state, now)

    def _give_up(self, state: Gathering[Content], now: float) -> None:
        """Pass over those who have not reported, and end the round."""
        self._round_s.note(self._timeout_s() if self._is_early else 0.0)
        self._is_early = False
        self._pass_over(state.awaited)
        self._end(state, now)

    def _pass_over(self, members: set[int]) -> None:
        if members:
            self._counters.roll_calls += 1
            self.suspects |= members

    def _end(self, state: Gathering[Content], now: float) -> None:
        skipped = self._in_order({*state.skipped, *self.suspects})
        end = RoundEnd(self.node, tuple(skipped), now - state.begun_at)
        pace = self.rounds.close_round(state.content, end, now)
        self._tell_above(now)
        due_at = self._next_due(state.due_at, pace, now)
        self.state = Quiet() if due_at is None else Due(due_at)

    # Whom to wait for, and how long

    def _in_order(self, members: Iterable[int]) -> list[int]:
        return sorted(members, key=self._places.__getitem__)

    def _told_skipped(self, state: Gathering[Content]) -> tuple[int, ...]:
        return state.skipped[:SKIPPED_MAX]

    def _again_s(self, state: Gathering[Content]) -> float:
        return (state.ends_at - state.begun_at) / CALLS_MAX

    def _follow(self, leader: int, now: float) -> bool:
        """Somebody leads a round; return whether this node takes part in it."""
        if leader == self.node:
            return False
        if isinstance(self.state, Following):
            self.state.handle_seen(now, self._gap_s)
            return True
        if self._places[leader] > self._places[self.node]:
            # It stands in for this node, and gives way as soon as it hears of a round.
            self._is_woken = True
            self.handle_news(now, urgent=True)
            return False
        # The leader is back, or somebody before this node stands in for it.
        self.state = Following(seen_at=now, wake_at=now + self._wake_s())
        self.suspects.clear()
        self.rounds.handle_deposed()
        self._outputs.clear()
        return True
