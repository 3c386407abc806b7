"""The domains of Figure 3.25: regions of one scope, and a domain for each topic above them."""

from __future__ import annotations

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management.events import AgentPosted, PeerFound
from quicksilver.scopes.posts import DomainId, Post, Seat
from tests.scopes.reliability.world import Node, Scope, World


def make_forked() -> World:
    """Return a world: a wants X; b and c want X and Y; d wants Y."""
    world = World(Scope("top", "ring", []))
    world.root.members = ["a", "b", "c", "d"]  # for the checker; posts are made by hand
    wants = {"a": {"top/x"}, "b": {"top/x", "top/y"}, "c": {"top/x", "top/y"}, "d": {"top/y"}}
    for name, topics in wants.items():
        node = world.nodes[name] = Node(name, world)
        node.agents.state.subscribes = topics.__contains__
    regions = {1: ("a",), 2: ("b", "c"), 3: ("d",)}
    topics_of = {1: ("top/x",), 2: ("top/x", "top/y"), 3: ("top/y",)}
    above = {4: ("top/x", (1, 2)), 5: ("top/y", (2, 3))}

    def post(domain: int, protocol: str, path: tuple[str, ...], seats: tuple[Seat, ...]) -> None:
        topics = topics_of.get(domain) or (above[domain][0],)
        is_top = domain in above
        made = Post(DomainId("top", domain), 1, protocol, path, seats, topics, is_top)
        host = world.nodes[path[-1]]
        host.agents.handle_event(AgentPosted(made), world.now)

    places = []
    for region, members in regions.items():
        seats = tuple(Seat(name, 0, name) for name in members)
        for name in members:
            post(region, "tree:2", (name,), seats)
            places.append(PeerFound(DomainId("top", region), name, Link("tcp", name, name)))
    for domain, (_, parts) in above.items():
        seats = tuple(Seat(f"top:{part}", part, regions[part][0]) for part in parts)
        for part in parts:
            leader = regions[part][0]
            post(domain, "gossip:1", (f"top:{part}", leader), seats)
            where = Link("tcp", leader, leader)
            places.append(PeerFound(DomainId("top", domain), f"top:{part}", where))
    for node in world.nodes.values():
        for place in places:
            node.agents.handle_event(place, world.now)
    return world
