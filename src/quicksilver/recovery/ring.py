"""An agent whose peers form a ring in which a token circulates (dissertation 4.2.1 C).

The leader releases a token when there is news, and another one whenever the last came
back and something is still to be agreed on. While packets or tokens get lost, members
confirm tokens to the one before (``hops``). If none comes back all the same, somebody on
the way is gone: the leader calls the roll and passes over those who do not answer, until
they do or the members change. It goes on asking them, while rounds go on without them. A
follower with news that sees no token wakes the leader, and stands in for it if that does
not help. How long to wait follows from how long rounds take: who is silent for several of
them is passed over, and to be passed over costs little.

The agent is sans IO: it is told of tokens, wakes and time, and asked with
``poll_message`` for what it has to say. Tokens are made at that moment, from the freshest
state there is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, assert_never

import msgspec

from quicksilver.recovery.agent import Message
from quicksilver.recovery.agent_base import AgentBase
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.hops import Hops
from quicksilver.recovery.pacing import (
    ASK_AGAIN_S,
    CALLS_MAX,
    ROUNDS_LATE,
    SKIPPED_MAX,
    Counters,
    Due,
    Following,
    Quiet,
    Timing,
)
from quicksilver.recovery.rounds import Content, Pace, Receipt, RoundEnd, Rounds, Said, Token, Wake

PASSING_MAX = 16
"""Tokens that wait to be passed on; a ring has a few under way at most."""

CONFIRMED_ROUNDS = 64
"""Rounds whose tokens are confirmed after one in which something was wrong."""

ROLL_S_MIN = 0.05
"""How long members have at least to answer when the roll is called."""


# What an agent is doing


class Circulating(msgspec.Struct):
    """Leads; tokens are under way."""

    released: dict[int, float] = msgspec.field(default_factory=dict)
    """Rounds that are not complete, and when they began; oldest first."""
    due_at: float | None = None
    """When to release another one all the same."""


class CallingRoll(msgspec.Struct):
    """Leads; a token was lost, and every member is asked by itself."""

    round: int
    begun_at: float
    ends_at: float
    again_at: float
    """When to ask those once more who have not answered: calls get lost as well."""
    answered: set[int] = msgspec.field(default_factory=set)


State = Following | Quiet | Due | Circulating | CallingRoll


# What it is about to say


class Call(msgspec.Struct, frozen=True):
    """A question to one member: are you there?"""

    peer: int
    round: int


@dataclass(frozen=True, slots=True)
class _Direct(Generic[Content]):
    """A receipt, or a token that is sent once more: ready, and for one member."""

    peer: int
    message: Receipt | Token[Content]


class RingAgent(AgentBase[Content]):
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
        super().__init__(node=node, domain=domain, rounds=rounds, timing=timing, counters=counters)
        self.state: State = Quiet() if domain.leader == node else Following()
        self._outputs: deque[Call | Wake | Token[Content] | _Direct[Content]] = deque()
        """Said before a new token; at most PASSING_MAX tokens of others, one roll, one wake,
        and to each of those tokens a receipt and a copy."""
        self._hops: Hops[Content] = Hops()
        self._rounds_to_confirm = 0
        """How many of the next rounds are confirmed, member by member."""
        self._wants_release = False
        """True while a token of its own is to leave as soon as the socket is ready."""

    # Inputs

    def handle_news(self, now: float, *, urgent: bool) -> None:
        """There is something to agree on: have a round in due time, or at once."""
        interval = 0.0 if urgent else self._timing.interval_s
        due = max(now + interval, self._last_begun + self._timing.spacing_s)
        match self.state:
            case Following() as following:
                hurry_s = self._timing.trouble_interval_s / 2
                following.handle_news(now, hurry_s, urgent=urgent)
            case CallingRoll():
                pass  # the end of the roll's business
            case Quiet():
                self.state = Due(due)
            case Due() as state:
                state.at = min(state.at, due)
            case Circulating() as state:
                state.due_at = due if state.due_at is None else min(state.due_at, due)
            case _:
                assert_never(self.state)

    def expect_token(self, now: float) -> None:
        """This node has news: unless a token comes by, the leader is to be woken."""
        state = self.state
        if isinstance(state, Following) and state.wake_at is None:
            state.expect_token(now, self._wake_s())

    def handle_wake(self, wake: Wake, now: float) -> None:
        """A member has news that may not have reached this node: ask around."""
        self._is_woken = True
        self.handle_news(now, urgent=True)

    def handle_token(self, token: Token[Content], now: float) -> None:
        """Take a token from a peer."""
        if isinstance(self.state, Following) and token.content is not None:
            self.state.handle_seen(now, self._gap_s)
        receipt: _Direct[Content] | None = None
        if token.is_confirmed:
            confirmed = Receipt(self.domain.name, self.node, token.leader, token.round)
            receipt = _Direct(token.origin, confirmed)
            if self._hops.is_copy(token, now):
                self._outputs.append(receipt)
                return
        if token.leader != self.node:
            if self._gives_way_to(token.leader) and not isinstance(self.state, Following):
                self._become_follower(now)
            if self.passing_count() < PASSING_MAX:
                self._outputs.append(token)
        elif token.content is None:
            self._handle_answer(token, now)
        elif isinstance(self.state, Circulating) and token.round in self.state.released:
            begun_at = self.state.released.pop(token.round)
            self._forget_overtaken(self.state, token.round)
            self._complete(token, now - begun_at, now)
        else:
            self._is_early = self._timing.learns_late
        if receipt is not None:
            # The token goes on first: it is what others wait for.
            self._outputs.append(receipt)

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        self._hops.handle_receipt(receipt.leader, receipt.round, receipt.origin, now)

    def handle_message(self, message: Said[Content], now: float) -> None:
        """No member of a ring says such a thing: it is from a domain that changed its kind."""

    def handle_timeout(self, now: float) -> None:
        if self._hops.has_any():
            for peer, token in self._hops.take_due(now):
                self._outputs.append(_Direct(peer, token))
        match self.state:
            case Following() as state:
                is_due = state.wake_at is not None and now >= state.wake_at
                if is_due and self._handle_unseen(state, now):
                    self.state = Due(now)
                if state.check_hurry(now):
                    self._wake_leader()
            case CallingRoll() as roll:
                if now >= roll.ends_at:
                    self._end_roll(roll, now)
                elif now >= roll.again_at:
                    self._call(roll, now)
            case Quiet() | Due() | Circulating() as leading:
                self._handle_leaders_timeout(leading, now)
            case _:
                assert_never(self.state)

    def _handle_leaders_timeout(self, state: Quiet | Due | Circulating, now: float) -> None:
        if self._is_lost(state, now):
            self._call_roll(now)
            return
        if self.suspects and now >= self._ask_again_at:
            self._ask_suspects(now)
        match state:
            case Quiet():
                pass
            case Due():
                if now >= state.at:
                    self.state = Circulating()
                    self._wants_release = True
            case Circulating():
                if state.due_at is not None and now >= state.due_at:
                    state.due_at = None
                    # With too many under way, the end of a round sets the next one.
                    self._wants_release = len(state.released) < self._timing.in_flight_max
            case _:
                assert_never(state)

    # Outputs

    def next_timeout(self) -> float | None:
        due = self._next_timeout()
        if not self._hops.has_any():
            return due
        again = self._hops.next_timeout()
        return again if due is None or (again is not None and again < due) else due

    def _next_timeout(self) -> float | None:
        state = self.state
        if isinstance(state, Following):
            # Asked for each of many agents, many times a round: a call here was 4 % of it.
            return state.wake_at if state.hurry_at is None else state.next_timeout()
        if isinstance(state, CallingRoll):
            return min(state.again_at, state.ends_at)
        due: float | None = None
        if isinstance(state, Due):
            due = state.at
        elif isinstance(state, Circulating):
            due = state.due_at
            if state.released:
                lost_at = next(iter(state.released.values())) + self._timeout_s()
                due = lost_at if due is None or lost_at < due else due
        elif not isinstance(state, Quiet):
            assert_never(state)
        if self.suspects and (due is None or self._ask_again_at < due):
            due = self._ask_again_at
        return due

    def passing_count(self) -> int:
        return sum(isinstance(output, Token) for output in self._outputs)

    def has_messages(self) -> bool:
        return bool(self._outputs) or self._wants_release

    def poll_message(self, now: float) -> tuple[int, Message[Content]] | None:
        """Return whom to send what, made from the state of this moment."""
        while self._outputs:
            output = self._outputs.popleft()
            match output:
                case Token():
                    return self._pass_on(output, now)
                case Wake():
                    return self.domain.leader, output
                case _Direct():
                    return output.peer, output.message
                case Call():
                    roll = Token[Content](
                        self.domain.name, output.round, self.node, self.node, (), None
                    )
                    return output.peer, roll
                case _:
                    assert_never(output)
        if self._wants_release:
            self._wants_release = False
            return self._release(now)
        return None

    # Rounds

    def _release(self, now: float) -> tuple[int, Token[Content]] | None:
        state = self.state
        if not isinstance(state, Circulating):
            return None
        if not self.rounds.has_news() and not self.suspects and not self._is_woken:
            if not state.released:
                self._become_scheduled(state.due_at)
            return None
        self._is_woken = False
        self._round += 1
        self._last_begun = now
        self._counters.tokens_released += 1
        token = Token(
            self.domain.name,
            self._round,
            self.node,
            self.node,
            tuple(sorted(self.suspects))[:SKIPPED_MAX],
            self.rounds.open_round(now),
            is_confirmed=self._rounds_to_confirm > 0,
        )
        self._rounds_to_confirm = max(0, self._rounds_to_confirm - 1)
        peer = self.domain.next_of(self.node, self.suspects)
        if peer == self.node:
            self._complete(token, 0.0, now)
            return None
        state.released[self._round] = now
        if token.is_confirmed:
            self._hops.handle_sent(peer, token, now)
        return peer, token

    def _forget_overtaken(self, state: Circulating, round_: int) -> None:
        """A token is back: older ones that are not were lost, and nobody is gone."""
        self._hops.handle_back(self.node, round_)
        overtaken = [number for number in state.released if number < round_]
        for number in overtaken:
            del state.released[number]
        if overtaken:
            self._rounds_to_confirm = CONFIRMED_ROUNDS

    def _pass_on(self, token: Token[Content], now: float) -> tuple[int, Token[Content]]:
        previous, token.origin = token.origin, self.node
        if token.content is None:
            return token.leader, token
        token.content = self.rounds.visit(token.content, previous, now)
        skipped = set(token.skipped) - {token.leader}
        peer = self.domain.next_of(self.node, skipped)
        if token.is_confirmed:
            self._hops.handle_sent(peer, token, now)
        return peer, token

    def _complete(self, token: Token[Content], seconds: float, now: float) -> None:
        """A token is back: its content is what the domain has to say."""
        assert token.content is not None
        self._round_s.note(seconds)
        end = RoundEnd(token.origin, token.skipped, seconds)
        pace = self.rounds.close_round(token.content, end, now)
        if pace is Pace.TROUBLED:
            self._rounds_to_confirm = CONFIRMED_ROUNDS
        self._tell_above(now)
        state = self.state
        assert isinstance(state, Circulating)
        due_at = self._next_due(state.due_at, pace, now)
        if state.released or self._wants_release:
            state.due_at = due_at
        else:
            self._become_scheduled(due_at)

    def _become_scheduled(self, due_at: float | None) -> None:
        """Nothing is under way: wait for a time, or for news."""
        self.state = Quiet() if due_at is None else Due(due_at)

    # A ring that does not answer

    def _is_lost(self, state: Quiet | Due | Circulating, now: float) -> bool:
        if not isinstance(state, Circulating) or not state.released:
            return False
        return now >= next(iter(state.released.values())) + self._timeout_s()

    def _call_roll(self, now: float) -> None:
        """A token is lost: ask every member by itself."""
        self._round += 1
        if self._is_early:
            self._is_early = False
            self._round_s.note(self._timeout_s())
        self._counters.roll_calls += 1
        self._rounds_to_confirm = CONFIRMED_ROUNDS
        self.state = roll = CallingRoll(self._round, now, now + self._timeout_s(), now)
        self._wants_release = False
        self._hops.forget()
        self._call(roll, now)

    def _call(self, roll: CallingRoll, now: float) -> None:
        """Ask those who have not answered."""
        roll.again_at = now + (roll.ends_at - roll.begun_at) / CALLS_MAX
        self._ask(peer for peer in self.domain.members if peer not in roll.answered)

    def _ask_suspects(self, now: float) -> None:
        """See whether somebody who is passed over is back; rounds do not wait for it."""
        self._ask_again_at = now + ASK_AGAIN_S
        self._ask(sorted(self.suspects))

    def _ask(self, peers: Iterable[int]) -> None:
        self._outputs = deque(o for o in self._outputs if not isinstance(o, Call))
        self._outputs += [Call(peer, self._round) for peer in peers if peer != self.node]

    def _handle_answer(self, token: Token[Content], now: float) -> None:
        state = self.state
        if not isinstance(state, CallingRoll) or token.round != state.round:
            self.suspects.discard(token.origin)
            return
        state.answered.add(token.origin)
        # Who takes many times as long as the others is passed over.
        usual_s = max(ROLL_S_MIN, ROUNDS_LATE * (now - state.begun_at))
        state.ends_at = min(state.begun_at + self._timeout_s(), state.begun_at + usual_s)
        if len(state.answered) == len(self.domain.members) - 1:
            self._end_roll(state, now)

    def _end_roll(self, roll: CallingRoll, now: float) -> None:
        """Pass over those who did not answer, and go on."""
        self.suspects = {peer for peer in self.domain.members if peer != self.node} - roll.answered
        self._ask_again_at = now + ASK_AGAIN_S
        self.state = Due(max(now, self._last_begun + self._timing.spacing_s))

    # A leader that does not answer

    def _wake_leader(self) -> None:
        if not any(isinstance(output, Wake) for output in self._outputs):
            self._outputs.append(Wake(self.domain.name, self.node))

    def _gives_way_to(self, leader: int) -> bool:
        """Whether another one turns the ring who comes before this node."""
        members = self.domain.members
        return members.index(leader) < members.index(self.node)

    def _become_follower(self, now: float) -> None:
        """The leader is back, or somebody before this node stands in for it: nothing of what
        this node began goes on."""
        self.state = Following(seen_at=now, wake_at=now + self._wake_s())
        self.suspects.clear()
        self.rounds.handle_deposed()
        self._hops.forget()
        self._wants_release = False
        self._outputs = deque(o for o in self._outputs if isinstance(o, Token))
