"""What the agents of a node and its forwarder tell each other.

Agents find out from the forwarder which streams have news. What they recover goes the same way
as other messages, and where they find that nobody has what is missing, or that a stream begins
later for this node, the forwarder goes on.
"""

from __future__ import annotations

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.reliability.agents import Agents


def tell_arrived(forwarder: Forwarder, agents: Agents, now: float) -> None:
    """Tell agents which streams have news."""
    for name in forwarder.poll_arrived():
        agents.handle_arrived(*name, now)


def take_recovered(forwarder: Forwarder, agents: Agents, now: float) -> None:
    """Give the forwarder what agents have recovered, and have found out about streams."""
    while (repair := agents.poll_repair()) is not None:
        forwarder.handle_repair(*repair, now)
    while (given_up := agents.poll_given_up()) is not None:
        forwarder.pass_over(*given_up)
    while (begun := agents.poll_begun()) is not None:
        forwarder.skip(*begun)
