"""A trial of scopes as a value: the tree, who is in which topic, the load, the faults."""

from __future__ import annotations

import msgspec

from quicksilver.trials.faults import Fault


class ScopePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A scope that is no node, and its manager."""

    name: str
    owners: tuple[str, ...] = ()
    policy: str = "star"
    recovery: str = "ring"
    network: str = ""
    """The network that its manager is in."""
    links: str = "tcp"
    """How messages come to its nodes along channels: ``tcp``, or ``udp``, which loses some."""
    is_behind_nat: bool = False
    """True: nobody outside of its network can dial its manager, nor its nodes."""


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A node, in the network of its scope."""

    name: str
    owner: str
    joins: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    """Topics that it gets messages of, and topics that it sends to."""


class CrashNode(Fault, frozen=True, kw_only=True):
    """A node's process is killed; it starts again, as a new life, when the fault ends.

    One that takes no time is for ever.
    """

    node: str


class FreezeNode(Fault, frozen=True, kw_only=True):
    """A node's process does nothing, and what is sent to it waits."""

    node: str


class CrashManager(Fault, frozen=True, kw_only=True):
    """A manager's process is killed; it starts again from what it saved."""

    scope: str


class CutNetworks(Fault, frozen=True, kw_only=True):
    """Nothing passes between a network and the others."""

    network: str


class Loss(Fault, frozen=True, kw_only=True):
    """Datagrams in a network are lost, each by itself."""

    network: str
    rate: float


class Leave(Fault, frozen=True, kw_only=True):
    """A node leaves a topic, and joins it again when the fault ends."""

    node: str
    topic: str


class ChangeSession(Fault, frozen=True, kw_only=True):
    """The root of a topic begins a new session, unless its manager is away."""

    topic: str
    ordering: str = "fifo"
    reliability: str = "repair"
    key: str = ""
    """The key that its messages are sealed with, which all nodes have; empty: they are open."""


AnyFault = CrashNode | FreezeNode | CrashManager | CutNetworks | Loss | Leave | ChangeSession


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a trial of scopes depends on; the same plan gives the same run."""

    seed: int
    scopes: tuple[ScopePlan, ...]
    """Owners before members."""
    nodes: tuple[NodePlan, ...]
    faults: tuple[AnyFault, ...]
    seconds: float
    """How long faults and load last."""
    interval_s: float
    """Mean time between two sends of one sender to one topic."""
    burst: int
    """Most messages in one send."""
    sizes: tuple[int, ...]
    near_s: float = 100e-6
    far_s: float = 5e-3
    """Latency inside of a network, and between networks."""
    drop_rate: float = 0.0
    """Part of the datagrams that is lost in every network while faults last."""
    copies_bytes: int = 16 << 20

    def key_names(self) -> tuple[str, ...]:
        """Return the names of the keys that sessions have."""
        changes = [fault for fault in self.faults if isinstance(fault, ChangeSession)]
        return tuple(sorted({change.key for change in changes if change.key}))

    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({t for node in self.nodes for t in (*node.joins, *node.opens)}))
