"""From one seed, a whole trial of scopes: tree, policies, protocols, topics, load, faults."""

from __future__ import annotations

from msgspec.structs import replace

from quicksilver.stdx.rand import Rng
from quicksilver.trials.scopes import plan as plans
from quicksilver.trials.scopes.plan import NodePlan, Plan, ScopePlan

POLICIES = ("star", "chain", "tree:2", "tree:3", "mesh:2", "stripes:2", "gossip:3", "multicast")
RECOVERIES = ("ring", "star", "tree:2", "gossip:2", "requests")

KEY = "exam"
"""What sessions with sealed messages name."""

SHAPES = ((1, 2), (2, 2), (2, 3), (3, 2), (1, 4))
"""Levels above the networks, and the most members of a scope above them."""


def draw_plan(seed: int) -> Plan:
    """Return the trial that a seed stands for."""
    rng = Rng(seed).derive("scopes")
    scopes = _draw_links(rng.derive("links"), _draw_scopes(rng.derive("tree")))
    networks = [scope for scope in scopes if scope.network == scope.name]
    load = rng.derive("load")
    nodes = _draw_nodes(rng.derive("nodes"), scopes, networks)
    seconds = round(3.0 + 3.0 * load.uniform(), 3)
    changes = _draw_changes(rng.derive("sessions"), nodes, seconds)
    faults = _draw_faults(rng.derive("faults"), scopes, networks, nodes, seconds)
    senders = sum(len(node.opens) for node in nodes)
    return Plan(
        seed=seed,
        scopes=scopes,
        nodes=nodes,
        faults=tuple(sorted((*faults, *changes), key=lambda fault: fault.at)),
        seconds=seconds,
        interval_s=max(0.03, senders / (60.0 + 60.0 * load.uniform())),
        burst=load.choice((1, 4, 12)),
        sizes=load.choice(((100,), (20, 300, 1200), (100, 100, 40_000), (0, 60), (900,))),
        far_s=load.choice((0.5e-3, 5e-3, 40e-3)),
        drop_rate=load.choice((0.0, 0.0, 0.01, 0.05)),
        copies_bytes=load.choice((16 << 20, 256 << 20)),
    )


def _draw_scopes(rng: Rng) -> tuple[ScopePlan, ...]:
    """Return scopes from the root down; those of the lowest level are networks."""
    levels, most = rng.choice(SHAPES)
    found = [_draw_scope(rng, "root", (), "root")]
    level = [found[0].name]
    for depth in range(levels):
        is_network = depth == levels - 1
        below: list[str] = []
        for owner in level:
            for place in range(1 + rng.below(most)):
                name = f"{owner}/{'n' if is_network else 's'}{place}"
                # A few networks have two owners.
                others = [other for other in level if other != owner]
                owners: tuple[str, ...] = (owner,)
                if is_network and others and rng.chance(0.15):
                    owners = (owner, rng.choice(others))
                scope = _draw_scope(rng, name, owners, name if is_network else "root")
                found.append(scope)
                below.append(name)
        level = below
    # Of two networks that cannot be dialled neither reaches the other, and a scope whose nodes
    # are all hidden cannot be dialled either: only one network, and right below the root.
    hidden = [place for place, scope in enumerate(found) if levels == 1 and scope.owners]
    if hidden and rng.chance(0.3):
        place = rng.choice(hidden)
        found[place] = replace(found[place], is_behind_nat=True)
    return tuple(found)


def _draw_links(rng: Rng, scopes: tuple[ScopePlan, ...]) -> tuple[ScopePlan, ...]:
    """Let messages come as datagrams to the nodes of some networks."""
    return tuple(
        replace(scope, links="udp") if scope.network == scope.name and rng.chance(0.2) else scope
        for scope in scopes
    )


