"""A second protocol on the seam: every member learns the smallest of all members' values.

It shares nothing with the repair of packets but the rounds. Each domain's rounds gather
the minimum of what its members speak for; the domain at the top announces the result,
which travels down with the next rounds. A network of lists and a virtual clock drive it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain, Hierarchy
from quicksilver.recovery.ring import RingAgent, Timing
from quicksilver.recovery.rounds import Pace, Receipt, RoundEnd, Rounds, Token, Wake
from quicksilver.recovery.stack import AgentStack
from quicksilver.stdx.rand import Rng

TIMING = Timing(
    interval_s=0.05,
    trouble_interval_s=0.01,
    spacing_s=0.001,
    timeout_s_min=0.1,
    timeout_s_max=0.25,
    wake_s_min=0.06,
    in_flight_max=2,
)
DELAY_S = 0.001


@dataclass(slots=True)
class Minimum:
    """What a token carries."""

    gathered: int
    members: int
    """How many nodes' values are in ``gathered``."""
    announced: tuple[int, int]
    """The number of an announcement, and the minimum of all that it announces."""


class Member:
    """One node: its value, and what it was told."""

    def __init__(self, node: int, value: int, star_level: int) -> None:
        self.node = node
        self.star_level = star_level
        self.value = value
        self.announced = (0, 0)
        self.is_down = False
        self.tokens_released = 0
        self.roll_calls = 0
        self.stack: AgentStack[Minimum] = AgentStack()

    def make_agent(self, domain: Domain) -> Agent[Minimum]:
        rounds = MinimumRounds(self, is_top=domain.parent is None)
        if domain.name[0] == self.star_level:
            return StarAgent(self.node, domain, rounds)
        return RingAgent(node=self.node, domain=domain, rounds=rounds, timing=TIMING, counters=self)

    def learn(self, announced: tuple[int, int]) -> None:
        self.announced = max(self.announced, announced)


class MinimumRounds(Rounds[Minimum]):
    def __init__(self, member: Member, *, is_top: bool) -> None:
        self._member = member
        self._is_top = is_top
        self.agreed: tuple[int, int] | None = None
        """Minimum of the domain, and of how many nodes."""

    def _report(self) -> tuple[int, int]:
        if self.below is None:
            return self._member.value, 1
        assert isinstance(self.below, MinimumRounds)
        return self.below.agreed or (1 << 62, 0)

    def has_news(self) -> bool:
        return True

    def open_round(self, now: float) -> Minimum:
        value, members = self._report()
        return Minimum(value, members, self._member.announced)

    def visit(self, content: Minimum, previous: int, now: float) -> Minimum:
        self._member.learn(content.announced)
        value, members = self._report()
        return Minimum(
            min(content.gathered, value),
            content.members + members,
            max(content.announced, self._member.announced),
        )

    def close_round(self, content: Minimum, end: RoundEnd, now: float) -> Pace:
        self._member.learn(content.announced)
        if not end.skipped:
            self.agreed = (content.gathered, content.members)
            if self._is_top:
                self._member.learn((self._member.announced[0] + 1, content.gathered))
        return Pace.STEADY


