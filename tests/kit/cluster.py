"""Clusters for tests of the engine: who is in them, what arrives, what is lost.

The world is ``quicksilver.trials``; here is what tests of several files ask of it.
All checks of ``quicksilver.trials.checks`` look on, and ``tests.kit.checks`` asks
them for their judgement, so messages are sent with ``workload.send_numbered``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from quicksilver.sim.model import LinkModel
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Watcher
from quicksilver.wire.control import Control, encode_control, stamp_control
from quicksilver.wire.ids import Address

LINK = LinkModel(latency_s=0.0002)


class Message(NamedTuple):
    """What an application was given."""

    group: int
    sender: int
    sequence: int
    payload: bytes


class Inbox(Watcher):
    """Keeps what every life of every node was given, in the order of delivery."""

    name = "inbox"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.messages: defaultdict[SimNode, list[Message]] = defaultdict(list)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        self.messages[node].append(Message(group, sender, sequence, payload))


def make_cluster(nodes: int, **options: Any) -> Cluster:
    """Return a cluster with nodes that are in nothing yet, an inbox and all checks."""
    cluster = Cluster(**({"link": LINK} | options))
    cluster.watch(Inbox, *ALL)
    cluster.start(nodes)
    return cluster


def one_region(members: int, senders: int = 1, **options: Any) -> Cluster:
    """Return a cluster whose first nodes are the members of group ``g``; the others send to it."""
    cluster = make_cluster(members + senders, **options)
    for node in cluster.nodes[:members]:
        node.join("g")
    for node in cluster.nodes[members:]:
        node.open("g")
    assert cluster.settle()
    return cluster


# What arrives


def inbox(node: SimNode) -> list[Message]:
    """Return what a node was given, in the order of delivery."""
    (found,) = [watcher for watcher in node.cluster.watchers if isinstance(watcher, Inbox)]
    return found.messages[node]


def numbers(node: SimNode, sender: SimNode) -> list[int]:
    """Return which messages of a sender's present incarnation a node was given, in order."""
    marks = [parse_payload(m.payload) for m in inbox(node) if m.sender == sender.id]
    return [mark.number for mark in marks if mark is not None]


def have_all(nodes: list[SimNode], group: str = "g") -> bool:
    """Whether nodes have as many messages as others who are up were told to send."""
    cluster = nodes[0].cluster
    sent = {node.index: node.planned.get(group, 0) for node in cluster.alive()}
    total = sum(sent.values())
    number = cluster.group_id(group)
    return all(node.delivered[number] >= total - sent.get(node.index, 0) for node in nodes)


# What is lost, and what comes from elsewhere


def lose(cluster: Cluster, is_lost: Callable[[SimNode, bytes], bool]) -> None:
    """From now on, lose what a rule says: (who would get it, datagram)."""
    cluster.network.loss = lambda host, packet: is_lost(cluster.nodes[host.index], packet)


def rain(
    cluster: Cluster,
    drop_rate: float,
    *,
    spares_control: bool = False,
    duplicate_rate: float = 0.0,
    jitter_s: float = 0.0,
) -> None:
    """Give every node there is the same bad weather."""
    for node in cluster.nodes:
        weather = node.host.weather
        weather.drop_rate = drop_rate
        weather.spares_control = spares_control
        weather.duplicate_rate = duplicate_rate
        weather.jitter_s = jitter_s


def clear_up(cluster: Cluster) -> None:
    """Lose nothing from now on."""
    cluster.network.loss = None
    for node in cluster.nodes:
        node.host.weather.clear()


def forge(node: SimNode, liar: SimNode, packet: Control) -> bytes:
    """Return a control packet to a node as a member makes it that knows what to say, and lies."""
    wanted = node.engine.environment.peers.nonce_for(liar.id)
    nonce = liar.engine.environment.peers.nonce_for(node.id)
    return stamp_control(encode_control(packet, node.id), nonce, wanted)


def inject(node: SimNode, packet: bytes, source: Address, after_s: float = 0.0) -> None:
    """Let a datagram arrive at a node's unicast socket, whoever made it."""
    cluster = node.cluster
    when = cluster.now + after_s
    cluster.network.inject(node.host, packet, source, when, is_multicast=False)
