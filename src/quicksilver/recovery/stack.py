"""The agents of one node in nested domains, one above the other.

The agent at the bottom speaks for the node itself; each one above speaks for the domain
below it, which the node leads. When a round ends in one domain, the one above has news.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from quicksilver.recovery.agent import Agent, Message
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.rounds import Content, Receipt, Said, Token, Wake

MakeAgent = Callable[[Domain], Agent[Content]]
"""Makes the node's agent in a domain: which peers' protocol, with which rounds."""


class AgentStack(Generic[Content]):
    """Agents of one node, lowest first."""

    def __init__(self) -> None:
        self.agents: list[Agent[Content]] = []

    def become_placed(self, domains: list[Domain], make_agent: MakeAgent[Content]) -> None:
        """Take part in these domains of a hierarchy, lowest first.

        Agents of domains that did not change go on with what they know.
        """
        old = {agent.domain: agent for agent in self.agents}
        below: Agent[Content] | None = None
        self.agents = []
        for domain in domains:
            agent = old.get(domain)
            if agent is None:
                agent = make_agent(domain)
            agent.rounds.below = None if below is None else below.rounds
            if below is not None:
                below.above = agent
            agent.above = None
            below = agent
            self.agents.append(agent)

    def close(self) -> None:
        """Forget the agents. Their rounds know whoever made them: only so all of it is freed at
        once, where the garbage collector may come by once an hour."""
        self.agents = []

    # Inputs

    def handle_news(self, now: float) -> None:
        """The node has news of its own."""
        for agent in self.agents:
            agent.handle_news(now, urgent=False)
        self.agents[0].expect_token(now)

    def handle_urgent_news(self, now: float) -> None:
        """The node has news that cannot wait; domains above get them with the round."""
        self.agents[0].handle_news(now, urgent=True)

    def handle_token(self, token: Token[Content], now: float) -> bool:
        """Give a token to the agent that it is for; False: no honest peer sends it here."""
        for agent in self.agents:
            if agent.domain.name == token.domain:
                members = agent.domain.members
                if token.origin not in members or token.leader not in members:
                    return False
                agent.handle_token(token, now)
                return True
        return False

    def handle_wake(self, wake: Wake, now: float) -> None:
        for agent in self.agents:
            if agent.domain.name == wake.domain and wake.origin in agent.domain.members:
                agent.handle_wake(wake, now)

    def handle_receipt(self, receipt: Receipt, now: float) -> None:
        for agent in self.agents:
            if agent.domain.name == receipt.domain:
                agent.handle_receipt(receipt, now)

    def handle_message(self, message: Said[Content], now: float) -> None:
        for agent in self.agents:
            if agent.domain.name == message.domain and message.origin in agent.domain.members:
                agent.handle_message(message, now)

    def handle_timeout(self, now: float) -> None:
        for agent in self.agents:
            agent.handle_timeout(now)

    # Outputs

    def next_timeout(self) -> float | None:
        soonest: float | None = None
        for agent in self.agents:
            when = agent.next_timeout()
            if when is not None and (soonest is None or when < soonest):
                soonest = when
        return soonest

    def has_messages(self) -> bool:
        return any(agent.has_messages() for agent in self.agents)

    def poll_message(self, now: float) -> tuple[int, Message[Content]] | None:
        """Return whom to send what."""
        for agent in self.agents:
            message = agent.poll_message(now)
            if message is not None:
                return message
        return None

    def has_news(self) -> bool:
        """Return whether the node itself has anything to agree on."""
        return self.agents[0].rounds.has_news()