class StarAgent:
    """Another way to hold rounds: the leader sends each member a token of its own."""

    def __init__(self, node: int, domain: Domain, rounds: MinimumRounds) -> None:
        self.node = node
        self.domain = domain
        self.rounds: Rounds[Minimum] = rounds
        self.above: Agent[Minimum] | None = None
        self._due_at: float | None = None
        self._round = 0
        self._gathered: Minimum | None = None
        self._awaited: set[int] = set()
        self._outputs: list[tuple[int, Message[Minimum]]] = []

    def handle_news(self, now: float, *, urgent: bool) -> None:
        if self.node == self.domain.leader and self._due_at is None:
            self._due_at = now + (0.0 if urgent else TIMING.interval_s)

    def expect_token(self, now: float) -> None:
        pass  # its leader asks again and again

    def handle_wake(self, wake: Wake, now: float) -> None:
        self.handle_news(now, urgent=True)

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        pass  # it asks for none

    def handle_timeout(self, now: float) -> None:
        if self._due_at is None or now < self._due_at:
            return
        self._due_at = now + TIMING.interval_s
        self._round += 1
        self._gathered = self.rounds.open_round(now)
        self._awaited = set(self.domain.members) - {self.node}
        announced = self._gathered.announced
        for peer in sorted(self._awaited):
            empty = Minimum(1 << 62, 0, announced)
            token = Token(self.domain.name, self._round, self.node, self.node, (), empty)
            self._outputs.append((peer, token))
        self._end_if_complete(now)

    def handle_token(self, token: Token[Minimum], now: float) -> None:
        content = token.content
        assert content is not None
        if token.leader != self.node:
            origin, token.origin = token.origin, self.node
            token.content = self.rounds.visit(content, origin, now)
            self._outputs.append((token.leader, token))
        elif token.round == self._round and token.origin in self._awaited:
            self._awaited.discard(token.origin)
            assert self._gathered is not None
            self._gathered = Minimum(
                min(self._gathered.gathered, content.gathered),
                self._gathered.members + content.members,
                max(self._gathered.announced, content.announced),
            )
            self._end_if_complete(now)

    def _end_if_complete(self, now: float) -> None:
        if not self._awaited and self._gathered is not None:
            self.rounds.close_round(self._gathered, RoundEnd(self.node, (), 0.0), now)
            self._gathered = None
            if self.above is not None:
                self.above.handle_news(now, urgent=True)

    def next_timeout(self) -> float | None:
        return self._due_at

    def has_messages(self) -> bool:
        return bool(self._outputs)

    def poll_message(self, now: float) -> tuple[int, Message[Minimum]] | None:
        return self._outputs.pop(0) if self._outputs else None


class World:
    """Members, the messages between them, and time."""

    def __init__(
        self, values: list[int], *, size: int = 3, loss: float = 0.0, star_level: int = -1
    ) -> None:
        """``star_level``: domains of this level ask in a star, all others in rings."""
        self.now = 0.0
        self.size = size
        self.loss = loss
        self.rng = Rng(7)
        self.members = {
            node: Member(node, value, star_level) for node, value in enumerate(values, 1)
        }
        self.failed: frozenset[int] = frozenset()
        self.flight: list[tuple[float, int, Message[Minimum]]] = []
        self.messages = 0
        self.place()
        for member in self.members.values():
            member.stack.handle_news(self.now)

    def place(self) -> None:
        hierarchy = Hierarchy(tuple(self.members), self.size, self.failed)
        for node, member in self.members.items():
            if node not in self.failed:
                member.stack.become_placed(hierarchy.domains_of(node), member.make_agent)

    def fail(self, *nodes: int) -> None:
        """The membership says that nodes are gone."""
        self.failed |= frozenset(nodes)
        self.place()
        for member in self.alive():
            member.stack.handle_news(self.now)

    def alive(self) -> list[Member]:
        return [m for n, m in self.members.items() if n not in self.failed and not m.is_down]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            times = [at for at, _, _ in self.flight]
            times += [t for m in self.alive() if (t := m.stack.next_timeout()) is not None]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            due = [each for each in self.flight if each[0] <= self.now]
            self.flight = [each for each in self.flight if each[0] > self.now]
            for _, to, message in due:
                self.arrive(to, message)
            for member in self.alive():
                member.stack.handle_timeout(self.now)
                while (out := member.stack.poll_message(self.now)) is not None:
                    self.messages += 1
                    to, message = out
                    if isinstance(message, Token):
                        message = replace(message)  # what is on the wire does not change
                    if self.rng.uniform() >= self.loss:
                        self.flight.append((self.now + DELAY_S, to, message))
        self.now = end

    def arrive(self, to: int, message: Message[Minimum]) -> None:
        member = self.members[to]
        if to in self.failed or member.is_down:
            return
        if isinstance(message, Wake):
            member.stack.handle_wake(message, self.now)
        elif isinstance(message, Receipt):
            member.stack.handle_receipt(message, self.now)
        else:
            assert member.stack.handle_token(message, self.now)

    def answers(self) -> set[int]:
        return {member.announced[1] for member in self.alive()}
