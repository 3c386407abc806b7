"""All protocol instances of one node, above its agents: a machine without I/O.

A host gives it views, messages of agents and events of applications, and takes out messages and
requests. Which kind of agent a domain has is the host's choice (``make_agent``).
"""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.properties.run.program import Program
from quicksilver.properties.run.rounds import Content, Participant, Placed, PropertyRounds
from quicksilver.properties.run.state import Output
from quicksilver.properties.values.kinds import Value
from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain, Name
from quicksilver.recovery.rounds import Receipt, Token, Wake
from quicksilver.recovery.stack import AgentStack

MakeAgent = Callable[[int, Domain, PropertyRounds], Agent[Content]]
"""Makes a node's agent in a domain."""


class ProtocolNode:
    """One node, in all its domains."""

    def __init__(
        self,
        node: int,
        address: str,
        incarnation: int,
        make_agent: MakeAgent,
        *,
        certifies: bool = False,
    ) -> None:
        """``incarnation``: greater than that of any node that had the address before."""
        self.node = node
        self.participant = Participant(node, address, incarnation, certifies=certifies)
        self._make_agent = make_agent
        self._stack: AgentStack[Content] = AgentStack()
        self._placed: dict[Name, Placed] = {}

    # What the application and the membership say

    def add(self, number: int, program: Program, now: float) -> None:
        """Take part in an instance; all its nodes know it by the number."""
        self.participant.add(number, program)
        if self._stack.agents:
            self._stack.handle_news(now)

    def remove(self, number: int) -> None:
        self.participant.remove(number)

    def become_placed(self, placed: list[Placed], now: float) -> None:
        """Be in these domains, lowest first."""
        new = {each.domain.name: each for each in placed}
        self.participant.become_placed(placed)
        self._stack.agents = [
            agent
            for agent in self._stack.agents
            if self._placed[agent.domain.name] == new.get(agent.domain.name)
        ]
        self._placed = new
        self._stack.become_placed([each.domain for each in placed], self._agent)
        self._stack.handle_news(now)

    def _agent(self, domain: Domain) -> Agent[Content]:
        rounds = PropertyRounds(self.participant, self._placed[domain.name])
        return self._make_agent(self.node, domain, rounds)

    def handle_event(
        self, number: int, event: int, arguments: tuple[Value, ...], now: float
    ) -> None:
        """The application says something to an instance."""
        self.participant.handle_event(number, event, arguments)
        if self._stack.agents and self._stack.has_news():
            agent = self._stack.agents[0]
            agent.handle_news(now, urgent=False)
            agent.expect_token(now)

    # Messages between agents

    def handle_message(self, message: Message[Content], now: float) -> None:
        """An agent of another node says something; strangers' words come to nothing."""
        match message:
            case Token():
                self._stack.handle_token(message, now)
            case Wake():
                self._stack.handle_wake(message, now)
            case Receipt():
                self._stack.handle_receipt(message, now)
            case _:
                self._stack.handle_message(message, now)
        self._tell_below(now)

    def handle_timeout(self, now: float) -> None:
        self._stack.handle_timeout(now)
        self._tell_below(now)

    def next_timeout(self) -> float | None:
        return self._stack.next_timeout()

    def has_messages(self) -> bool:
        return self._stack.has_messages()

    def poll_message(self, now: float) -> tuple[int, Message[Content]] | None:
        """Return to which node of the message's domain to send what (``TO_ALL``: to all others)."""
        message = self._stack.poll_message(now)
        self._tell_below(now)
        return message

    def poll_event(self) -> tuple[int, Output] | None:
        """Return what an instance asks of its application."""
        outputs = self.participant.outputs
        return outputs.popleft() if outputs else None

    def members_of(self, name: Name) -> tuple[int, ...]:
        """Return the members of one of the node's domains."""
        placed = self._placed.get(name)
        return () if placed is None else placed.domain.members

    def _tell_below(self, now: float) -> None:
        """Domains that were told something by the domain around them pass it on."""
        if not self.participant.told:
            return
        told = self.participant.told
        self.participant.told = set()
        for agent in self._stack.agents:
            if agent.domain.name in told:
                agent.handle_news(now, urgent=True)
