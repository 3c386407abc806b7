"""How the agents of a domain hold rounds, by the name that its manager gives: ``tree:3``."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.recovery.agent import Agent
from quicksilver.recovery.domains import Domain
from quicksilver.recovery.gossip import GossipAgent
from quicksilver.recovery.pacing import Counters, Timing
from quicksilver.recovery.requests import RequestsAgent
from quicksilver.recovery.ring import RingAgent
from quicksilver.recovery.rounds import Content, Folding
from quicksilver.recovery.star import StarAgent
from quicksilver.recovery.tree import TreeAgent

FANOUT_INITIAL = {"tree": 3, "gossip": 2}
"""Of kinds that have one, where none is given."""

SIZED = "ring"
"""Its number says of about how many members nested domains are (``management.nesting``)."""

KINDS = ("ring", "star", "tree", "gossip", "requests")


def parse_protocol(protocol: str) -> tuple[str, int] | None:
    """Return the kind and the number that a name stands for; None: there is no such kind."""
    kind, colon, number = protocol.partition(":")
    if kind not in KINDS:
        return None
    if not colon:
        return kind, FANOUT_INITIAL.get(kind, 0)
    is_number = number.isascii() and number.isdigit() and len(number) <= 3
    if not is_number or int(number) < (2 if kind == SIZED else 1):
        return None
    if kind != SIZED and kind not in FANOUT_INITIAL:
        return None
    return kind, int(number)


def make_agent(
    protocol: str,
    *,
    node: int,
    domain: Domain,
    rounds: Folding[Content],
    timing: Timing,
    counters: Counters,
    seed: int,
) -> Agent[Content]:
    """Make an agent; all agents of a domain must be of the same kind.

    A kind that is not known here is taken for a ring, the oldest one.
    """
    kind, fanout = parse_protocol(protocol) or ("ring", 0)

    def make(agent: Callable[..., Agent[Content]], **more: int) -> Agent[Content]:
        return agent(
            node=node, domain=domain, rounds=rounds, timing=timing, counters=counters, **more
        )

    match kind:
        case "star":
            return make(StarAgent)
        case "tree":
            return make(TreeAgent, fanout=fanout)
        case "gossip":
            return make(GossipAgent, fanout=fanout, seed=seed)
        case "requests":
            return make(RequestsAgent, seed=seed)
        case _:
            return make(RingAgent)
