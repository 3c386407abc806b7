"""A second protocol on the seam: every member learns the smallest of all members' values.

It shares nothing with the repair of packets but the rounds. Each domain's rounds gather
the minimum of what its members speak for; the domain at the top announces the result,
which travels down with the next rounds. A network of lists and a virtual clock drive it.
"""

from __future__ import annotations

from dataclasses import dataclass

from quicksilver.recovery.domains import Domain, Hierarchy
from quicksilver.recovery.ring import Timing
from quicksilver.recovery.rounds import Pace, RoundEnd, Rounds, Token, Wake
from quicksilver.recovery.stack import AgentStack
from quicksilver.stdx.rand import Rng

TIMING = Timing(
    interval_s=0.05, trouble_interval_s=0.01, spacing_s=0.001, timeout_s=0.25, in_flight_max=2
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

    def __init__(self, node: int, value: int) -> None:
        self.node = node
        self.value = value
        self.announced = (0, 0)
        self.is_down = False
        self.tokens_released = 0
        self.roll_calls = 0
        self.stack: AgentStack[Minimum] = AgentStack(
            node=node, make_rounds=self.make_rounds, timing=TIMING, counters=self
        )

    def make_rounds(self, domain: Domain, is_top: bool) -> MinimumRounds:
        return MinimumRounds(self, is_top=is_top)

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


class World:
    """Members, the messages between them, and time."""

    def __init__(self, values: list[int], *, size: int = 3, loss: float = 0.0) -> None:
        self.now = 0.0
        self.size = size
        self.loss = loss
        self.rng = Rng(7)
        self.members = {node: Member(node, value) for node, value in enumerate(values, 1)}
        self.failed: frozenset[int] = frozenset()
        self.flight: list[tuple[float, int, Token[Minimum] | Wake]] = []
        self.messages = 0
        self.place()
        for member in self.members.values():
            member.stack.handle_news(self.now)

    def place(self) -> None:
        hierarchy = Hierarchy(tuple(self.members), self.size, self.failed)
        for node, member in self.members.items():
            if node not in self.failed:
                member.stack.become_placed(hierarchy.domains_of(node), len(hierarchy.levels))

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
                    if self.rng.uniform() >= self.loss:
                        self.flight.append((self.now + DELAY_S, *out))
        self.now = end

    def arrive(self, to: int, message: Token[Minimum] | Wake) -> None:
        member = self.members[to]
        if to in self.failed or member.is_down:
            return
        if isinstance(message, Wake):
            member.stack.handle_wake(message, self.now)
        else:
            assert member.stack.handle_token(message, self.now)

    def answers(self) -> set[int]:
        return {member.announced[1] for member in self.alive()}
