"""What the host of a node is told, and how the node's agents are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.management.events import Event
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.sessions.multiplexer import KeyMissing
from quicksilver.stdx.errors import QuicksilverError

MakeAgents = Callable[[Forwarder, Callable[[str], bool], int], Agents]
"""Makes a node's agents; the function says whether applications subscribe to a topic, the number
is a seed."""


def make_agents(forwarder: Forwarder, subscribes: Callable[[str], bool], seed: int) -> Agents:
    return Agents(lower=forwarder.holdings, subscribes=subscribes, seed=seed)


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """There is room again to publish to a topic (``ScopeNode.may_publish``)."""

    topic: str


NodeEvent = Event | WindowOpened | KeyMissing


class NotJoinedError(QuicksilverError):
    """The node has no owner yet, so it does not know the scope that it is in."""

    def __str__(self) -> str:
        return "no manager has taken this node as a member yet: wait for OwnerJoined"
