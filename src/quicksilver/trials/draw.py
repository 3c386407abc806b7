"""From one seed, a whole trial: the cluster, who is in what, the load, the faults."""

from __future__ import annotations

from typing import Literal

import msgspec

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.reply_groups import REPLY_GROUPS_MAX
from quicksilver.multicast.sending.behind import parse_behind
from quicksilver.stdx.rand import Rng
from quicksilver.trials import faults
from quicksilver.trials.faults import AnyFault
from quicksilver.trials.features import Features
from quicksilver.trials.gms import GMS_INDEX


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """Who is in a group, and who only sends to it."""

    group: str
    members: tuple[int, ...]
    openers: tuple[int, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a trial depends on; the same plan gives the same run."""

    seed: int
    nodes: int
    memberships: tuple[Membership, ...]
    faults: tuple[AnyFault, ...]
    seconds: float
    """How long faults and load last."""
    interval_s: float
    """Mean time between two sends of one sender to one group."""
    burst: int
    """Most messages in one send."""
    senders: int = 0
    """How many nodes send while faults last, counted once for each group; 0: all."""
    sizes: tuple[int, ...]
    """Sizes of messages, in bytes; each send draws one."""
    planner: str = "exact"
    transport: str = "multicast"
    fan_out: int = 0
    """Copies that one node sends where there is no multicast; 0: senders send all."""
    without_multicast: tuple[int, ...] = ()
    """Nodes that can neither send nor receive multicast."""
    hybrid: Literal["auto"] | tuple[str, ...] = ()
    """Groups with an address of their own; auto: the GMS chooses."""
    hybrid_gain_min: float = 1.0
    """What an address must save."""
    partition_size: int = 5
    replication: int = 5
    heartbeat_interval_s: float = 0.3
    failure_timeout_s: float = 2.0
    packet_bytes: int = 1400
    buffer_bytes: int = 1 << 20
    window_bytes: int = 1 << 20
    token_bytes: int = 64 << 10
    cache_bytes: int = 16 << 20
    """Most bytes that a node keeps for others' repair …"""
    ahead_bytes: int = 16 << 20
    """… and most that may wait for an earlier packet."""
    latency_s: float = 100e-6
    jitter_s: float = 0.0
    drop_rate: float = 0.0
    """Part of the datagrams lost on the way to any node, while faults last."""
    duplicate_rate: float = 0.0
    keep_bytes: int = 64 << 20
    """What is kept for members that nobody waits for."""
    keep_disk_bytes: int = 0
    behind: str = "keep"
    """What senders do about members that do not keep up; as ``parse_behind`` takes it."""
    is_adapting: bool = False
    """True: the GMS plans for the traffic of the moment, several times in a trial."""
    features: Features = Features()
    """What applications use beyond plain messages and names."""
    fresh_ports: bool = True
    is_modelled: bool = True
    """False: processors and cards cost no time."""

    def engine_config(self) -> EngineConfig:
        return EngineConfig(
            packet_bytes=self.packet_bytes,
            receive_buffer_bytes=self.buffer_bytes,
            window_bytes_max=self.window_bytes,
            window_bytes_initial=min(self.window_bytes, 64 << 10),
            span_bytes_max=4 * self.window_bytes,
            cache_bytes_max=self.cache_bytes,
            ahead_bytes_max=self.ahead_bytes,
            keep_bytes_max=self.keep_bytes,
            keep_disk_bytes_max=self.keep_disk_bytes,
            behind=parse_behind(self.behind),
            unknown_bytes_max=1 << 20,
            token_bytes=self.token_bytes,
        )


# What moves nodes between views breaks most, so it is drawn twice as often.
_MOVERS = (faults.Leave, faults.Join, faults.Crash, faults.Partition, faults.Freeze)
_KINDS: tuple[type[faults.Fault], ...] = (*faults.KINDS, *_MOVERS)

SIZES = ((0.66, 3, 10), (0.85, 11, 24), (0.8, 25, 80), (0.85, 81, 300), 2000)
"""How likely each range of sizes is, if none before it was drawn, with the fewest and most
nodes; and the size that is left."""

SENDS_PER_S_MIN = 60.0

PLANNERS = ("exact", "exact", "auto", "regular", "perfect", "merged")
"""Exact regions are the smallest, so groups span most of them: drawn twice as often."""
MANY_GROUPS_NODES_MAX = 24
"""Clusters of up to this many nodes may have hundreds of groups."""

PARTS_NODES_MAX = 80
"""Clusters of up to this many nodes may use values and requests."""

BEHIND = ("keep", "keep", "keep", "wait", "keep+slow", "drop")

PACKET_BYTES = (576, 1400, 1400, 8900)


def draw_plan(seed: int) -> Plan:
    """Return the trial that a seed stands for."""
    rng = Rng(seed).derive("trial")
    shape = rng.derive("shape")
    nodes = _draw_size(rng.derive("size"))
    memberships = _draw_memberships(rng.derive("groups"), nodes)
    load = rng.derive("load")
    seconds = 3.0 + 3.0 * load.uniform()
    links = rng.derive("links")
    is_bad = links.chance(0.2)
    ways = rng.derive("transport")
    behind = rng.derive("behind")
    pairs = sum(len(m.members) + len(m.openers) for m in memberships)
    # The more nodes a message goes to, the fewer there are: trials cost about the same. But
    # every sender has its chance while faults last, and large clusters have many of them.
    sends_per_s = max(SENDS_PER_S_MIN, (900.0 + 1200.0 * load.uniform()) / nodes)
    senders = min(pairs, max(4, int(sends_per_s * seconds / 4)))
    return Plan(
        seed=seed,
        nodes=nodes,
        memberships=memberships,
        faults=_draw_faults(rng.derive("faults"), nodes, memberships, seconds),
        seconds=seconds,
        senders=senders,
        interval_s=max(0.02, senders / sends_per_s),
        burst=load.choice((1, 4, 12)),
        sizes=load.choice(((100,), (20, 300, 1200), (100, 100, 100, 40_000), (0, 60), (900,))),
        planner=shape.choice(PLANNERS),
        transport="unicast" if shape.chance(0.15) else "multicast",
        fan_out=ways.choice((0, 2, 3)),
        without_multicast=_draw_without_multicast(ways, nodes),
        hybrid=(memberships[0].group,) if shape.chance(0.2) else "auto",
        # By the last, groups come and go as the traffic of few senders does.
        hybrid_gain_min=rng.derive("hybrid").choice((0.1, 1.0, 4.0)),
        partition_size=2 + shape.below(4),
        replication=1 + shape.below(5),
        heartbeat_interval_s=0.2 + 0.3 * shape.uniform(),
        failure_timeout_s=0.8 + 1.7 * shape.uniform(),
        packet_bytes=shape.choice(PACKET_BYTES),
        buffer_bytes=shape.choice((64 << 10, 212_992, 1 << 20)),
        window_bytes=shape.choice((32 << 10, 256 << 10, 2 << 20)),
        token_bytes=shape.choice((8 << 10, 64 << 10, 1 << 20)),
        cache_bytes=shape.choice((32 << 10, 1 << 20, 16 << 20, 16 << 20)),
        ahead_bytes=shape.choice((64 << 10, 1 << 20, 16 << 20, 16 << 20)),
        latency_s=shape.choice((20e-6, 100e-6, 2e-3)),
        jitter_s=shape.choice((0.0, 0.0, 300e-6)),
        drop_rate=round(0.1 * links.uniform() * links.uniform(), 4) if is_bad else 0.0,
        duplicate_rate=round(0.1 * links.uniform(), 4) if is_bad else 0.0,
        keep_bytes=behind.choice((32 << 10, 1 << 20, 64 << 20)),
        keep_disk_bytes=behind.choice((0, 0, 256 << 10, 16 << 20)),
        behind=behind.choice(BEHIND),
        is_adapting=rng.derive("traffic").chance(0.75),
        features=_draw_parts(
            rng.derive("parts"), nodes, _draw_features(rng.derive("features"), nodes, memberships)
        ),
        fresh_ports=shape.chance(0.6),
        is_modelled=shape.chance(0.7),
    )


def _draw_features(rng: Rng, nodes: int, memberships: tuple[Membership, ...]) -> Features:
    """Return what applications use: half of them nothing but plain messages."""
    if rng.chance(0.5):
        return Features()
    patterned = [index for index in range(nodes) if rng.chance(0.3)] if rng.chance(0.5) else []
    return Features(
        enveloped_every=rng.choice((0, 1, 2, 7)),
        queued=frozenset(each.group for each in memberships if rng.chance(0.3)),
        by_pattern=frozenset(patterned),
    )


def _draw_parts(rng: Rng, nodes: int, features: Features) -> Features:
    """Return features with those who use values and requests: in most trials nobody."""
    if nodes <= PARTS_NODES_MAX and rng.chance(0.3):
        features = msgspec.structs.replace(
            features,
            retain=rng.choice((1, 1, 4)),
            value_senders=_draw_some(rng, nodes),
            value_members=_draw_some(rng, nodes),
        )
    if nodes <= PARTS_NODES_MAX and rng.chance(0.3):
        servers, askers = _draw_some(rng, nodes), _draw_some(rng, nodes)
        features = msgspec.structs.replace(
            features,
            servers=servers,
            askers=askers,
            reply_groups_max=rng.choice((1, 2, 3, REPLY_GROUPS_MAX)),
        )
    return features


def _draw_some(rng: Rng, nodes: int) -> frozenset[int]:
    """Return a few nodes, at least one."""
    return frozenset(rng.sample(range(nodes), 1 + rng.below(min(nodes, 4))))


def _draw_size(rng: Rng) -> int:
    """Return how many nodes: mostly few, because many cost time and hide what went wrong."""
    *usual, rare = SIZES
    for chance, least, most in usual:
        if rng.chance(chance):
            return least + rng.below(most - least + 1)
    return rare


def _draw_without_multicast(rng: Rng, nodes: int) -> tuple[int, ...]:
    """Return the nodes whose network carries no multicast: mostly none of them."""
    if not rng.chance(0.15):
        return ()
    return tuple(sorted(rng.sample(range(nodes), 1 + rng.below(max(1, nodes // 2)))))


def _draw_memberships(rng: Rng, nodes: int) -> tuple[Membership, ...]:
    count = 1 + rng.below(3) if rng.chance(0.5) else 2 + rng.below(7)
    if nodes <= MANY_GROUPS_NODES_MAX and rng.chance(0.08):
        count = 30 + rng.below(170)
    everybody = list(range(nodes))
    found = []
    for number in range(count):
        size = 2 + rng.below(nodes - 1)
        members = tuple(sorted(rng.sample(everybody, size)))
        others = [index for index in everybody if index not in members]
        openers = tuple(sorted(rng.sample(others, min(len(others), rng.below(3)))))
        found.append(Membership(group=f"g{number}", members=members, openers=openers))
    return tuple(found)


def _draw_faults(
    rng: Rng, nodes: int, memberships: tuple[Membership, ...], seconds: float
) -> tuple[AnyFault, ...]:
    count = 5 + rng.below(12)
    drawn = [_draw_fault(rng.derive(f"{n}"), nodes, memberships, seconds) for n in range(count)]
    return tuple(sorted(drawn, key=lambda fault: fault.at))


def _draw_partition(rng: Rng, nodes: int, at: float, for_s: float) -> faults.Partition:
    island = sorted(rng.sample(range(nodes), 1 + rng.below(max(1, nodes // 2))))
    if rng.chance(0.3):
        island.insert(0, GMS_INDEX)
    elif rng.chance(0.3):
        # Long enough for those who go to come back, into the same split.
        for_s = round(2.0 + 4.0 * rng.uniform(), 3)
        return faults.Partition(at=at, for_s=for_s, island=tuple(island), all_reach_gms=True)
    return faults.Partition(at=at, for_s=for_s, island=tuple(island))


def _draw_cut(rng: Rng, nodes: int, node: int, at: float, for_s: float) -> faults.Cut:
    targets = [index for index in range(GMS_INDEX, nodes) if index != node]
    chosen = sorted(rng.sample(targets, 1 + rng.below(len(targets))))
    return faults.Cut(at=at, for_s=for_s, source=node, targets=tuple(chosen))


def _draw_mute(rng: Rng, node: int, at: float, for_s: float) -> faults.Mute:
    way = rng.below(4)
    return faults.Mute(at=at, for_s=for_s, node=node, is_heard=way == 1, hears=way == 2)


def _draw_fault(
    rng: Rng, nodes: int, memberships: tuple[Membership, ...], seconds: float
) -> AnyFault:
    at = round(0.2 + (seconds - 0.4) * rng.uniform(), 4)
    for_s = round(0.1 + 1.9 * rng.uniform(), 4)
    if rng.chance(0.2):
        # Long enough to be noticed by the failure detector.
        for_s += 2.5
    node = rng.below(nodes)
    rate = round(0.01 + 0.3 * rng.uniform() * rng.uniform(), 4)
    membership = rng.choice(memberships)
    match rng.choice(_KINDS):
        case faults.Loss:
            return faults.Loss(at=at, for_s=for_s, node=node, rate=rate)
        case faults.Bursts:
            length = float(2 + rng.below(40))
            return faults.Bursts(at=at, for_s=for_s, node=node, rate=rate, length=length)
        case faults.Deafness:
            return faults.Deafness(at=at, for_s=for_s, node=node, deaf_s=0.01, every_s=0.25)
        case faults.Sleeps:
            return faults.Sleeps(at=at, for_s=for_s, node=node, sleep_s=0.2, every_s=0.6)
        case faults.Duplicates:
            return faults.Duplicates(at=at, for_s=for_s, node=node, rate=2 * rate)
        case faults.Reordering:
            hold = round(0.0005 + 0.02 * rng.uniform() * rng.uniform(), 5)
            return faults.Reordering(at=at, for_s=for_s, node=node, rate=2 * rate, hold_s=hold)
        case faults.Delay:
            delay = round(0.05 * rng.uniform() * rng.uniform(), 5)
            return faults.Delay(at=at, for_s=for_s, node=node, delay_s=delay, jitter_s=delay)
        case faults.Corruption:
            return faults.Corruption(at=at, for_s=for_s, node=node, rate=rate)
        case faults.Freeze | faults.Unread as kind:
            long = round(3.0 + 7.0 * rng.uniform(), 3) if rng.chance(0.3) else for_s
            is_frozen = kind is faults.Freeze
            return (faults.Freeze if is_frozen else faults.Unread)(at=at, for_s=long, node=node)
        case faults.Slowness:
            return faults.Slowness(at=at, for_s=for_s, node=node, factor=float(2 + rng.below(30)))
        case faults.Drift:
            return faults.Drift(at=at, node=node, rate=round((rng.uniform() - 0.5) * 0.02, 5))
        case faults.Crash:
            restarts = rng.chance(0.7)
            return faults.Crash(at=at, for_s=for_s, node=node, restarts=restarts)
        case faults.Partition:
            return _draw_partition(rng, nodes, at, for_s)
        case faults.Cut | faults.Mute as kind:
            cut = _draw_cut(rng, nodes, node, at, for_s)
            return cut if kind is faults.Cut else _draw_mute(rng, node, at, for_s)
        case faults.Leave:
            node = rng.choice(membership.members)
            return faults.Leave(at=at, for_s=for_s, node=node, group=membership.group)
        case faults.Join:
            return faults.Join(at=at, for_s=for_s, node=node, group=membership.group)
        case faults.GmsRestart | faults.GmsCut as kind:
            return _draw_gms_fault(rng, kind is faults.GmsCut, at, for_s)
        case other:
            raise AssertionError(f"no way to draw {other}")


def _draw_gms_fault(rng: Rng, is_cut: bool, at: float, for_s: float) -> AnyFault:
    if is_cut:
        return faults.GmsCut(at=at, for_s=round(1.0 + 9.0 * rng.uniform(), 3))
    return faults.GmsRestart(at=at, for_s=for_s)
