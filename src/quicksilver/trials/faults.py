"""All that can go wrong in a trial, each fault a value: when, for how long, to whom.

A trial's faults are a list, so a run can be repeated with fewer of them until
only those are left that matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, get_args

import msgspec

from quicksilver.trials.gms import GMS_INDEX

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster

ISLAND = 1
GMS_ISLAND = 2


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base: begins at ``at`` and ends ``for_s`` later, in virtual seconds."""

    at: float
    for_s: float = 0.0

    def begin(self, cluster: Cluster) -> None:
        raise NotImplementedError

    def end(self, cluster: Cluster) -> None:
        """Undo it; the default is for faults that are over at once."""


class NodeFault(Fault, frozen=True, kw_only=True):
    """Happens to one node, in whichever life it is."""

    node: int


class Loss(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node are lost, each by itself."""

    rate: float

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.drop_rate = self.rate

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.drop_rate = 0.0


class Bursts(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node are lost in a row."""

    rate: float
    length: float

    def begin(self, cluster: Cluster) -> None:
        weather = cluster.nodes[self.node].host.weather
        weather.burst_rate, weather.burst_length = self.rate, self.length

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.burst_rate = 0.0


class Deafness(NodeFault, frozen=True, kw_only=True):
    """A node loses everything for ``deaf_s`` out of every ``every_s`` ("loss", 4.3.2)."""

    deaf_s: float
    every_s: float

    def begin(self, cluster: Cluster) -> None:
        end = cluster.now + self.for_s

        def again() -> None:
            cluster.nodes[self.node].host.weather.deaf_until = cluster.now + self.deaf_s
            if cluster.now + self.every_s < end:
                cluster.events.after(self.every_s, again)

        again()

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.deaf_until = 0.0


class Sleeps(NodeFault, frozen=True, kw_only=True):
    """A node stops for ``sleep_s`` out of every ``every_s`` ("sleep", 4.3.2)."""

    sleep_s: float
    every_s: float

    def begin(self, cluster: Cluster) -> None:
        end = cluster.now + self.for_s

        def again() -> None:
            cluster.nodes[self.node].freeze(self.sleep_s)
            if cluster.now + self.every_s < end:
                cluster.events.after(self.every_s, again)

        again()


class Duplicates(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node arrive twice."""

    rate: float

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.duplicate_rate = self.rate

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.duplicate_rate = 0.0


class Reordering(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node overtake each other."""

    rate: float
    hold_s: float

    def begin(self, cluster: Cluster) -> None:
        weather = cluster.nodes[self.node].host.weather
        weather.reorder_rate, weather.reorder_s = self.rate, self.hold_s

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.reorder_rate = 0.0


class Delay(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node take longer, and not all equally long."""

    delay_s: float
    jitter_s: float

    def begin(self, cluster: Cluster) -> None:
        weather = cluster.nodes[self.node].host.weather
        weather.delay_s, weather.jitter_s = self.delay_s, self.jitter_s

    def end(self, cluster: Cluster) -> None:
        weather = cluster.nodes[self.node].host.weather
        weather.delay_s = weather.jitter_s = 0.0


class Corruption(NodeFault, frozen=True, kw_only=True):
    """Datagrams to a node arrive as stumps or noise."""

    rate: float

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.corrupt_rate = self.rate

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.weather.corrupt_rate = 0.0


class Freeze(NodeFault, frozen=True, kw_only=True):
    """A node's process stops and goes on where it was."""

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].freeze(self.for_s)


class Unread(NodeFault, frozen=True, kw_only=True):
    """A node's application does not read: what comes for it stays in the kernel."""

    def begin(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        for group in sorted(node.joined):
            node.session.pause(group)

    def end(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        for group in sorted(node.joined):
            node.session.resume(group)
        node.host.submit(lambda: None)


class Slowness(NodeFault, frozen=True, kw_only=True):
    """A node's processor takes longer for everything."""

    factor: float

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.set_slowness(self.factor)

    def end(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.set_slowness(1.0)


class Drift(NodeFault, frozen=True, kw_only=True):
    """A node's clock runs faster or slower, to the end of the trial."""

    rate: float

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].host.set_drift(self.rate)


class Crash(NodeFault, frozen=True, kw_only=True):
    """A node dies with all its state; ``for_s`` later it starts again, if ``restarts``."""

    restarts: bool = True

    def begin(self, cluster: Cluster) -> None:
        cluster.nodes[self.node].crash()

    def end(self, cluster: Cluster) -> None:
        if self.restarts and cluster.nodes[self.node].is_dead:
            cluster.restart(self.node)


class Partition(Fault, frozen=True, kw_only=True):
    """Some nodes, and perhaps the GMS, are cut off from the others."""

    island: tuple[int, ...]
    all_reach_gms: bool = False
    """True: only datagrams between nodes are lost, and every node talks to the GMS."""

    def begin(self, cluster: Cluster) -> None:
        if self.all_reach_gms:
            for source, target in self._ways(cluster):
                cluster.network.cut(source, target)
            return
        for index in self.island:
            cluster.network.set_island(index, ISLAND)

    def end(self, cluster: Cluster) -> None:
        if self.all_reach_gms:
            for source, target in self._ways(cluster):
                cluster.network.mend(source, target)
            return
        for index in self.island:
            cluster.network.set_island(index, 0)

    def _ways(self, cluster: Cluster) -> Iterator[tuple[int, int]]:
        others = [node.index for node in cluster.nodes if node.index not in self.island]
        for inside, outside in product(self.island, others):
            yield inside, outside
            yield outside, inside


class Cut(Fault, frozen=True, kw_only=True):
    """Nothing passes from one host to others, while the other way works."""

    source: int
    targets: tuple[int, ...]

    def begin(self, cluster: Cluster) -> None:
        for target in self.targets:
            cluster.network.cut(self.source, target)

    def end(self, cluster: Cluster) -> None:
        for target in self.targets:
            cluster.network.mend(self.source, target)


class Mute(NodeFault, frozen=True, kw_only=True):
    """A node's datagrams reach nobody, or nobody's reach it; its stream to the GMS works."""

    is_heard: bool = False
    """True: only what others send is lost."""
    hears: bool = False
    """True: only what it sends is lost."""

    def begin(self, cluster: Cluster) -> None:
        for source, target in self._ways(cluster):
            cluster.network.cut(source, target)

    def end(self, cluster: Cluster) -> None:
        for source, target in self._ways(cluster):
            cluster.network.mend(source, target)

    def _ways(self, cluster: Cluster) -> list[tuple[int, int]]:
        others = [node.index for node in cluster.nodes if node.index != self.node]
        outward = [] if self.is_heard else [(self.node, other) for other in others]
        inward = [] if self.hears else [(other, self.node) for other in others]
        return outward + inward


class Leave(NodeFault, frozen=True, kw_only=True):
    """A node leaves a group and joins it again ``for_s`` later."""

    group: str

    def begin(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        if not node.is_dead and self.group in node.joined:
            node.leave(self.group)

    def end(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        if not node.is_dead and self.group not in node.joined:
            node.join(self.group)


class Join(NodeFault, frozen=True, kw_only=True):
    """A node joins a group that it was not in, and leaves it ``for_s`` later."""

    group: str

    def begin(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        if not node.is_dead and self.group not in node.joined:
            node.join(self.group)

    def end(self, cluster: Cluster) -> None:
        node = cluster.nodes[self.node]
        if not node.is_dead and self.group in node.joined:
            node.leave(self.group)


class GmsRestart(Fault, frozen=True, kw_only=True):
    """The GMS is killed and comes back ``for_s`` later on what it had stored."""

    def begin(self, cluster: Cluster) -> None:
        cluster.gms.restart(self.for_s)

    def end(self, cluster: Cluster) -> None:
        cluster.gms.come_up()


class GmsCut(Fault, frozen=True, kw_only=True):
    """The GMS's own link is down: it hears no node, and no node hears it."""

    def begin(self, cluster: Cluster) -> None:
        cluster.network.set_island(GMS_INDEX, GMS_ISLAND)

    def end(self, cluster: Cluster) -> None:
        cluster.network.set_island(GMS_INDEX, 0)


AnyFault = (
    Loss
    | Bursts
    | Deafness
    | Sleeps
    | Duplicates
    | Reordering
    | Delay
    | Corruption
    | Freeze
    | Slowness
    | Drift
    | Crash
    | Partition
    | Cut
    | Mute
    | Unread
    | Leave
    | Join
    | GmsRestart
    | GmsCut
)

KINDS: tuple[type[Fault], ...] = get_args(AnyFault)


def schedule(cluster: Cluster, faults: tuple[AnyFault, ...], until: float) -> None:
    """Let faults happen; what would end after ``until`` is ended by ``heal``."""
    for fault in faults:
        cluster.events.at(fault.at, partial(fault.begin, cluster))
        if fault.for_s and fault.at + fault.for_s < until:
            cluster.events.at(fault.at + fault.for_s, partial(fault.end, cluster))


def heal(cluster: Cluster, faults: tuple[AnyFault, ...]) -> None:
    """End every fault now. Clocks keep their drift: that is no illness."""
    for fault in faults:
        if fault.at + fault.for_s >= cluster.now and not isinstance(fault, Drift):
            fault.end(cluster)
    cluster.network.heal()
    for node in cluster.nodes:
        node.host.weather.clear()
        node.host.set_slowness(1.0)
        node.host.thaw()


def describe(fault: Fault) -> str:
    """Return a fault as one line for people."""
    fields = {k: v for k, v in msgspec.to_builtins(fault).items() if k not in ("type", "at")}
    if fields.get("island"):
        names = ["gms" if i == GMS_INDEX else str(i) for i in fields["island"]]
        fields["island"] = "+".join(names)
    rest = " ".join(f"{key}={value}" for key, value in fields.items())
    return f"{fault.at:8.3f} s  {type(fault).__name__} {rest}"
