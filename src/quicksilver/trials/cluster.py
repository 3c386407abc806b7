"""A cluster in virtual time.

::

    cluster = Cluster(seed=7)
    a, b, c = cluster.start(3)
    for node in (a, b):
        node.join("prices")
    c.open("prices")
    cluster.settle()
    c.send("prices", b"one", b"two")
    cluster.run(1.0)
    assert b.delivered[cluster.group_id("prices")] == 2

A *standing* cluster is one whose membership stands from the start: everybody knows everybody.
A node's own picture of a cluster of thousands is a megabyte, and with the GMS's updates to
all of them a simulation of 20,000 nodes would need hundreds of gigabytes. Where nobody
comes or goes, one directory serves all nodes; what they say to each other is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.directory import Directory, Misfit
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import Store
from quicksilver.multicast.config import EngineConfig
from quicksilver.sim.events import EventQueue
from quicksilver.sim.machine import SharedCpu
from quicksilver.sim.model import IDEAL, HostModel, LinkModel
from quicksilver.sim.network import VirtualNetwork
from quicksilver.stdx.rand import Rng
from quicksilver.trace.records import Tracer
from quicksilver.trials.features import Features
from quicksilver.trials.gms import SimGms
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Digest, Violation, Watcher, Watchers
from quicksilver.wire import gms
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import NodeId


class Cluster:
    """Nodes, a GMS and a network, in one process and in virtual time."""

    def __init__(
        self,
        *,
        seed: int = 1,
        config: EngineConfig | None = None,
        model: HostModel = IDEAL,
        link: LinkModel | None = None,
        settings: ClusterSettings | None = None,
        gms_config: ServiceConfig | None = None,
        planner: str = "exact",
        limits: PlanLimits | None = None,
        store: Store | None = None,
        fresh_ports: bool = True,
        make_service: Callable[..., MembershipService] = MembershipService,
        tracer: Tracer | None = None,
        digests: bool = False,
        cores: int = 0,
        stands: bool = False,
        without_multicast: frozenset[int] = frozenset(),
        features: Features | None = None,
    ) -> None:
        """``fresh_ports``: a node that starts again has another port than before.

        ``cores``: all nodes are processes of one machine with so many; 0: each has a
        machine of its own.

        ``without_multicast``: nodes, by index, whose network carries none.

        ``features``: what nodes use beyond plain messages and names.

        ``stands``: nodes do not ask the GMS; see ``make_standing``.

        ``digests``: keep a digest of every datagram and delivery; costs a few
        microseconds each.
        """
        self.seed = seed
        self.rng = Rng(seed)
        self.events = EventQueue()
        self.shared_cpu = SharedCpu(self.events, cores) if cores else None
        self.config = config or EngineConfig(packet_bytes=1400)
        self.model = model
        self.fresh_ports = fresh_ports
        self.stands = stands
        self.without_multicast = without_multicast
        self.features = features or Features()
        self.tracer = tracer
        self.network = VirtualNetwork(self.events, self.rng.derive("network"), link)
        self.gms = SimGms(
            self.network,
            self.rng,
            settings=settings,
            config=gms_config,
            planner=planner,
            limits=limits,
            store=store,
            make_service=make_service,
        )
        self.nodes: list[SimNode] = []
        """The present, or last, life of every node, by index."""
        self.lives: list[SimNode] = []
        """Every life there was, in the order they began."""
        self.watching = Watchers(self)
        """Whatever happens is told to it: ``cluster.watching.on_look()``."""
        self.watchers = self.watching.each
        self._group_ids: dict[str, int] = {}
        self._group_names: dict[int, str] = {}
        self._digest: Digest | None = None
        if digests:
            self._digest = Digest(self)
            self.watchers.append(self._digest)

    # Time

    @property
    def now(self) -> float:
        return self.events.now

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Advance time; True as soon as ``until`` holds."""
        return self.events.run(seconds, until)

    def every(self, seconds: float, work: Callable[[], None], until: float) -> None:
        """Do something again and again until a time."""

        def again() -> None:
            work()
            if self.now + seconds <= until:
                self.events.after(seconds, again)

        self.events.after(seconds, again)

    # Nodes

    def start(
        self,
        count: int = 1,
        *,
        config: EngineConfig | None = None,
        model: HostModel | None = None,
    ) -> list[SimNode]:
        """Start new nodes."""
        return [
            self._start(len(self.nodes), 0, config or self.config, model or self.model)
            for _ in range(count)
        ]

    def restart(self, index: int) -> SimNode:
        """Start a node that crashed again: a new process without memory."""
        before = self.nodes[index]
        assert before.is_dead
        return self._start(index, before.life + 1, before.config, before.host.model)

    def _start(self, index: int, life: int, config: EngineConfig, model: HostModel) -> SimNode:
        rng = self.rng.derive(f"node {index}.{life}")
        node = SimNode(self, index, life, config=config, model=model, rng=rng)
        if index == len(self.nodes):
            self.nodes.append(node)
        else:
            self.nodes[index] = node
        self.lives.append(node)
        self.watching.on_started(node)
        return node

    def alive(self) -> list[SimNode]:
        """Nodes whose process runs."""
        return [node for node in self.nodes if not node.is_dead]

    def settle(self, seconds: float = 10.0) -> bool:
        """Run until all who are alive are in what they asked for."""
        return self.run(seconds, self.is_settled)

    def is_settled(self) -> bool:
        return all(node.joined | node.opened <= node.ready for node in self.alive())

    # Groups

    def name_group(self, group: int, name: str) -> None:
        self._group_ids[name] = group
        self._group_names[group] = name

    def group_id(self, name: str) -> int:
        """The number of a group; KeyError before anybody is in it."""
        return self._group_ids[name]

    def group_name(self, group: int) -> str:
        return self._group_names[group]

    # Watching

    def spoken(self) -> int:
        """Return how much was said that silence would leave unsaid: all datagrams."""
        return self.network.sent_packets

    def watch(self, *kinds: type[Watcher]) -> list[Watcher]:
        """Have checks watch from now on."""
        made = [kind(self) for kind in kinds]
        self.watchers += made
        return made

    def violations(self) -> list[Violation]:
        """What watchers found so far, earliest first."""
        found = [violation for watcher in self.watchers for violation in watcher.violations]
        return sorted(found, key=lambda violation: violation.at)

    def digest(self) -> str:
        """Fingerprint of everything that was sent and delivered, and when."""
        assert self._digest is not None
        return self._digest.value()


