"""What a plan of the engine's trials is on scopes, and what of the engine's trials is left out.

A network of QSM becomes one scope. Its manager finds regions, as a GMS does; its policy sends
once to each region, or straight from node to node where there is no multicast; and rings of
partitions of the plan's size recover what is lost. What only a GMS has is left out, and so is
what is measured inside of the engine: both are named here, each with the reason.
"""

from __future__ import annotations

from msgspec.structs import replace

from quicksilver.trials import draw, faults
from quicksilver.trials.draw import Plan
from quicksilver.trials.features import Features
from quicksilver.trials.scopes.plan import NodePlan, ScopePlan
from quicksilver.trials.scopes.plan import Plan as ScopesPlan

SCOPE = "lan"
"""The scope that all nodes are members of."""

COPIES_BYTES = 16 << 20
"""What a node may keep. Plans give the engine less, whose senders may drop what is not taken."""

NODES_MAX = 32
"""Larger plans are run with so many nodes: who is in several random groups is almost alone in its
region, and a scope's are exact. With 53 nodes in 7 groups a trial took 48 s, with 28 in 3 6 s."""

FAULTS_LEFT_OUT: dict[type[faults.Fault], str] = {
    faults.Slowness: "the hosts of trials of scopes have no processors that could be slow",
    faults.Drift: "these hosts have one clock",
    faults.Unread: "these hosts have no kernel buffers that could stay full",
}

FEATURES_LEFT_OUT = (
    "queued, by_pattern, retain, servers: scopes have no queues, patterns, values, requests",
    "planner, hybrid, is_adapting: how a GMS finds regions; a scope's are exact",
    "keep_bytes, behind: a node that is behind holds up senders, and is never dropped",
    "packet_bytes, window_bytes, cache_bytes and the like: what the engine's memory is cut into",
)

CHECKS = ("fifo", "duplicates", "gaps", "content", "envelopes", "quiescence")
"""Checks of the engine's trials, by name, that judge scopes as they judge the engine."""

COUNTERPARTS = {
    "complete": "complete",
    "survivors": "complete",
    "convergence": "complete",
    "members-only": "order",
    "vouched": "flushed",
    "views": "views",
    "memory": "budgets",
}
"""Checks that ask the engine or its GMS how it is; of scopes this check asks the same."""

CHECKS_LEFT_OUT = {
    "queues": "scopes have no queues",
    "retained": "scopes have no retained values",
    "answers": "scopes have no requests",
    "views-told": "nodes of scopes are not told who is in a topic",
    "joins": "a manager's answer says that the topic's root knows, not that all senders do",
    "cleanup": "nodes of scopes keep copies for whoever comes back, as far as there is room",
    "tokens": "it reads the engine's packets; reports of scopes are bounded by their codec",
    "proof": "it reads the engine's counters of what seemed lost",
    "doubt": "managers of scopes do not doubt their own link",
}


def strip(plan: Plan) -> Plan:
    """Return a plan without what is left out: the same nodes in the same groups."""
    nodes = min(plan.nodes, NODES_MAX)
    return replace(
        plan,
        nodes=nodes,
        memberships=tuple(_within(each, nodes) for each in plan.memberships),
        faults=tuple(
            each for each in plan.faults if _is_within(each, nodes) and not _is_left_out(each)
        ),
        features=Features(enveloped_every=plan.features.enveloped_every),
    )


def _within(membership: draw.Membership, nodes: int) -> draw.Membership:
    members = tuple(index for index in membership.members if index < nodes)
    openers = tuple(index for index in membership.openers if index < nodes)
    return replace(membership, members=members, openers=openers)


def _is_within(fault: faults.Fault, nodes: int) -> bool:
    match fault:
        case faults.Partition(island=island):
            return all(index < nodes for index in island)
        case faults.Cut(source=source, targets=targets):
            return all(index < nodes for index in (source, *targets))
        case faults.NodeFault(node=node):
            return node < nodes
        case _:
            return True


def _is_left_out(fault: faults.Fault) -> bool:
    return type(fault) in FAULTS_LEFT_OUT


def node_name(index: int) -> str:
    return f"{SCOPE}/n{index}"


def topic_of(group: str) -> str:
    return f"{SCOPE}/{group}"


def as_scopes(plan: Plan) -> ScopesPlan:
    """Return the scope and the nodes of a plan; applications join by themselves."""
    has_multicast = plan.transport == "multicast" and not plan.without_multicast
    straight = "star" if plan.fan_out < 2 else f"tree:{plan.fan_out}"
    return ScopesPlan(
        seed=plan.seed,
        scopes=(
            ScopePlan(
                name=SCOPE,
                network=SCOPE,
                policy="regions" if has_multicast else straight,
                recovery=f"ring:{plan.partition_size}",
            ),
        ),
        nodes=tuple(NodePlan(name=node_name(index), owner=SCOPE) for index in range(plan.nodes)),
        faults=(),
        seconds=plan.seconds,
        interval_s=plan.interval_s,
        burst=plan.burst,
        sizes=plan.sizes,
        near_s=plan.latency_s,
        copies_bytes=COPIES_BYTES,
    )