def _draw_scope(rng: Rng, name: str, owners: tuple[str, ...], network: str) -> ScopePlan:
    is_network = network == name
    # Members of wider scopes are in different networks, which no multicast address spans.
    policies = POLICIES if is_network and owners else POLICIES[:-1]
    return ScopePlan(
        name=name,
        owners=owners,
        policy=rng.choice(policies),
        recovery=rng.choice(RECOVERIES),
        network=network,
    )


def _draw_nodes(
    rng: Rng, scopes: tuple[ScopePlan, ...], networks: list[ScopePlan]
) -> tuple[NodePlan, ...]:
    above = {scope.name: scope.owners for scope in scopes}
    roots = [scope.name for scope in scopes]
    topics = [f"{rng.choice(roots)}/t{place}" for place in range(1 + rng.below(3))]
    topics.append("root/all")
    nodes: list[NodePlan] = []
    for network in networks:
        mine = _reach(network.name, above)
        near = [topic for topic in topics if topic.rpartition("/")[0] in mine]
        for place in range(2 + rng.below(4)):
            joins = tuple(t for t in near if t == "root/all" or rng.chance(0.6))
            opens = tuple(t for t in near if rng.chance(0.35))
            name = f"{network.name}/x{place}"
            nodes.append(NodePlan(name=name, owner=network.name, joins=joins, opens=opens))
    if not any("root/all" in node.opens for node in nodes):
        first = nodes[0]
        nodes[0] = NodePlan(
            name=first.name,
            owner=first.owner,
            joins=first.joins,
            opens=(*first.opens, "root/all"),
        )
    return tuple(nodes)


def _reach(scope: str, above: dict[str, tuple[str, ...]]) -> set[str]:
    found, rest = set(), [scope]
    while rest:
        name = rest.pop()
        if name not in found:
            found.add(name)
            rest += above[name]
    return found


def _draw_faults(
    rng: Rng,
    scopes: tuple[ScopePlan, ...],
    networks: list[ScopePlan],
    nodes: tuple[NodePlan, ...],
    seconds: float,
) -> list[plans.AnyFault]:
    found: list[plans.AnyFault] = []
    for _ in range(1 + rng.below(8)):
        at = round(0.3 + (seconds - 0.5) * rng.uniform(), 4)
        for_s = round(0.2 + 2.5 * rng.uniform(), 4)
        node = rng.choice(nodes)
        scope = rng.choice(scopes)
        network = rng.choice(networks)
        match rng.below(6):
            case 0:
                # A third of those that crash stay so.
                away_s = 0.0 if rng.chance(0.3) else for_s
                found.append(plans.CrashNode(at=at, for_s=away_s, node=node.name))
            case 1:
                found.append(plans.FreezeNode(at=at, for_s=for_s, node=node.name))
            case 2:
                found.append(plans.CrashManager(at=at, for_s=for_s, scope=scope.name))
            case 3:
                found.append(plans.CutNetworks(at=at, for_s=for_s, network=network.name))
            case 4:
                rate = round(0.02 + 0.3 * rng.uniform(), 4)
                found.append(plans.Loss(at=at, for_s=for_s, network=network.name, rate=rate))
            case _:
                if node.joins:
                    topic = rng.choice(node.joins)
                    found.append(plans.Leave(at=at, for_s=for_s, node=node.name, topic=topic))
    return found


def _draw_changes(
    rng: Rng, nodes: tuple[NodePlan, ...], seconds: float
) -> list[plans.ChangeSession]:
    """Return in which topics sessions change, how and when; in half of all trials in none."""
    if rng.chance(0.5):
        return []
    topics = sorted({topic for node in nodes for topic in (*node.joins, *node.opens)})
    found = []
    for _ in range(1 + rng.below(3)):
        ordering, reliability = rng.choice(
            (("total", "repair"), ("total", "repair"), ("fifo", "repair"), ("fifo", "none"))
        )
        found.append(
            plans.ChangeSession(
                at=round((seconds - 0.5) * rng.uniform(), 4),
                topic=rng.choice(topics),
                ordering=ordering,
                reliability=reliability,
                key=KEY if rng.chance(0.25) else "",
            )
        )
    return found