CLUSTER = 1
REGION, GROUP = 1, 1
ADDRESS = "239.192.0.1"


def make_standing(cluster: Cluster, group: str, count: int) -> list[SimNode]:
    """Start so many nodes that are in one group from the first moment.

    The cluster must have been made with ``stands=True``: its GMS is not asked.
    """
    nodes = cluster.start(count)
    numbers = tuple(range(1, count + 1))
    directory = Directory()
    change = directory.apply(
        gms.Update(
            batch=1,
            nodes=tuple(
                gms.NodeInfo(number, f"n{number}", *node.address)
                for number, node in zip(numbers, nodes, strict=True)
            ),
            regions=(gms.RegionChange(REGION, 1, 0, ADDRESS, joined=numbers),),
            groups=(gms.GroupChange(GROUP, group, 1, 0, ((REGION, 1),), joined=numbers),),
        )
    )
    assert not isinstance(change, Misfit), change.reason
    views = ViewsChanged(change.regions, change.groups, (), (), ())
    for number, node in zip(numbers, nodes, strict=True):
        welcome = Welcomed(NodeId(number), CLUSTER, cluster.gms.settings, resumed=False)
        node.become_standing(directory, (welcome, views), group)
    return nodes


def settle(cluster: Cluster, nodes: Sequence[SimNode]) -> None:
    """Run until every node can send to the group."""
    while not all(node.senders for node in nodes):
        cluster.run(0.001)
