"""A second protocol on the seam: every member learns the smallest of all members' values.

It shares nothing with the repair of packets but the rounds. Each domain's rounds gather
the minimum of what its members speak for; the domain at the top announces the result,
which travels down with the next rounds. A network of lists and a virtual clock drive it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain, Hierarchy
from quicksilver.recovery.gossip import GossipAgent
from quicksilver.recovery.pacing import Counters, Timing
from quicksilver.recovery.requests import RequestsAgent
from quicksilver.recovery.ring import RingAgent
from quicksilver.recovery.rounds import (
    TO_ALL,
    Content,
    Folding,
    Pace,
    Receipt,
    RoundEnd,
    Token,
    Wake,
)
from quicksilver.recovery.stack import AgentStack
from quicksilver.recovery.star import StarAgent
from quicksilver.recovery.tree import TreeAgent
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


def make_agent(
    kind: str, node: int, domain: Domain, rounds: Folding[Content], counters: Counters
) -> Agent[Content]:
    """Make an agent of a kind: ``ring``, ``star``, ``tree``, ``gossip`` or ``requests``."""
    common = {
        "node": node,
        "domain": domain,
        "rounds": rounds,
        "timing": TIMING,
        "counters": counters,
    }
    makers: dict[str, Any] = {
        "ring": RingAgent,
        "star": StarAgent,
        "tree": partial(TreeAgent, fanout=2),
        "gossip": partial(GossipAgent, fanout=2, seed=5),
        "requests": partial(RequestsAgent, seed=5),
    }
    agent: Agent[Content] = makers[kind](**common)
    return agent


KINDS = ("ring", "star", "tree", "gossip", "requests")


class Member:
    """One node: its value, and what it was told."""

    def __init__(self, node: int, value: int, kinds: Sequence[str]) -> None:
        self.node = node
        self.kinds = kinds
        self.value = value
        self.announced = (0, 0)
        self.is_down = False
        self.tokens_released = 0
        self.roll_calls = 0
        self.stack: AgentStack[Minimum] = AgentStack()

    def make_agent(self, domain: Domain) -> Agent[Minimum]:
        rounds = MinimumRounds(self, is_top=domain.parent is None)
        kind = self.kinds[domain.name[0] % len(self.kinds)]
        return make_agent(kind, self.node, domain, rounds, self)

    def learn(self, announced: tuple[int, int]) -> None:
        self.announced = max(self.announced, announced)


class MinimumRounds(Folding[Minimum]):
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

    def blank(self, content: Minimum) -> Minimum:
        return Minimum(1 << 62, 0, content.announced)

    def merge(self, content: Minimum, other: Minimum) -> Minimum:
        return Minimum(
            min(content.gathered, other.gathered),
            content.members + other.members,
            max(content.announced, other.announced),
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

    def __init__(
        self,
        values: list[int],
        *,
        size: int = 3,
        loss: float = 0.0,
        kinds: Sequence[str] = ("ring",),
    ) -> None:
        """``kinds``: how the domains of each level hold rounds, lowest first, and again."""
        self.now = 0.0
        self.size = size
        self.loss = loss
        self.rng = Rng(7)
        self.members = {node: Member(node, value, kinds) for node, value in enumerate(values, 1)}
        self.failed: frozenset[int] = frozenset()
        self.flight: list[tuple[float, int, Message[Minimum]]] = []
        self.messages = 0
        self.sent: Counter[int] = Counter()
        """Messages that members sent, and to how many each went at once does not count."""
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
        """Let time pass; a member is asked when something came for it, or its time has come."""
        end = self.now + seconds
        due = {node: member.stack.next_timeout() for node, member in self.members.items()}
        stirred = set(self.members)
        while True:
            times = [t for member in self.alive() if (t := due[member.node]) is not None]
            # All messages take as long, so the first that was sent arrives first.
            times += [at for at, _, _ in self.flight[:1]]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            arriving = [each for each in self.flight if each[0] <= self.now]
            del self.flight[: len(arriving)]
            for _, to, message in arriving:
                self.arrive(to, message)
                stirred.add(to)
            stirred |= {node for node, at in due.items() if at is not None and at <= self.now}
            for member in self.alive():
                if member.node in stirred:
                    self._turn(member)
                    due[member.node] = member.stack.next_timeout()
            stirred.clear()
        self.now = end

    def _turn(self, member: Member) -> None:
        member.stack.handle_timeout(self.now)
        while (out := member.stack.poll_message(self.now)) is not None:
            self.messages += 1
            self.sent[member.node] += 1
            to, message = out
            if isinstance(message, Token):
                message = replace(message)  # what is on the wire does not change
            self.send(member.node, to, message)

    def send(self, origin: int, to: int, message: Message[Minimum]) -> None:
        peers = [to]
        if to == TO_ALL:
            agents = self.members[origin].stack.agents
            members = next(a.domain.members for a in agents if a.domain.name == message.domain)
            peers = [peer for peer in members if peer != origin]
        for peer in peers:
            if self.rng.uniform() >= self.loss:
                self.flight.append((self.now + DELAY_S, peer, message))

    def arrive(self, to: int, message: Message[Minimum]) -> None:
        member = self.members[to]
        if to in self.failed or member.is_down:
            return
        if isinstance(message, Wake):
            member.stack.handle_wake(message, self.now)
        elif isinstance(message, Receipt):
            member.stack.handle_receipt(message, self.now)
        elif isinstance(message, Token):
            # Two may get the same token, and each writes into its own.
            assert member.stack.handle_token(replace(message), self.now)
        else:
            member.stack.handle_message(message, self.now)

    def answers(self) -> set[int]:
        return {member.announced[1] for member in self.alive()}
